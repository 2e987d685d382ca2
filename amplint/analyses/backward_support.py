"""Whether the forward work behind a backward pass in a region is wider than the region.

A network whose whole forward pass ran in the region has bit-identical gradients inside and outside.
They differ where a part of it ran in an `enabled=False` island, or in `linalg`. (Checked on the CPU
with torch 2.13, bfloat16 and float16.)
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.analyses.cast_cache import autocast_of, innermost
from amplint.analyses.fact import CallFact
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.util.positions import Place
from amplint.util.walks import reachable
from amplint.values.atoms import Evidence, Shows, Symbol

WIDE = ("torch.linalg.", "torch.inverse")
Part = tuple[str, int]  # a function, and a block of it; -1 for all of it


class BackwardSupport(CallFact[Evidence]):
    """The nearest such place in the region around a call, or in what is called there."""

    def of(self, at: NodePlace) -> Evidence | None:
        state = self.inference.states[at.function]
        block = innermost(state, state.graph.nodes[at.node].block)  # None: a decorator opens it
        start = (at.function, -1 if block is None else block)
        parts = reachable([start], self._called)
        return next((found for part in parts for found in self._wide(part)), None)

    def _called(self, part: Part) -> Iterator[Part]:
        for number in self.inference.states[part[0]].graph.nodes_in(part[1]):
            for callee in sorted(self.inference.calls.edges.get((part[0], number), ())):
                if callee in self.inference.states:
                    yield callee, -1

    def _wide(self, part: Part) -> Iterator[Evidence]:
        function, outer = part
        state = self.inference.states[function]
        path = self.inference.functions[function].path
        for number in range(outer + 1, len(state.graph.blocks)):
            opened = autocast_of(state, number) if state.graph.is_in(number, outer) else None
            if opened is not None and opened.enabled is not True:
                text = "autocast is off for this part of the forward pass"
                place = Place(path, *state.graph.blocks[number].location)
                yield Evidence(place, text, Shows.OPERATION)
        for number in state.graph.nodes_in(outer):
            node = state.graph.nodes[number]
            called = state.values[node.operands[0]] if node.op == ops.CALL else ()
            names = (canonical(atom.name) for atom in called if isinstance(atom, Symbol))
            if any(name.startswith(WIDE) for name in names):
                text = "this runs in a wider dtype than the region"
                yield Evidence(Place(path, *node.location), text, Shows.OPERATION)
