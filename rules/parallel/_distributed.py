"""Modules that DistributedDataParallel wraps."""

from __future__ import annotations

from amplint.analyses.provenance import Origins
from amplint.facts.fact import NodeFact, Required
from amplint.ir.ast_cache import NodePlace
from amplint.values.atoms import Evidence


class DistributedModules(NodeFact[Evidence]):
    """Where the module that an expression is may have been wrapped by DistributedDataParallel."""

    sentence = "{it} is a DistributedDataParallel module"

    _origins = Required(Origins)

    def of(self, at: NodePlace) -> Evidence | None:
        return self._origins.distributed(at.function, at.node)
