"""The variables of a file: what they hold, where they are bound, where their values are used."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import libcst as cst

from amplint.facts.data_flow import DataFlow
from amplint.source.literals import literal
from amplint.source.navigation import Layout
from amplint.source.scopes import Scopes, assignments


class TryStatement(NamedTuple):
    """The text of what a `try` tries, and the names of what it catches: "Exception" if all."""

    caught: frozenset[str]
    text: str


class Variables:
    """Questions about the variables of one file.

    Args:
        layout: the file's nodes.
        scopes: where its names are bound.
        flow: where its values are read.
    """

    def __init__(self, layout: Layout, scopes: Scopes, flow: DataFlow) -> None:
        self._layout = layout
        self._scopes = scopes
        self._flow = flow
        self._assigned: dict[ast.AST, dict[tuple[str, object], list[ast.expr]]] = {}

    def uses(self, node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
        """The expressions that read the value of `node` within its function; see `joined`."""
        return tuple(use for use in self._uses(node) if isinstance(use, cst.BaseExpression))

    def joined(self, node: cst.CSTNode) -> bool:
        """Whether `uses` may not be all: where the value may be one of several at some place."""
        thing = self._layout.ast_of(node)
        if not isinstance(thing, ast.expr) or self._flow.joined(thing):
            return True
        return any(use is None for use in self._uses(node))

    def origin(self, name: cst.Name) -> cst.BaseExpression | None:
        """The expression whose value a variable certainly has where it is read."""
        thing = self._layout.ast_of(name)
        if not isinstance(thing, ast.Name) or not isinstance(thing.ctx, ast.Load):
            return None
        origins = [value for value in self._assigned_values(thing) if value is not thing]
        if len(origins) != 1:
            return None
        node = self._layout.node_for(origins[0])
        return node if isinstance(node, cst.BaseExpression) else None

    def parameter(self, name: cst.Name) -> cst.Param | None:
        """The parameter of its function whose value a variable certainly has where it is read."""
        thing, function = self._layout.ast_of(name), self._layout.function(name)
        param_name = self._flow.parameter(thing) if isinstance(thing, ast.expr) else None
        if param_name is None or function is None:
            return None
        params = function.params
        plain = (*params.posonly_params, *params.params, *params.kwonly_params)
        return next((param for param in plain if param.name.value == param_name), None)

    def global_value(self, name: cst.Name) -> cst.BaseExpression | None:
        """The expression that is assigned to a variable of the module, if nothing else ever is."""
        bindings = self._scopes.bindings(name.value)
        if len(bindings) != 1 or bindings[0].scope is not self._layout.module:
            return None
        value = self._module_values.get(bindings[0].node)
        node = self._layout.node_for(value) if value is not None else None
        return node if isinstance(node, cst.BaseExpression) else None

    @cached_property
    def _module_values(self) -> dict[ast.AST, ast.expr]:
        """By the only target of each assignment at the top of the module, what is assigned."""
        return {
            statement.targets[0]: statement.value
            for statement in self._layout.module.body
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1
        }

    def try_statements(self, name: str) -> Iterator[TryStatement]:
        """The `try` statements in which the module binds a variable, in whatever part of them.

        Ex) try: from torch.amp import autocast; NEW = True except ImportError: NEW = False
        """
        for statement in self._scopes.module.body:
            if isinstance(statement, ast.Try) and any(
                each.scope is self._scopes.module and within(statement, each.node)
                for each in self._scopes.bindings(name)
            ):
                types = [each.type for each in statement.handlers]
                words = (re.findall(r"\w+", ast.unparse(t)) if t else ("Exception",) for t in types)
                text = "\n".join(map(ast.unparse, statement.body))
                yield TryStatement(frozenset(itertools.chain.from_iterable(words)), text)

    def bound_once(self, name: cst.Name) -> bool:
        """Whether one place alone binds a variable in its function."""
        thing = self._layout.ast_of(name)
        if thing is None:
            return False
        scope = self._scopes.scope(thing)
        return sum(each.scope is scope for each in self._scopes.bindings(name.value)) == 1

    def bound_within(self, name: cst.Name, around: cst.CSTNode) -> bool:
        """Whether a variable is bound by something inside of a node that its reading stands in."""
        thing, outer = self._layout.ast_of(name), self._layout.span(around)
        if thing is None:
            return True
        scope = self._scopes.scope(thing)
        return any(
            each.scope is scope
            and outer.start.row <= getattr(each.node, "lineno", 0) <= outer.end.row
            for each in self._scopes.bindings(name.value)
        )

    def unpacked(self, name: cst.Name) -> cst.BaseExpression | None:
        """The expression whose items a variable holds one of, if nothing else binds it: x.shape of
        `rows, columns = x.shape`."""
        thing = self._layout.ast_of(name)
        if not isinstance(thing, ast.Name) or not self.bound_once(name):
            return None
        scope = self._scopes.scope(thing)
        for each in ast.walk(scope):
            if isinstance(each, ast.Assign) and self._scopes.scope(each) is scope:
                targets = [target for target in each.targets if isinstance(target, ast.Tuple)]
                items = (item for target in targets for item in target.elts)
                if any(isinstance(item, ast.Name) and item.id == thing.id for item in items):
                    node = self._layout.node_for(each.value)
                    return node if isinstance(node, cst.BaseExpression) else None
        return None

    def is_fixed(self, name: cst.Name) -> bool:
        """Whether a name is bound by the module alone, by imports, or is a builtin: no caller of a
        function decides what it holds."""
        return all(
            each.scope is self._layout.module or each.target is not None
            for each in self._scopes.bindings(name.value)
        )

    def written_into(self, name: cst.Name) -> bool:
        """Whether its function writes into what a variable holds, at any time: `w.mul_(2)`."""
        thing = self._layout.ast_of(name)
        return thing is None or self._scopes.written_into(name.value, thing)

    def same_meaning(self, node: cst.CSTNode, earlier: cst.CSTNode) -> bool:
        """Whether the arguments of a call (or any other expression) would mean the same at an
        earlier place in the same function: only plain variables, attributes and constants do."""
        at = self._layout.ast_around(earlier)
        parts = [arg.value for arg in node.args] if isinstance(node, cst.Call) else [node]
        things = [self._layout.ast_of(part) for part in parts if literal(part) is None]
        if at is None:
            return False
        return all(thing is not None and self._means_the_same(thing, at) for thing in things)

    def same_before(self, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
        """Whether an expression in a loop means the same before it, if its calls always give the
        same: nothing that it reads is bound or assigned within the loop."""
        thing, around = self._layout.ast_of(node), self._layout.ast_of(loop)
        if thing is None or around is None:
            return False
        bound = {
            each.id if isinstance(each, ast.Name) else each.attr
            for each in ast.walk(around)
            if isinstance(each, ast.Name | ast.Attribute) and not isinstance(each.ctx, ast.Load)
        }
        return all(
            each.id not in bound and self._scopes.same_value(each.id, around, each)
            if isinstance(each, ast.Name)
            else not (isinstance(each, ast.Attribute) and each.attr in bound)
            for each in ast.walk(thing)
        )

    def same_at(self, node: cst.CSTNode, place: cst.CSTNode) -> bool:
        """Whether all that an expression reads is bound at another place in its function too,
        before it or behind it, and to the same values, as far as names go: an edit may use them
        there. Its calls may give something else."""
        if isinstance(place, cst.SimpleStatementLine):
            place = place.body[0]
        thing, other = self._layout.ast_of(node), self._layout.ast_around(place)
        if thing is None or other is None:
            return False
        is_behind = self._layout.span(place).start > self._layout.span(node).start
        earlier, later = (thing, other) if is_behind else (other, thing)
        names = (each.id for each in ast.walk(thing) if isinstance(each, ast.Name))
        bound = all(self._scopes.is_bound(name, other) for name in names)
        return bound and self._reads_the_same(thing, earlier, later)

    def _reads_the_same(self, thing: ast.AST, earlier: ast.AST, later: ast.AST) -> bool:
        changing = self._scopes.attributes_change(earlier, later)
        return all(
            self._scopes.same_value(part.id, earlier, later)
            if isinstance(part, ast.Name)
            else not (isinstance(part, ast.Attribute) and part.attr in changing)
            for part in ast.walk(thing)
        )

    def _means_the_same(self, thing: ast.AST, earlier: ast.AST) -> bool:
        parts = list(ast.walk(thing))
        plain = (ast.Name, ast.Attribute, ast.Constant, ast.expr_context)
        return all(isinstance(part, plain) for part in parts) and self._reads_the_same(
            thing, earlier, thing
        )

    def _uses(self, node: cst.CSTNode) -> list[cst.CSTNode | None]:
        thing = self._layout.ast_of(node)
        if not isinstance(thing, ast.expr):
            return []
        return [self._layout.node_for(use) for use in self._flow.uses(thing)]

    def _assigned_values(self, name: ast.Name) -> Sequence[ast.expr]:
        """The value of a variable where it is read, if statements `name = value` assign it in
        its function."""
        scope = self._scopes.scope(name)
        if scope not in self._assigned:  # one walk for all names: rules ask for many
            by_meaning: dict[tuple[str, object], list[ast.expr]] = {}
            for each, values in assignments(scope).items():
                for value in values:
                    by_meaning.setdefault((each, self._flow.same(value)), []).append(value)
            self._assigned[scope] = by_meaning
        meaning = self._flow.same(name)
        return self._assigned[scope].get((name.id, meaning), ()) if meaning is not None else ()


def within(statement: ast.stmt, node: ast.AST) -> bool:
    """Whether a node is in a statement."""
    return any(each is node for each in ast.walk(statement))
