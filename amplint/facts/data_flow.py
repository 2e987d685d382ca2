"""Where the values of one file's expressions are read, within their functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set

from amplint.inference import Inference, State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.file_index import Placed
from amplint.ir.flow import JOINS
from amplint.ir.model import Location
from amplint.ir.ssa import where
from amplint.util.walks import reachable

# The statements that nodes stand for which are no expressions.
STATEMENTS: Mapping[str, tuple[type[ast.AST], ...]] = {
    ops.AUG: (ast.AugAssign,),
    ops.ASSERT: (ast.Assert,),
    ops.ANNOTATION: (ast.AnnAssign,),
    ops.CLASS: (ast.ClassDef,),
    ops.DEF: (ast.FunctionDef, ast.AsyncFunctionDef),
    ops.IMPORT: (ast.Import, ast.ImportFrom),
    ops.RAISE: (ast.Raise,),
    ops.RETURN: (ast.Return,),
    ops.STORE: (ast.Attribute,),
}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class DataFlow:
    """The data flow between the expressions of one file.

    Args:
        inference: of the project.
        placed: where the expressions of the file stand in value graphs.
    """

    def __init__(self, inference: Inference, placed: Placed) -> None:
        self._inference = inference
        self._placed = placed
        self._known_readers: dict[str, Mapping[int, Sequence[ast.expr]]] = {}
        self._joins: dict[str, Set[int]] = {}
        self._written: dict[str, Mapping[tuple[int, Location], ast.AST]] = {}

    def at(self, node: ast.AST) -> NodePlace | None:
        """Where a node stands; None outside of evaluated functions."""
        at = self._placed.get(node)
        return at if at is not None and at.function in self._inference.states else None

    def state(self, function: str) -> State:
        """The graph of an evaluated function, and what is known of it."""
        return self._inference.states[function]

    def written_at(self, function: str, number: int) -> ast.AST | None:
        """The expression or statement that a node of a function was made of; None for a node of
        which another one says the outcome, such as the `x[0]` that `x[0] += 1` reads."""
        location = self._inference.states[function].graph.nodes[number].location
        return self.written_as(function, number, location)

    def written_as(self, function: str, number: int, location: Location) -> ast.AST | None:
        """The expression that a node is read as at a location, the test that asks for its truth
        there, or what it was made of there; of number -1, the function itself."""
        if number < 0:
            return self._placed.scope(function)
        if function not in self._written:
            self._written[function] = dict(self._write(function))
        return self._written[function].get((number, location))

    def _write(self, function: str) -> Iterator[tuple[tuple[int, Location], ast.AST]]:
        """The nodes of a function, by node and location; of several, the last counts."""
        graph = self._inference.states[function].graph
        scope = self._placed.scope(function)
        own = list(own_nodes(scope)) if scope is not None else []
        places = self._placed.within(function)
        statements = {(type(each), where(each)): each for each in own if is_place(each)}
        for number, node in enumerate(graph.nodes):
            for kind in STATEMENTS.get(node.op, ()):
                if (kind, node.location) in statements:
                    yield (number, node.location), statements[kind, node.location]
        for each in own:
            for part, location in (*tests_of(each), *decorators_of(each)):
                if part in places:
                    yield (places[part].node, location), part
        for expression, at in places.items():
            if isinstance(expression, ast.expr) and not isinstance(expression, ast.FormattedValue):
                yield (at.node, where(expression)), expression

    def uses(self, node: ast.expr) -> Sequence[ast.expr]:
        """The expressions that read the value of a node within its function."""
        at = self.at(node)
        if at is None:
            return ()
        readers = self._readers(at.function).get(at.node, ())
        return [reader for reader in readers if reader is not node]

    def joined(self, node: ast.expr) -> bool:
        """Whether the value may be one of several at some place that reads it: then `uses`, which
        lists the places where it is the only one, is not all."""
        at = self.at(node)
        if at is None:
            return True
        return at.node in self._joined_in(at.function)

    def same(self, node: ast.expr) -> tuple[str, int] | None:
        """Facts that all expressions share which read one value within its function."""
        at = self.at(node)
        return (at.function, at.node) if at is not None else None

    def parameter(self, node: ast.expr) -> str | None:
        """The parameter of its function whose value an expression certainly is, by its name."""
        at = self.at(node)
        if at is None:
            return None
        graph = self._inference.states[at.function].graph
        origin = graph.nodes[graph.narrowed(at.node)]
        return str(origin.data) if origin.op == ops.PARAM else None

    def _readers(self, function: str) -> Mapping[int, Sequence[ast.expr]]:
        """By node of a function: the names that read its value."""
        if function not in self._known_readers:
            readers: dict[int, list[ast.expr]] = {}
            for reader, at in self._placed.within(function).items():
                if isinstance(reader, ast.Name) and isinstance(reader.ctx, ast.Load):
                    readers.setdefault(at.node, []).append(reader)
            self._known_readers[function] = readers
        return self._known_readers[function]

    def _joined_in(self, function: str) -> Set[int]:
        """The nodes of a function that are joined or narrowed to a value which something reads.

        A loop joins what its body binds whether or not anybody reads the name in the next round.
        """
        if function not in self._joins:
            graph = self._inference.states[function].graph
            joins = {n for n, node in enumerate(graph.nodes) if node.op in JOINS}
            read = {block.node for block in graph.blocks}
            read.update(n for node in graph.nodes if node.op not in JOINS for n in node.operands)
            read.update(at.node for at in self._placed.within(function).values())
            operands = set[int]()
            for join in reachable(read & joins, lambda n: joins & set(graph.nodes[n].operands)):
                operands.update(graph.nodes[join].operands)
            self._joins[function] = operands
        return self._joins[function]


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes that stand in a scope, and not in the functions and classes within it."""
    return reachable(ast.iter_child_nodes(scope), children_within)


def children_within(node: ast.AST) -> Iterator[ast.AST]:
    return iter(()) if isinstance(node, SCOPES) else ast.iter_child_nodes(node)


def is_place(node: ast.AST) -> bool:
    return isinstance(node, ast.stmt | ast.expr)


def decorators_of(node: ast.AST) -> Iterator[tuple[ast.expr, Location]]:
    """The decorators of a definition, each with the location that
    `amplint.view.evaluated_node.contexts` has for it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from ((decorator, where(node)) for decorator in node.decorator_list)


def tests_of(node: ast.AST) -> Iterator[tuple[ast.expr, Location]]:
    """The expressions whose truth a node asks for, each with the location that
    `amplint.view.evaluated_node.tests` has for it."""
    if isinstance(node, ast.If | ast.While | ast.Assert):
        yield node.test, where(node)
    elif isinstance(node, ast.IfExp):
        yield from ((node.test, where(part)) for part in (node.body, node.orelse))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand, where(node)
    elif isinstance(node, ast.BoolOp):
        for part, following in zip(node.values, node.values[1:], strict=False):
            yield part, where(following)
    elif isinstance(node, ast.comprehension):
        yield from ((test, where(test)) for test in node.ifs)
