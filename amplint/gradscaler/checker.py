"""The mistakes between scalers and optimizers of a project, with what else is wrong beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from amplint.findings.violations import Violation
from amplint.gradscaler.accumulation import unscaled_each_batch
from amplint.gradscaler.automaton import UNSCALED_TWICE
from amplint.gradscaler.certainty import CertainPair, Certainty, innermost
from amplint.gradscaler.checkpoints import Unsaved
from amplint.gradscaler.cleared_gradients import find_cleared
from amplint.gradscaler.control_flow import ControlFlow
from amplint.gradscaler.event_index import EventIndex, FunctionEvents, TrainingPart, calls
from amplint.gradscaler.events import divides_by_zero
from amplint.gradscaler.interpreter import Interpreter
from amplint.gradscaler.manual_optimization import bypasses
from amplint.gradscaler.missing_calls import Incompletes
from amplint.inference import Inference, SiteId
from amplint.values.atoms import Evidence, Shows


class Misuse(NamedTuple):
    """A call that violates the protocol.

    Args:
        inner: where the call only leads to what is wrong, the places on the way there.
        other: the call that makes it wrong.
        raises: the text of the exception, if there is one.
    """

    violation: Violation
    inner: tuple[Evidence, ...]
    other: Evidence
    raises: str = ""


OTHER_TEXTS = {
    Violation.STEP_BYPASSES_SCALER: "the gradients are scaled here",
    Violation.STEP_BYPASSES_CHECK: "the scaler looks for infinities here",
    Violation.STEPPED_AGAIN: "the scaler makes this step here",
    Violation.BACKWARD_BYPASSES_SCALER: "the scaler divides the gradients here",
    Violation.MISSING_UPDATE: "this raises in the next iteration",
    Violation.CLIP_BEFORE_UNSCALE: "the gradients are scaled here",
    Violation.UNSCALED_TWICE: "they are already unscaled here",
    Violation.UNSCALED_OR_CLIPPED_AFTER_STEP: "the step is made here",
    Violation.OUT_OF_ORDER: "the scaler is called here, too",
    Violation.CLEARED_BEFORE_STEP: "this step finds no gradients",
    Violation.HALF_PARAMETERS: "the parameters are float16 from here on",
    Violation.UNSCALED_EVERY_MICRO_BATCH: "the gradients of another batch are added here",
    Violation.STATE_NOT_SAVED: "the scaler makes the steps here",
    Violation.SCALED_GRADIENTS_READ: "the gradients are scaled here",
    Violation.SCHEDULER_BEFORE_OPTIMIZER: "the optimizer steps here",
    Violation.EPSILON_OF_ZERO: "the parameters are float16 from here on",
    Violation.STEPS_LOST: "the parameters are bfloat16 from here on",
}


class Misuses:
    """The misuses of all scalers of a project; found when the first question comes.

    Args:
        sites, events: see `EventIndex`.

    Attributes:
        events: what was found of each function.
    """

    def __init__(
        self,
        inference: Inference,
        sites: Mapping[str, Sequence[SiteId]],
        events: Mapping[str, FunctionEvents] | None = None,
    ) -> None:
        self._inference = inference
        self._sites = sites
        self.events: Mapping[str, FunctionEvents] = events or {}
        self.widened: list[str] = []  # functions of which not all could be looked at

    @cached_property
    def all(self) -> dict[SiteId, list[Misuse]]:
        """The misuses that are found at each call."""
        return self._find()

    def _find(self) -> dict[SiteId, list[Misuse]]:
        index = EventIndex(self._inference, self._sites, self.events)
        self.events = index.functions
        flows: dict[str, ControlFlow] = {}
        claims: dict[CertainPair, str] = {}
        checked: list[Certainty] = []
        leading = index.leading
        for function in sorted(
            leading[TrainingPart.SCALES]
            | (leading[TrainingPart.HALVES] & leading[TrainingPart.DIVIDES])
            | (leading[TrainingPart.ROUNDS] & leading[TrainingPart.ADAM])
        ):
            if not self._is_entry(index, function):
                continue
            checker = Certainty(Interpreter(index, flows).explore(function), index)
            claims |= checker.certain_pairs()
            checked.append(checker)
            if not checker.is_complete:
                self.widened.append(function)
        by_site: dict[SiteId, dict[Violation, Misuse]] = {}
        for pair, raises in sorted(claims.items(), key=lambda claim: claim[0].key):
            placed = innermost(pair, claims, checked)
            misuse = self._misuse(placed, raises)
            by_site.setdefault(placed.here[0], {}).setdefault(pair.violation, misuse)
        ends = {pair.here[-1] for pair in claims} | {pair.there[-1] for pair in claims}
        for violation, here, there in Incompletes(self._inference, index).find():
            if ends.isdisjoint((here, there)):
                misuse = self._misused(violation, there)
                by_site.setdefault(here, {}).setdefault(violation, misuse)
        lost, unsaved = Violation.CLEARED_BEFORE_STEP, Violation.STATE_NOT_SAVED
        bypass = Violation.BACKWARD_BYPASSES_SCALER
        for here, there in bypasses(index):
            by_site.setdefault(here, {}).setdefault(bypass, self._misused(bypass, there))
        for zero, step in find_cleared(index):
            if ends.isdisjoint((zero, step)):
                by_site.setdefault(zero, {}).setdefault(lost, self._misused(lost, step))
        micro = Violation.UNSCALED_EVERY_MICRO_BATCH
        for here, there, is_refused in unscaled_each_batch(self._inference):
            raises = UNSCALED_TWICE if is_refused else ""
            by_site.setdefault(here, {}).setdefault(micro, self._misused(micro, there, (), raises))
        for site, step in Unsaved(self._inference, index).find():
            by_site.setdefault(site, {}).setdefault(unsaved, self._misused(unsaved, step))
        return {site: list(misuses.values()) for site, misuses in by_site.items()}

    def _is_entry(self, index: EventIndex, function: str) -> bool:
        """Whether more comes together in a function than one call of another says already."""
        state = self._inference.states[function]
        if index.of[function]:
            return True
        training = [number for number in calls(state) if index.callees((function, number))]
        return (
            len(training) > 1
            or any(state.graph.nodes[number].block for number in training)
            or any(divides_by_zero(state, number) for number in calls(state))
        )

    def _misuse(self, pair: CertainPair, raises: str) -> Misuse:
        inner = tuple(
            Evidence(
                self._inference.place(*site),
                "here" if site == pair.here[-1] else "through this call",
                Shows.CALL,
            )
            for site in pair.here[1:]
        )
        return self._misused(pair.violation, pair.there[-1], inner, raises)

    def _misused(
        self,
        violation: Violation,
        there: SiteId,
        inner: tuple[Evidence, ...] = (),
        raises: str = "",
    ) -> Misuse:
        other = Evidence(self._inference.place(*there), OTHER_TEXTS[violation], Shows.SCALER)
        return Misuse(violation, inner, other, raises)
