"""One file as it is written: its nodes, what stands around them, where, and with which words."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from amplint.source.segments import RefusedUnitError, Tree, Unit, Units, place
from amplint.util.positions import Span
from amplint.util.text import Text

BRIEF = 40
# Before Python 3.12, `ast` has wrong positions inside of f-strings.
FSTRING_PLACES_HOLD = sys.version_info >= (3, 12)

Definition = cst.FunctionDef | cst.Lambda | cst.ClassDef
Kinds = tuple[type[cst.CSTNode], ...]
DEFINITIONS: Kinds = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
FSTRINGS: Kinds = (cst.FormattedStringExpression,)
LITERALS: Kinds = (cst.BaseNumber, cst.BaseString, cst.Ellipsis, cst.Name)


class Layout:
    """The questions about a file that need no knowledge of what it means.

    Args:
        path: the file.
        text: what it holds.
        module: its tree.
    """

    def __init__(self, path: str, text: Text, module: ast.Module) -> None:
        self.path = path
        self.content = text
        self.module = module
        self.units = Units(text, module)
        self._parents: dict[int, cst.CSTNode] = {}
        self._pairs: dict[int, ast.AST] = {}
        self._trees: dict[int, Tree] = {}
        self._innermost: dict[Kinds, dict[int, cst.CSTNode | None]] = {}
        self._opened: dict[int, Tree] = {}  # in the order of opening

    def open(self, unit: Unit) -> Tree:
        """A unit as LibCST reads it, its nodes known from now on. Raises RefusedUnitError."""
        tree = self.units.tree(unit)
        if id(tree) not in self._opened:
            self._opened[id(tree)] = tree
            self._parents.update(tree.parents)
            self._pairs.update(tree.pairs)
            self._trees.update(dict.fromkeys(map(id, tree.nodes), tree))
        return tree

    # ------------------------------------------------------------------------------ structure

    def parent(self, node: cst.CSTNode | None) -> cst.CSTNode | None:
        """The node around a node; None at the top of a unit."""
        return None if node is None else self._parents.get(id(node))

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, from the inside out, up to its unit."""
        parent = self._parents.get(id(node))
        while parent is not None:
            yield parent
            parent = self._parents.get(id(parent))

    def statement(self, node: cst.CSTNode) -> cst.BaseStatement | None:
        """The innermost line of simple statements, or compound statement, that holds a node."""
        for around in itertools.chain((node,), self.ancestors(node)):
            if isinstance(around, cst.BaseStatement):
                return around
        return None

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Lambda | None:
        """The innermost function around a node."""
        around = self._definition(node)
        while isinstance(around, cst.ClassDef):
            around = self._definition(around)
        return around

    def scope(self, node: cst.CSTNode) -> str:
        """The qualified name of the definition around a node: "Trainer.step", "" for the module."""
        names = []
        walked = self._walked(node)
        own = isinstance(walked, Definition) and walked is not node
        around = walked if own else self._definition(walked)
        while around is not None:
            if isinstance(around, (cst.FunctionDef, cst.ClassDef)):
                names.append(around.name.value)
            around = self._definition(around)
        tree = self._tree(node)
        if tree is not None and tree.unit.scope:
            names.append(tree.unit.scope)
        return ".".join(reversed(names))

    def innermost(self, node: cst.CSTNode, kinds: Kinds) -> cst.CSTNode | None:
        """The innermost node of some kinds around a node, remembered for all that stands in it."""
        memo = self._innermost.setdefault(kinds, {})
        passed: list[int] = []
        current: cst.CSTNode | None = node
        while current is not None and id(current) not in memo:
            passed.append(id(current))
            current = self._parents.get(id(current))
            if isinstance(current, kinds):
                break
        else:
            current = memo[id(current)] if current is not None else None
        memo.update(dict.fromkeys(passed, current))
        return current

    def _definition(self, node: cst.CSTNode) -> Definition | None:
        definition = self.innermost(node, DEFINITIONS)
        return definition if isinstance(definition, Definition) else None

    def _walked(self, node: cst.CSTNode) -> cst.CSTNode:
        """The node, or its parent for one that is not walked: the name of a function."""
        if id(node) in self._trees:
            return node
        tree = self._tree(node)
        nodes = reversed(tree.nodes if tree is not None else ())
        inside = (each for each in nodes if any(child is node for child in each.children))
        return next(inside, node)

    def assignment(self, value: cst.CSTNode) -> cst.Assign | cst.AnnAssign | None:
        """The statement `target = value`."""
        parent = self.parent(value)
        if isinstance(parent, (cst.Assign, cst.AnnAssign)) and parent.value is value:
            return parent
        return None

    def value_for(self, target: cst.CSTNode) -> cst.BaseExpression | None:
        """`value` in `target = value`, where nothing is unpacked."""
        statement = self.parent(target)
        if isinstance(statement, cst.AssignTarget):
            statement = self.parent(statement)
        return statement.value if isinstance(statement, cst.Assign | cst.AnnAssign) else None

    def assigned(self, value: cst.CSTNode) -> cst.BaseExpression | None:
        """`target` in `target = value`, where there is one target."""
        statement = self.assignment(value)
        if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
            return statement.targets[0].target
        return statement.target if isinstance(statement, cst.AnnAssign) else None

    def assigned_name(self, value: cst.CSTNode) -> str | None:
        """`name` in `name = value`."""
        target = self.assigned(value)
        return target.value if isinstance(target, cst.Name) else None

    def call_on(self, node: cst.CSTNode) -> cst.Call | None:
        """The call of a method of an expression: `x.item()` of `x`."""
        attribute = self.parent(node)
        if not isinstance(attribute, cst.Attribute) or attribute.value is not node:
            return None
        call = self.parent(attribute)
        return call if isinstance(call, cst.Call) and call.func is attribute else None

    def value_used(self, node: cst.CSTNode) -> bool:
        """Whether anything takes the value of an expression: it is no statement of its own."""
        return not isinstance(self.parent(node), cst.Expr)

    def occurrences(self, name: str, node: cst.CSTNode) -> int:
        """How often a variable's name stands in a node."""
        thing = self.ast_of(node)
        if thing is None:
            return 0
        first, end = self._order.bounds[thing]
        at = self._order.names.get(name, ())
        return bisect_left(at, end) - bisect_left(at, first)

    @cached_property
    def _order(self) -> Order:
        return Order(self.module)

    def names(self, node: cst.CSTNode) -> Iterator[cst.Name]:
        """The names within a node, in the order of the text."""
        stack = [node]
        while stack:
            current = stack.pop()
            if isinstance(current, cst.Name):
                yield current
            stack.extend(reversed(current.children))

    # ------------------------------------------------------------------------------ arguments

    def calls(self, node: cst.CSTNode) -> Iterator[cst.Call]:
        """The calls within a node, nested ones included."""
        stack: list[cst.CSTNode] = [node]
        while stack:
            current = stack.pop()
            if isinstance(current, cst.Call):
                yield current
            stack.extend(current.children)

    def returned(self, function: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
        """The values that a function returns, not those of functions within it."""
        stack: list[cst.CSTNode] = [function.body]
        while stack:
            current = stack.pop()
            if isinstance(current, cst.Return) and current.value is not None:
                yield current.value
            elif not isinstance(current, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
                stack.extend(reversed(current.children))

    def has_star(self, call: cst.Call) -> bool:
        """Whether the call has a `*` or `**` argument, and so more than those one can read."""
        return any(arg.star for arg in call.args)

    def keyword(self, call: cst.Call, name: str) -> cst.Arg | None:
        """The argument given by keyword."""
        for arg in call.args:
            if arg.keyword is not None and arg.keyword.value == name:
                return arg
        return None

    def argument(self, call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
        """The argument for a parameter, by keyword or by position.

        None also where a `*` argument stands before it: then nobody knows which one it is.
        """
        by_keyword = self.keyword(call, name)
        if by_keyword is not None or position is None or position >= len(call.args):
            return by_keyword
        before = call.args[: position + 1]
        if any(arg.star or arg.keyword is not None for arg in before):
            return None
        return before[-1]

    # ------------------------------------------------------------------------------ text

    def text(self, node: cst.CSTNode, parentheses: bool = True) -> str:
        """A node as it is written, with its own parentheses or without."""
        if not parentheses or not _parentheses(node):
            dotted = _dotted(node)
            if dotted is not None:
                return dotted
        # Edits ask LibCST, which must give back the text that it has read; `ast` is as good here.
        is_expression = isinstance(self._pairs.get(id(node)), ast.expr)
        cheap = is_expression and not (parentheses and _parentheses(node))
        span = (self._place(node) if cheap else None) or self.offsets(node, parentheses)
        return _code(node) if span is None else self.content.text[slice(*span)]

    def brief(self, node: cst.CSTNode) -> str:
        """A node as it is written, on one line and not too long, for messages."""
        text = self.text(node, parentheses=False)
        if "\n" in text or "\r" in text:
            text = re.sub(r"#[^\r\n]*", "", text)  # comments of an expression over several lines
        written = " ".join(text.split())
        return written if len(written) <= BRIEF else f"{written[: BRIEF - 4].rstrip()} ..."

    def offsets(self, node: cst.CSTNode, parentheses: bool = False) -> tuple[int, int] | None:
        """Where a node begins and ends in the text of the file.

        None where LibCST does not give back the text it has read.
        """
        tree = self._tree(node)
        span = None if tree is None else tree.spans.of(node)
        if tree is None or span is None or not parentheses:
            return span
        own = _parentheses(node)
        if own is None:
            return span
        first, last = tree.spans.of(own[0]), tree.spans.of(own[1])
        return (first[0], last[1]) if first is not None and last is not None else None

    def span(self, node: cst.CSTNode) -> Span:
        """Where a node stands, in characters; of a compound statement, its first line."""
        start, end = self._extent(node)
        if isinstance(node, cst.BaseCompoundStatement):
            row = self.content.position(start).row
            header = self.content.start(row) + len(self.content.line(row).rstrip())
            end = min(end, max(start, header))
        return Span(self.content.position(start), self.content.position(end))

    def _extent(self, node: cst.CSTNode) -> tuple[int, int]:
        for around in itertools.chain((node,), self.ancestors(node)):
            extent = self._place(around) or self.offsets(around)
            if extent is not None:
                return extent
        tree = self._tree(node)
        start = tree.unit.start if tree is not None else 0
        return start, start

    def _place(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """Where `ast` says that a node stands, which costs nothing; None where it does not say, or
        says something else than LibCST does of expressions."""
        thing = self._pairs.get(id(node))
        if not isinstance(thing, (ast.expr, ast.stmt)):
            return None
        # `ast` counts the parentheses of a generator expression or a tuple, LibCST does not.
        if isinstance(thing, ast.GeneratorExp) or (isinstance(node, cst.Tuple) and node.lpar):
            return None
        if not FSTRING_PLACES_HOLD and self._in_fstring(node):
            return None
        return place(self.content, thing)

    # ------------------------------------------------------------------------------ the other tree

    def ast_of(self, node: cst.CSTNode) -> ast.AST | None:
        """The node of the standard library's tree that stands for a node."""
        return self._pairs.get(id(node))

    def ast_around(self, node: cst.CSTNode) -> ast.AST | None:
        """The node of the standard library's tree that stands for `node`, or else for the innermost
        node around it for which there is one."""
        for around in itertools.chain((node,), self.ancestors(node)):
            if id(around) in self._pairs:
                return self._pairs[id(around)]
        return None

    def node_for(self, thing: ast.expr | ast.stmt) -> cst.CSTNode | None:
        """The LibCST node of an `ast` node, also in a unit that was not parsed before. A constant
        is paired with nothing, and found by its place."""
        try:
            tree = self.open(self.units.around(thing))
        except RefusedUnitError:
            return None
        counterpart = tree.by_ast.get(id(thing))
        if counterpart is not None or not isinstance(thing, ast.Constant):
            return counterpart
        literals = (node for node in tree.nodes if isinstance(node, LITERALS))
        at = place(self.content, thing)
        return next((node for node in literals if tree.spans.of(node) == at), None)

    def _in_fstring(self, node: cst.CSTNode) -> bool:
        return self.innermost(node, FSTRINGS) is not None

    def unit(self, node: cst.CSTNode) -> Unit | None:
        """The unit that a node belongs to."""
        tree = self._tree(node)
        return tree.unit if tree is not None else None

    def _tree(self, node: cst.CSTNode) -> Tree | None:
        own_tree = self._trees.get(id(node))
        if own_tree is not None:
            return own_tree
        # A name that is no expression, a comma, a parenthesis: these are not walked.
        for tree in reversed(self._opened.values()):
            if tree.spans.of(node) is not None:
                return tree
        return None


class Order:
    """The nodes of an `ast` tree, numbered as they are entered.

    Attributes:
        bounds: by node, its number, and that of the first node after those within it.
        names: by the name of a variable, the numbers of the nodes that are it.
    """

    def __init__(self, module: ast.AST) -> None:
        self.bounds: dict[ast.AST, tuple[int, int]] = {}
        self.names: dict[str, list[int]] = {}
        count = 0
        stack: list[tuple[ast.AST, int]] = [(module, -1)]  # and its number, once it was entered
        while stack:
            node, number = stack.pop()
            if number >= 0:
                self.bounds[node] = (number, count)
                continue
            if isinstance(node, ast.Name):
                self.names.setdefault(node.id, []).append(count)
            stack.append((node, count))
            stack += [(child, -1) for child in ast.iter_child_nodes(node)]
            count += 1


def _parentheses(node: cst.CSTNode) -> tuple[cst.LeftParen, cst.RightParen] | None:
    """The outermost parentheses of an expression; those of a class or an import are not its own."""
    if isinstance(node, cst.BaseExpression) and node.lpar and node.rpar:
        return node.lpar[0], node.rpar[-1]
    return None


def _dotted(node: cst.CSTNode) -> str | None:
    """The text of a name, or of names and dots without white space between; None for all else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        dot = node.dot
        if dot.whitespace_before.empty and dot.whitespace_after.empty and not node.value.lpar:
            value = _dotted(node.value)
            return f"{value}.{node.attr.value}" if value is not None else None
    return None


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)
