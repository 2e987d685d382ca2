"""Which code never runs, because no call passes the argument that it waits for.

def forward(self, x, mask=None):
    if mask is not None:
        x = x.masked_fill(mask, -1e9)    # never run by `model(x)`, which is the only call
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.facts.call_guards import CallGuards
from amplint.facts.callers import Callers
from amplint.facts.fact import PlaceFact, Required
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.util.walks import reachable


class NeverGiven(PlaceFact[bool]):
    """Whether a test of an argument that is None by default lets a place run in no call: at least
    one call of the function is seen, outside of tests, and all that are seen leave it out."""

    _callers = Required(Callers)
    _guards = Required(CallGuards)

    def of(self, at: NodePlace) -> bool | None:
        infer, function = self.inference, at.function
        sites = self._callers.sites.get(function, ())
        calls = [site for site in sites if not infer.store.is_from_test(function, site[0])]
        left_out = {
            p.name
            for p in infer.functions[function].params
            if p.constant_default and p.default is None
        }
        left_out.intersection_update(self._parameters(function, at.block) if calls else ())
        left_out = {
            name
            for name in left_out
            if all(self._guards.argument(site, function, name) == -1 for site in calls)
        }
        is_dead = left_out and all(self._guards.leaves_out(s, function, at.block) for s in calls)
        return True if is_dead else None

    def _parameters(self, function: str, block: int) -> Iterator[str]:
        """The parameters in the tests around a block."""
        nodes = self.inference.states[function].graph.nodes
        tests = (test for test, _ in self._guards.around(function, block))
        for number in reachable(tests, lambda n: (o for o in nodes[n].operands if o >= 0)):
            if nodes[number].op == ops.PARAM:
                yield nodes[number].data
