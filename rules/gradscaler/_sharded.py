"""Parameters of which each process keeps a part, and scalers that step on them."""

from __future__ import annotations

from amplint.analyses.provenance import Origins, Sharded
from amplint.facts.fact import CallFact, NodeFact, Required
from amplint.ir.ast_cache import NodePlace


class ShardedParameters(NodeFact[Sharded]):
    """Where the module whose parameters an expression holds may have been wrapped in FSDP1, which
    keeps a part of each in each process."""

    sentence = "{it} holds parameters of an FSDP module"

    _origins = Required(Origins)

    def of(self, at: NodePlace) -> Sharded | None:
        return self._origins.sharded(at.function, at.node)


class StepsOfSharded(CallFact[Sharded]):
    """Where the scaler that a call makes steps on such parameters, in float16."""

    sentence = "{it} steps on sharded parameters"

    _origins = Required(Origins)

    def of(self, at: NodePlace) -> Sharded | None:
        return self._origins.scaled_sharded(at.function, at.node)
