"""The names that are asked for before a function runs, by the tests around its calls."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from amplint.analyses.call_guards import CallGuards
from amplint.analyses.callers import Callers
from amplint.analyses.fact import PlaceFact, Required
from amplint.inference.function.origins import alternatives
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Graph
from amplint.util.walks import reachable

REACH = 4  # how many calls up
MOST = 30  # parts of a test, and of what its variables hold
NAMING = frozenset({ops.ATTR, ops.NAME, ops.PARAM, ops.CONST})


class AskedByCallers(PlaceFact[tuple[str, ...]]):
    """The names and strings in the tests around the calls that may run the function of a place,
    and around the calls of those, sorted.

    Ex) cuda, device, type, of `if device.type == "cuda": self.step(x)`
    """

    _callers = Required(Callers)
    _guards = Required(CallGuards)

    def of(self, at: NodePlace) -> tuple[str, ...]:
        found, seen, waiting = set[str](), {at.function}, [at.function]
        for _ in range(REACH):
            sites = [site for each in waiting for site in self._callers.sites.get(each, ())]
            waiting = []
            for function, number in sites:
                found.update(self._around(function, number))
                if function not in seen:
                    seen.add(function)
                    waiting.append(function)
        return (*sorted(found),)

    def _around(self, function: str, number: int) -> Iterator[str]:
        """The names in the tests on which it depends within its function whether a node runs."""
        state = self.inference.states.get(function)
        if state is not None:
            graph = state.graph
            for test, _ in self._guards.around(function, graph.nodes[number].block):
                yield from names_in(graph, test)


def names_in(graph: Graph, test: int) -> Iterator[str]:
    """The identifiers and strings in a test, and in what has made its variables."""
    for number in islice(reachable([test], partial(parts, graph)), MOST):
        node = graph.nodes[number]
        if node.op in NAMING and isinstance(node.data, str):
            yield node.data


def parts(graph: Graph, number: int) -> tuple[int, ...]:
    return alternatives(graph, number) or graph.nodes[number].operands
