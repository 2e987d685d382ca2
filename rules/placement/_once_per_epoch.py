"""Code that runs once an epoch."""

from __future__ import annotations

from amplint.analyses.hotness import Hotness
from amplint.facts.fact import PlaceFact, Required
from amplint.ir.ast_cache import NodePlace


class OncePerEpoch(PlaceFact[bool]):
    """Whether a node runs once an epoch, wherever it is seen to run: in a loop around one over
    batches, or in what is called there."""

    sentence = "{it} runs once an epoch"

    _hotness = Required(Hotness)

    def of(self, at: NodePlace) -> bool:
        return self._hotness.is_once_per_epoch(at.function, at.block)
