"""Modules that `nn.DataParallel` wraps."""

from __future__ import annotations

from amplint.analyses.provenance import Origins
from amplint.facts.fact import NodeFact, Required
from amplint.ir.ast_cache import NodePlace
from amplint.values.atoms import Evidence


class ReplicatedModules(NodeFact[Evidence]):
    """Where the module that an expression is may have been wrapped by `nn.DataParallel`, for more
    than one device."""

    sentence = "{it} is a DataParallel module"

    _origins = Required(Origins)

    def of(self, at: NodePlace) -> Evidence | None:
        return self._origins.replicated(at.function, at.node)
