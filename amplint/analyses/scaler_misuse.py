"""Mistakes between a scaler and its optimizers, by call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amplint.facts.callers import Callers
from amplint.facts.fact import CallFact, Fact, Required
from amplint.gradscaler.checker import Misuse, Misuses
from amplint.gradscaler.event_index import FunctionEvents
from amplint.gradscaler.events import PROTOCOL
from amplint.inference import Inference, SiteId
from amplint.inference.incremental.continuation import FixpointEdit
from amplint.ir.ast_cache import NodePlace
from amplint.knowledge.vocabulary import SCALER_STATE
from amplint.util.text import has_line


class ScalerMisuse(CallFact[Sequence[Misuse]]):
    """The mistakes of a call in a training step with a scaler.

    `functions`: those in which something is wrong. `widened`: those with more paths than were
    looked at.
    """

    _callers = Required(Callers)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._find({})

    def _find(self, events: Mapping[str, FunctionEvents]) -> None:
        misuses = Misuses(self.inference, self._callers.sites, events)
        self._misuses: Mapping[SiteId, Sequence[Misuse]] = misuses.all
        self._events = misuses.events
        self.functions = frozenset(function for function, _ in self._misuses)
        self.widened = tuple(misuses.widened)

    def of(self, at: NodePlace) -> Sequence[Misuse]:
        return tuple(self._misuses.get((at.function, at.node), ()))

    def follow(self, inference: Inference, edit: FixpointEdit) -> bool:
        moves = edit.moves
        # Whether a scaler of the project keeps the protocol, all that have it would ask again.
        if edit.has_other_bases or any(
            function.rpartition(".")[2] in PROTOCOL for function in edit.functions
        ):
            return False
        # A comment may speak of a scaler's state as well: see `Unsaved`.
        self.inference = inference
        if moves is None or any(
            has_line(old.text, SCALER_STATE) != has_line(new.text, SCALER_STATE)
            for old, new in moves.edited
        ):
            sites = self._callers.sites
            around = {caller for each in edit.functions for caller, _ in sites.get(each, ())}
            around |= edit.functions
            self._find({f: events for f, events in self._events.items() if f not in around})
            return True
        self._misuses = {
            site: [
                misuse._replace(
                    inner=moves.chain(misuse.inner), other=moves.chain((misuse.other,))[0]
                )
                for misuse in misuses
            ]
            for site, misuses in self._misuses.items()
        }
        return True
