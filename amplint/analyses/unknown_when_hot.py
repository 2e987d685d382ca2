"""Which expressions are tensors in other calls of their function than those that make it hot.

def log(loss):
    print(loss.item())        # hot by the first call, a tensor by the second

for x in loader:
    step(model, x)
    log(progress.now())
log(loss)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.analyses.fact import NodeFact
from amplint.analyses.hotness import Hotness
from amplint.analyses.tensor_certainty import TensorCertainty, may_hold
from amplint.core.lattice import is_unknown
from amplint.core.values import BOTTOM
from amplint.core.walks import reachable
from amplint.inference import Inference, SiteId
from amplint.inference.state import Key
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace


class UnknownWhenHot(NodeFact[bool]):
    """Whether an expression is computed from parameters alone for which no call that makes the
    place hot gives anything known: that they are tensors is known from other calls.

    A finding rests on one real chain, and these are two.
    """

    requires = (Hotness, TensorCertainty)

    def __init__(self, inference: Inference, hotness: Hotness, certainty: TensorCertainty) -> None:
        super().__init__(inference)
        self._hotness = hotness
        self._certainty = certainty

    def of(self, at: NodePlace) -> bool:
        calls = self._hotness.calls_behind(at)
        if not calls:
            return False
        sources = [*self._sources(at)]
        return all(self._is_unknown_in(calls, at.function, number) for number in sources)

    def _sources(self, at: NodePlace) -> Iterator[int]:
        """The nodes from which the tensors in an expression come."""
        state = self.inference.states[at.function]

        def holding(number: int) -> list[int]:
            node = state.graph.nodes[number]
            if number != at.node and self.inference.edges.get((at.function, number)):
                return []  # a function of the project makes what it likes of its arguments
            operands = [operand for operand in node.operands if operand >= 0]
            if node.op == ops.CALL:
                callee = state.graph.nodes[operands[0]]
                operands += callee.operands if callee.op == ops.ATTR else ()
            return [operand for operand in operands if may_hold(state.values[operand])]

        for number in reachable([at.node], holding):
            if not holding(number):
                yield number

    def _is_unknown_in(self, calls: Sequence[SiteId], function: str, number: int) -> bool:
        """Whether a node is a parameter of which nothing is known in any of the calls."""
        node = self.inference.states[function].graph.nodes[number]
        if node.op != ops.PARAM or self._certainty.is_declared(function, number):
            return False
        given = self.inference.sites_of(Key("param", function, node.data))
        return all(is_unknown(given.get(site, BOTTOM)) for site in calls)
