"""Which expressions are tensors in a call that makes their function hot, whatever others pass.

def show(parts):
    print(f"{parts['total']:.3f}")    # a tensor by the first call, a float by the second

for x in loader:
    parts = losses(model, x)
    parts["total"].backward()
    show(parts)
show(averages)
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.analyses.hotness import Hotness
from amplint.facts.call_guards import CallGuards
from amplint.facts.fact import NodeFact, Required
from amplint.facts.inference_results import Reasons
from amplint.inference import transfer
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.values.atoms import Host, Tensor, Unknown, Value
from amplint.values.lattice import join, known


class HotArgument(NodeFact[Value]):
    """The tensor that a parameter is, or an item of one, by a call that makes the place hot, where
    others pass numbers."""

    sentence = "a call that runs once per batch passes a tensor for {it}"

    _guards = Required(CallGuards)
    _hotness = Required(Hotness)
    _reasons = Required(Reasons)

    def of(self, at: NodePlace) -> Value | None:
        kinds = {*map(type, self.inference.states[at.function].values[at.node])}
        if Host not in kinds or not kinds <= {Host, Tensor, Unknown}:
            return None
        tensors = (known(value) for value in self._values(at))
        return next((t for t in tensors if t and all(isinstance(a, Tensor) for a in t)), None)

    def _values(self, at: NodePlace) -> Iterator[Value]:
        """The values of the expression, by the calls that make the place hot."""
        state = self.inference.states[at.function]
        number, keys = at.node, list[Value]()
        while (node := state.graph.nodes[number]).op == ops.SUBSCRIPT:
            number = node.operands[0]
            keys.insert(0, state.values[node.second])
        if node.op != ops.PARAM:
            return
        for site in self._hotness.calls_behind(at):
            argument = self._guards.argument(site, at.function, node.data)
            if argument is None or argument < 0:
                continue
            if self._guards.leaves_out(site, at.function, at.block):
                continue
            value = self._reasons.explanations.explained(site[0], argument)
            for key in keys:
                value = join(transfer.subscript_atom(atom, key) for atom in value)
            yield value
