"""Mistakes between a scaler and its optimizers, by call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amplint.analyses.fact import CallFact
from amplint.gradscaler.checker import Misuse, Misuses
from amplint.gradscaler.checkpoints import ANY_STATE
from amplint.inference import Inference, SiteId
from amplint.ir.ast_cache import NodePlace
from amplint.ir.moves import Moves


class ScalerMisuse(CallFact[Sequence[Misuse]]):
    """The mistakes of a call on the paths of a training step with a scaler.

    `functions`: those in which something is wrong. `widened`: those with more paths than were kept
    apart.
    """

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        misuses = Misuses(inference)
        self._found: Mapping[SiteId, Sequence[Misuse]] = misuses.all
        self.functions = frozenset(function for function, _ in self._found)
        self.widened = tuple(misuses.widened)

    def of(self, at: NodePlace) -> Sequence[Misuse]:
        return tuple(self._found.get((at.function, at.node), ()))

    def follow(self, inference: Inference, moves: Moves) -> bool:
        # A comment may speak of a scaler's state as well: see `Unsaved`.
        if any(old.has_line(ANY_STATE) != new.has_line(ANY_STATE) for old, new in moves.edited):
            return False
        self.inference = inference
        self._found = {
            site: [
                misuse._replace(
                    inner=moves.chain(misuse.inner), other=moves.chain((misuse.other,))[0]
                )
                for misuse in misuses
            ]
            for site, misuses in self._found.items()
        }
        return True
