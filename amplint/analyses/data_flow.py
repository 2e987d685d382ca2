"""Where the values of one file's expressions are read, within their functions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set

from amplint.core.walks import reachable
from amplint.inference import Inference
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.file_index import Placed
from amplint.ir.ssa import where

JOINS = frozenset({ops.PHI, ops.NARROW})


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
        self._expressions: dict[str, Mapping[int, ast.expr]] = {}

    def at(self, node: ast.AST) -> NodePlace | None:
        """Where a node stands; None outside of evaluated functions."""
        at = self._placed.get(node)
        return at if at is not None and at.function in self._inference.states else None

    def written_at(self, function: str, number: int) -> ast.expr | None:
        """The expression that a node of a function was made of; None for a node of which another
        one tells the outcome, such as the `x[0]` that `x[0] += 1` reads."""
        if function not in self._expressions:
            graph = self._inference.states[function].graph
            self._expressions[function] = {
                at.node: each
                for each, at in self._placed.within(function).items()
                if isinstance(each, ast.expr) and not isinstance(each, ast.FormattedValue)
                if where(each) == graph.nodes[at.node].location
            }
        return self._expressions[function].get(number)

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

    def written(self, node: ast.expr) -> ast.Subscript | None:
        """The target of the write whose outcome an expression reads: x[0] of `x[0] = 1`."""
        at = self.at(node)
        if at is None or self._inference.states[at.function].graph.nodes[at.node].op != ops.PUT:
            return None
        for each, place in self._placed.within(at.function).items():
            if place.node == at.node and isinstance(each, ast.Subscript):
                return each if isinstance(each.ctx, ast.Store) else None
        return None

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
            found = set[int]()
            for join in reachable(read & joins, lambda n: joins & set(graph.nodes[n].operands)):
                found.update(graph.nodes[join].operands)
            self._joins[function] = found
        return self._joins[function]
