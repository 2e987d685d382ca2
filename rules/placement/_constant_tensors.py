"""Tensors that are the same in every iteration."""

from __future__ import annotations

from amplint.analyses.loop_invariance import Constants
from amplint.facts.fact import NodeFact, Required
from amplint.ir.ast_cache import NodePlace
from amplint.values.atoms import Evidence, Shows


class ConstantTensors(NodeFact[Evidence]):
    """Where a list that is the same in every iteration becomes a tensor on the host, if the
    expression is computed from nothing else."""

    sentence = "{it} is the same in every iteration"

    _constants = Required(Constants)

    def of(self, at: NodePlace) -> Evidence | None:
        constant = self._constants.of(at)
        if constant is None or constant.built is None:
            return None
        return Evidence(constant.built, "built of constants here", Shows.OPERATION)
