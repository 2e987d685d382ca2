"""Numbers of the host that are the same in every iteration."""

from __future__ import annotations

from amplint.analyses.loop_invariance import Constants
from amplint.analyses.tensor_certainty import holds_tensor
from amplint.facts.fact import NodeFact, Required
from amplint.ir.ast_cache import NodePlace


class LoopInvariance(NodeFact[bool]):
    """Whether an expression is a number, or a list of numbers, that is the same in every iteration:
    by constants, options, what a constructor has stored, or a configuration."""

    sentence = "{it} is the same in every iteration"

    _constants = Required(Constants)

    def of(self, at: NodePlace) -> bool:
        value = self.inference.states[at.function].values[at.node]
        return not holds_tensor(value) and self._constants.of(at) is not None
