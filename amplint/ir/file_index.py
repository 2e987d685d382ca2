"""Index: from one file's text to its facts. It translates and infers nothing.

Scanning the statements for definitions is done at once; the value graph of a function is built when
somebody asks for it, for most functions never matter.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from amplint.ir.ast_cache import FunctionNode, NodePlace, Parsed, Scope, TreeCache, function_alone
from amplint.ir.codec import Record, encode
from amplint.ir.data import sampled
from amplint.ir.model import ClassFacts, FileFacts, FunctionFacts, Graph, Location, Param
from amplint.ir.ssa import build, last_name, own_nodes, where
from amplint.util.text import LINE_END, code_of, parse

IDENTIFIER = re.compile(r"[^\W\d]\w*")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class File:
    """One indexed file: its facts, and on demand its tree and its value graphs."""

    def __init__(
        self,
        path: str,
        text: str,
        tree_cache: TreeCache | None = None,
        record: Record | None = None,
    ) -> None:
        """Parse and scan, or take what is recorded of the same path and text.

        Args:
            path: relative to the project's root, with forward slashes.
            text: decoded, without a BOM.
            tree_cache: where its tree is kept for a while; without one, for good.
            record: of its facts and graphs; with one, nothing is parsed before a tree is asked for.

        Raises:
            SyntaxError, ValueError (NUL bytes), RecursionError, MemoryError: as `parse` does.
        """
        self.path = path
        self.text = text
        self._shelf = tree_cache
        self._record = record
        self._parsed: Parsed | None = None
        self._functions: dict[str, FunctionFacts] = {}
        self._defined: dict[str, FunctionFacts] = {}  # the same, and all lambdas
        self._classes: dict[str, ClassFacts] = {}
        self._ids: dict[Location, str] = {}  # of functions, classes and lambdas
        self._graphs: dict[str, Graph] = {}
        self._lambdas: dict[str, list[FunctionFacts]] = {}  # by the function that defines them
        if record is None:
            self._scan_module(self.parsed.module)
            code = "\n".join(self.code)
            words = words_of(code)
        else:
            words = record.words
            self._classes.update(record.classes())
            for function in record.functions():
                self._add(function)
        self.facts = FileFacts(path, self._functions, self._classes, words)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of its text, without their ends."""
        return LINE_END.split(self.text)

    @cached_property
    def code(self) -> list[str]:
        """The lines of its text, without their ends, and with blanks for comments and strings of
        several lines."""
        return LINE_END.split(code_of(self.text))

    # -- its tree

    @property
    def parsed(self) -> Parsed:
        """Its tree. To hold on to nodes of it is to hold on to the tree: another one may be made
        of the text later, of which they are no part."""
        if self._parsed is None:
            self._parsed = Parsed(sampled(parse(self.text), self.text))
            self._parsed.scopes[f"{self.path}::"] = self._parsed.module
            for node in ast.walk(self._parsed.module) if self._ids else ():
                if isinstance(node, DEFINITIONS) and where(node) in self._ids:
                    self._parsed.scopes[self._ids[where(node)]] = node
        if self._shelf is not None:
            self._shelf.put(self)
        return self._parsed

    def forget(self) -> None:
        """Give back the memory of what can be made of the text again."""
        self._parsed = None
        self.__dict__.pop("lines", None)
        self.__dict__.pop("code", None)

    def placed(self) -> Placed:
        """Its tree, and where the expressions stand in the graphs that were asked for."""
        return Placed(self, self.parsed)

    def standings(self, parsed: Parsed, function: str) -> Mapping[ast.AST, NodePlace]:
        """Where the expressions of a tree of this file stand in the graph of a function; none, if
        nobody has asked for that graph."""
        if function not in self._graphs:
            return {}
        if function not in parsed.standings:
            self._build(parsed, function)
        return parsed.standings[function]

    # -- its value graphs

    def graph(self, function: str) -> Graph:
        """The value graph of a function of this file.

        The lambdas in it are among the facts from then on: which functions are known depends on
        the graphs that were asked for, and not on those that were built beforehand.
        """
        graph = self._graph(function)
        for facts in self._lambdas.get(function, ()):
            self._functions[facts.id] = facts
        return graph

    def _graph(self, function: str) -> Graph:
        if function not in self._graphs:
            self._graphs[function] = self._recorded(function) or self._built(function)
        return self._graphs[function]

    def _recorded(self, function: str) -> Graph | None:
        if self._record is None:
            return None
        graph, self._lambdas[function] = self._record.graph(function)
        for facts in self._lambdas[function]:
            self._add(facts)
        return graph

    def _add(self, facts: FunctionFacts) -> None:
        self._defined[facts.id] = facts
        if facts.kind != "lambda":
            self._functions[facts.id] = facts
        if facts.kind != "module":
            self._ids[facts.location] = facts.id

    def _built(self, function: str) -> Graph:
        facts = self._defined[function]
        alone = None
        if self._parsed is None and facts.kind == "function":
            alone = function_alone(self.lines, facts.location)
        if alone is None:
            return self._build(self.parsed, function)
        return build(alone, facts, self._define)[0]

    def build_graphs(self) -> None:
        """Build all of them, while the tree is there."""
        while new := self._defined.keys() - self._graphs.keys():
            for function in sorted(new):
                self._graph(function)

    def encoded(self) -> bytes:
        """The record of the file, with all its graphs."""
        self.build_graphs()
        return encode(self.facts, self._graphs, self._lambdas, self.stored_from_outside)

    def _build(self, parsed: Parsed, function: str) -> Graph:
        facts = self._defined[function]
        if function not in parsed.scopes and facts.parent is not None:
            self._build(parsed, facts.parent)  # a lambda is found where it is defined
        graph, places = build(parsed.scopes[function], facts, self._define)
        parsed.standings[function] = {
            node: NodePlace(function, number, block) for node, (number, block) in places.items()
        }
        return graph

    @cached_property
    def stored_from_outside(self) -> frozenset[str]:
        """The attributes that the file assigns to something other than `self`."""
        if self._record is not None:
            return self._record.stored_from_outside
        return frozenset(
            node.attr
            for node in own_nodes(self.parsed.module.body, nested=True)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and not (isinstance(node.value, ast.Name) and node.value.id == "self")
        )

    def _define(self, node: ast.AST, inside: FunctionFacts) -> str:
        """The id of a function or class that is defined in a graph; a lambda gets one now."""
        assert isinstance(node, DEFINITIONS)
        if where(node) not in self._ids:
            assert isinstance(node, ast.Lambda)
            defined = self._add_function(node, "<lambda>", "lambda", inside, None)
            self._lambdas.setdefault(inside.id, []).append(defined)
        identity = self._ids[where(node)]
        if self._parsed is not None:
            self._parsed.scopes.setdefault(identity, node)
        return identity

    def _scan_module(self, tree: ast.Module) -> None:
        last = max(1, len(self.lines))
        module = FunctionFacts(
            f"{self.path}::", self.path, "", "", "module", None, None, (), (), False,
            frozenset(), (1, 0, last, 0),
        )  # fmt: skip
        self._add(module)
        self._scan(tree.body, module, None)
        words = self._words_outside_definitions(tree)
        self._add(replace(module, words=words))

    def _scan(self, body: list[ast.stmt], inside: FunctionFacts, cls: str | None) -> None:
        for statement in definitions(body):
            if isinstance(statement, ast.ClassDef):
                self._add_class(statement, inside)
            else:
                facts = self._add_function(statement, statement.name, "function", inside, cls)
                self._scan(statement.body, facts, None)

    def _add_class(self, node: ast.ClassDef, inside: FunctionFacts) -> None:
        facts = self._add_function(node, node.name, "class", inside, None)
        self._scan(node.body, facts, facts.id)
        methods: dict[str, tuple[str, ...]] = {}
        for statement in definitions(node.body):
            if not isinstance(statement, ast.ClassDef):
                ids = methods.get(statement.name, ())
                methods[statement.name] = (*ids, self._ids[where(statement)])
        self._classes[facts.id] = ClassFacts(
            id=facts.id,
            path=self.path,
            name=node.name,
            qualname=facts.qualname,
            parent=inside.id,
            bases=tuple(map(last_name, node.bases)),
            methods=methods,
            decorated=facts.decorated,
            location=facts.location,
        )

    def _add_function(
        self, node: Scope, name: str, kind: str, inside: FunctionFacts, cls: str | None
    ) -> FunctionFacts:
        assert not isinstance(node, ast.Module)
        qualname = f"{inside.qualname}.{name}" if inside.qualname else name
        # Lambdas are added in whatever order graphs are asked for; their ids do not depend on it.
        around = inside.qualname if kind != "lambda" else inside.id.partition("::")[2]
        base = f"{self.path}::{around}.{name}" if around else f"{self.path}::{name}"
        number, identity = 1, base
        while identity in self._defined:
            number += 1
            identity = f"{base}#{number}"
        first = min((d.lineno for d in getattr(node, "decorator_list", [])), default=node.lineno)
        end_row = node.end_lineno or node.lineno
        text = "\n".join(self.code[first - 1 : end_row])
        facts = FunctionFacts(
            id=identity,
            path=self.path,
            name=name,
            qualname=qualname,
            kind=kind,
            parent=inside.id,
            cls=cls,
            params=() if isinstance(node, ast.ClassDef) else tuple(params(node.args)),
            decorated=tuple(map(last_name, getattr(node, "decorator_list", []))),
            is_async=isinstance(node, ast.AsyncFunctionDef),
            words=words_of(text),
            location=where(node),
        )
        self._add(facts)
        if self._parsed is not None:
            self._parsed.scopes[identity] = node
        return facts

    def _words_outside_definitions(self, tree: ast.Module) -> frozenset[str]:
        lines = list(self.code)
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for row in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                    lines[row - 1] = ""
        return words_of("\n".join(lines))


class Placed:
    """Where the expressions of a file stand.

    The functions around an expression are gone through when it is asked for: of most files, rules
    look at a few functions alone.

    Args:
        file: the file.
        parsed: a tree of it, the nodes of which are asked about.
    """

    def __init__(self, file: File, parsed: Parsed) -> None:
        self.module = parsed.module
        self._file = file
        self._parsed = parsed
        self._places: dict[ast.AST, NodePlace | None] = {}

    def get(self, node: ast.AST) -> NodePlace | None:
        """Where an expression stands; None for one that is in no graph."""
        if node not in self._places:
            functions = self._around.get(getattr(node, "lineno", 0), ())
            inside = (self.within(function).get(node) for function in functions)
            self._places[node] = next(filter(None, inside), None)
        return self._places[node]

    def within(self, function: str) -> Mapping[ast.AST, NodePlace]:
        """Where the expressions of a function stand."""
        return self._file.standings(self._parsed, function)

    def scope(self, function: str) -> ast.AST | None:
        """The function, class, lambda or module of an id, as the tree has it."""
        self.within(function)  # which finds the lambdas in it
        return self._parsed.scopes.get(function)

    @cached_property
    def _around(self) -> Mapping[int, list[str]]:
        """By row: the functions around it, the innermost first."""
        around: dict[int, list[str]] = {}
        functions = self._file.facts.functions.values()
        for each in sorted(functions, key=lambda function: function.location, reverse=True):
            for row in range(each.location[0], each.location[2] + 1):
                around.setdefault(row, []).append(each.id)
        return around


def words_of(code: str) -> frozenset[str]:
    """The identifiers in a text without comments."""
    return frozenset(map(sys.intern, IDENTIFIER.findall(code)))


def definitions(body: list[ast.stmt]) -> Iterator[ast.ClassDef | FunctionNode]:
    """The functions and classes that a body defines in its own scope, also under `if` or `try`."""
    stack = list(reversed(body))
    while stack:
        statement = stack.pop()
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
            continue
        for part in ("finalbody", "orelse", "handlers", "cases", "body"):
            inner = getattr(statement, part, None)
            if isinstance(inner, list):
                stack.extend(reversed(inner))


def params(arguments: ast.arguments) -> Iterator[Param]:
    """The parameters in order of declaration, with their constant defaults."""
    positional = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    for arg, default in zip(positional, [*missing, *arguments.defaults], strict=True):
        yield param(arg, "positional", default)
    if arguments.vararg:
        yield param(arguments.vararg, "star", None)
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield param(arg, "keyword", default)
    if arguments.kwarg:
        yield param(arguments.kwarg, "starstar", None)


def param(arg: ast.arg, kind: str, default: ast.expr | None) -> Param:
    constant = isinstance(default, ast.Constant)
    return Param(
        name=arg.arg,
        kind=kind,
        annotated=arg.annotation is not None,
        default=default.value if isinstance(default, ast.Constant) else None,
        has_default=default is not None,
        constant_default=constant,
    )
