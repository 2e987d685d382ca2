"""The names that are asked for before a function runs, by the tests around its calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from amplint.facts.call_guards import CallGuards
from amplint.facts.callers import Callers
from amplint.facts.fact import PlaceFact, Required
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import names_in_test
from amplint.util.walks import reachable

MOST = 30  # functions on the way to a call


class AskedByCallers(PlaceFact[tuple[str, ...]]):
    """The names in the tests around the calls that may run the function of a place, and around the
    calls of those, sorted.

    Ex) device.type, of `if device.type == "cuda": self.step(x)`
    """

    sentence = "tests stand around the calls that run this"

    _callers = Required(Callers)
    _guards = Required(CallGuards)

    def of(self, at: NodePlace) -> tuple[str, ...]:
        sites = self._callers.sites
        run = reachable([at.function], lambda each: (caller for caller, _ in sites.get(each, ())))
        calls = (site for each in islice(run, MOST) for site in sites.get(each, ()))
        return (*sorted({name for site in calls for name in self._around(*site)}),)

    def _around(self, function: str, number: int) -> Iterator[str]:
        """The names in the tests on which it depends within its function whether a node runs."""
        state = self.inference.states.get(function)
        if state is not None:
            for test, _ in self._guards.around(function, state.graph.nodes[number].block):
                yield from names_in_test(state.graph, test)
