"""Mistakes between a scaler and its optimizers, by call."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.analyses.fact import CallFact
from amplint.gradscaler.checker import Misuse, Misuses
from amplint.inference import Inference
from amplint.ir.ast_cache import NodePlace


class ScalerMisuse(CallFact[Sequence[Misuse]]):
    """The mistakes of a call on the paths of a training step with a scaler.

    `functions`: those in which something is wrong. `widened`: those with more paths than were kept
    apart.
    """

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self._misuses = Misuses(inference)
        self.functions = frozenset(function for _, function, _ in self._misuses.sites())
        self.widened = tuple(self._misuses.widened)

    def of(self, at: NodePlace) -> Sequence[Misuse]:
        return self._misuses.at(at.function, at.node)
