"""Batches that are moved to the device from memory that is not pinned."""

from __future__ import annotations

from amplint.analyses.provenance import Origins
from amplint.facts.fact import CallFact, Required
from amplint.ir.ast_cache import NodePlace
from amplint.values.atoms import Evidence


class UnpinnedMoves(CallFact[Evidence]):
    """Where a batch of a loader that does not pin its batches is moved to the device, by the call
    that makes the loader."""

    sentence = "a batch of this loader is moved to the device"

    _origins = Required(Origins)

    def of(self, at: NodePlace) -> Evidence | None:
        return self._origins.moved(at.function, at.node)
