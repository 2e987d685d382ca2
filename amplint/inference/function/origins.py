"""Where the value of a node comes from, within its function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from amplint.ir import ops
from amplint.ir.model import Graph, path_of
from amplint.util.walks import reachable

TESTING = frozenset({ops.BOOL, ops.COMPARE, ops.UNARY})


def origins(graph: Graph, number: int) -> list[int]:
    """The nodes that have made the value of a node, through joins and tests."""
    sources = reachable([number], partial(alternatives, graph))
    return [each for each in sources if not alternatives(graph, each)]


def alternatives(graph: Graph, number: int) -> tuple[int, ...]:
    """The nodes that a node is one of, whatever tests have left of it; none of what is no join."""
    node = graph.nodes[number]
    if node.op == ops.NARROW:
        return node.operands[:1]
    return node.operands if node.op == ops.PHI else ()


def names_in_test(graph: Graph, test: int) -> Iterator[str]:
    """Ex) args.fp16 and n, of `args.fp16 and n > 2`"""

    def parts(number: int) -> Iterable[int]:
        node = graph.nodes[number]
        return node.operands if node.op in TESTING else alternatives(graph, number)

    paths = (path_of(graph, part) for part in reachable([test], parts))
    return (path for path in paths if path is not None)
