"""The protocol of a GradScaler as an automaton: the calls, and the states between them.

An optimizer has a `Phase` with its scaler, and its gradients are sums of `Contribution`s: what
backward passes have added, and what became of that. Three tables say all: `ORDER`, which call is
refused in which phase; `UNSCALED`, what dividing by the scale makes of a contribution; `BLAME`, the
violation that a step with such a contribution is. `tests/oracles/test_protocol.py` holds the
automaton against torch's own scaler, over sequences of calls.

There are no trees and no paths here. Where several histories are possible (a backward pass may or
may not reach the parameters of an optimizer), the checker keeps the state of each.
"""

from __future__ import annotations

import functools
from enum import Enum
from typing import NamedTuple

from amplint.findings.violations import Violation


class StepCall(Enum):
    """The calls of a training step that matter, as they are written."""

    SCALED_BACKWARD = "scaler.scale(loss).backward()"
    BACKWARD = "loss.backward()"
    UNSCALE = "scaler.unscale_(optimizer)"
    CLIP = "clip_grad_norm_(parameters)"
    READ = "parameter.grad.norm()"
    STEP = "scaler.step(optimizer)"
    PLAIN_STEP = "optimizer.step()"
    UPDATE = "scaler.update()"
    CLEAR = "optimizer.zero_grad()"
    ZERO = "optimizer.zero_grad(set_to_none=False)"


class Phase(Enum):
    """The state of an optimizer with its scaler, since the last `update()`."""

    READY = "ready"
    UNSCALED = "unscaled"
    STEPPED = "stepped"


class Contribution(Enum):
    """A summand of a gradient, from one backward pass, and how large it is now."""

    PLAIN = "the gradient of the loss itself"
    SCALED = "times the scale"
    UNSCALED = "multiplied and divided by the scale"
    DIVIDED = "only divided by the scale"
    TWICE = "multiplied once, divided twice"
    STALE = "multiplied by an old scale"
    FOREIGN = "times the scale of another scaler"


TRUE_SIZED = frozenset({Contribution.PLAIN, Contribution.UNSCALED})
LARGE = frozenset({Contribution.SCALED, Contribution.STALE, Contribution.FOREIGN})


class Effect(Enum):
    RIGHT = "does what is intended"
    IDLE = "has nothing to work on"
    WRONG = "is silently wrong"
    RAISES = "raises"


class CallVerdict(NamedTuple):
    """The effect of a call, its violation if it has a name, and the text of the exception."""

    effect: Effect
    violation: Violation | None = None
    text: str = ""


RIGHT = CallVerdict(Effect.RIGHT)
IDLE = CallVerdict(Effect.IDLE)

NO_CHECKS = "No inf checks were recorded for this optimizer."
NOTHING_TO_UPDATE = "No inf checks were recorded prior to update."
STEPPED_TWICE = "step() has already been called since the last update()."
UNSCALED_TWICE = "unscale_() has already been called on this optimizer since the last update()."
UNSCALED_LATE = "unscale_() is being called after step()."


class Refused(NamedTuple):
    """An exception, and the violation that it is.

    at_once: where no backward pass ran since what makes the call one too many.
    later: where one did, and so an iteration has ended without what ends it.
    """

    text: str
    at_once: Violation
    later: Violation


ORDER: dict[tuple[StepCall, Phase], Phase | Refused] = {
    (StepCall.UNSCALE, Phase.READY): Phase.UNSCALED,
    (StepCall.UNSCALE, Phase.UNSCALED): Refused(
        UNSCALED_TWICE, Violation.UNSCALED_TWICE, Violation.UNSCALED_EVERY_MICRO_BATCH
    ),
    (StepCall.UNSCALE, Phase.STEPPED): Refused(
        UNSCALED_LATE, Violation.UNSCALED_OR_CLIPPED_AFTER_STEP, Violation.MISSING_UPDATE
    ),
    (StepCall.STEP, Phase.READY): Phase.STEPPED,
    (StepCall.STEP, Phase.UNSCALED): Phase.STEPPED,
    (StepCall.STEP, Phase.STEPPED): Refused(
        STEPPED_TWICE, Violation.OUT_OF_ORDER, Violation.MISSING_UPDATE
    ),
}

# What was divided is gone, and no step was made with it: an iteration that was left out.
SKIPPED = Refused(UNSCALED_TWICE, Violation.UNSCALED_TWICE, Violation.MISSING_UPDATE)

UNSCALED: dict[Contribution, Contribution] = {
    Contribution.PLAIN: Contribution.DIVIDED,
    Contribution.SCALED: Contribution.UNSCALED,
    Contribution.UNSCALED: Contribution.TWICE,
    Contribution.DIVIDED: Contribution.DIVIDED,
    Contribution.TWICE: Contribution.TWICE,
    Contribution.STALE: Contribution.STALE,
    Contribution.FOREIGN: Contribution.FOREIGN,
}

# The first that is found is blamed: where all of the gradient is like it, and where only some is.
BLAME: dict[Contribution, tuple[Violation | None, Violation | None]] = {
    Contribution.DIVIDED: (Violation.BACKWARD_BYPASSES_SCALER, Violation.BACKWARD_BYPASSES_SCALER),
    Contribution.STALE: (Violation.OUT_OF_ORDER, Violation.OUT_OF_ORDER),
    Contribution.TWICE: (Violation.OUT_OF_ORDER, Violation.UNSCALED_EVERY_MICRO_BATCH),
    # `scaler.step` divides all, unless something was divided already.
    Contribution.SCALED: (
        Violation.UNSCALED_EVERY_MICRO_BATCH,
        Violation.UNSCALED_EVERY_MICRO_BATCH,
    ),
    Contribution.FOREIGN: (None, None),
}


class OptimizerState(NamedTuple):
    """One optimizer: its phase, and the gradients of its parameters.

    Args:
        gradient: None where there is none; no contributions where it is all zeros.
        checked: whether its gradients were looked at for infinities since the last `update()`.
        ran: whether a backward pass ran since its last `unscale_` or `step`.
        lost: whether gradients were thrown away before anything used them.
        used: whether the scaler has stepped with them, and no backward pass ran since.
    """

    phase: Phase = Phase.READY
    gradient: frozenset[Contribution] | None = None
    checked: bool = False
    ran: bool = False
    lost: bool = False
    used: bool = False


@functools.cache
def advance(at: OptimizerState, call: StepCall) -> tuple[OptimizerState, CallVerdict]:
    """One call that concerns the optimizer, for an enabled scaler that knows its scale.

    Remembered: there are some thousands of states, and the checker of a large function asks for
    one and a half million steps.
    """
    match call:
        case StepCall.BACKWARD:
            return add(at, Contribution.PLAIN), RIGHT
        case StepCall.SCALED_BACKWARD:
            return add(at, Contribution.SCALED), RIGHT
        case StepCall.UNSCALE:
            return unscale(at)
        case StepCall.CLIP:
            return at, clip(at)
        case StepCall.READ:
            return at, read(at)
        case StepCall.STEP:
            return step(at)
        case StepCall.PLAIN_STEP:
            return at._replace(ran=False), plain_step(at)
        case StepCall.UPDATE:
            return update(at), RIGHT
        case StepCall.CLEAR | StepCall.ZERO:
            return clear(at, to_none=call is StepCall.CLEAR), RIGHT


def add(at: OptimizerState, new: Contribution) -> OptimizerState:
    """A backward pass adds to the gradients."""
    return at._replace(
        gradient=(at.gradient or frozenset()) | {new}, ran=True, lost=False, used=False
    )


def unscale(at: OptimizerState) -> tuple[OptimizerState, CallVerdict]:
    following = ORDER[StepCall.UNSCALE, at.phase]
    if isinstance(following, Refused):
        cleared = at.phase is Phase.UNSCALED and at.gradient == frozenset({Contribution.SCALED})
        return at, refused(SKIPPED if cleared else following, at)
    after = at._replace(phase=following, ran=False)
    if at.gradient is None:
        return after, RIGHT
    gradient = frozenset(UNSCALED[each] for each in at.gradient)
    return after._replace(gradient=gradient, checked=True), RIGHT


def step(at: OptimizerState) -> tuple[OptimizerState, CallVerdict]:
    following = ORDER[StepCall.STEP, at.phase]
    if isinstance(following, Refused):
        return at, refused(following, at)
    ready = unscale(at)[0] if at.phase is Phase.READY else at
    if not ready.checked:
        violation = Violation.CLEARED_BEFORE_STEP if at.lost else None
        return ready, CallVerdict(Effect.RAISES, violation, NO_CHECKS)
    return ready._replace(phase=following, ran=False, used=True), verdict_on(ready)


def verdict_on(at: OptimizerState) -> CallVerdict:
    """The verdict on a step that the scaler lets happen."""
    if not at.gradient:
        return CallVerdict(Effect.WRONG, Violation.CLEARED_BEFORE_STEP) if at.lost else IDLE
    for contribution, (alone, mixed) in BLAME.items():
        if contribution in at.gradient:
            return CallVerdict(Effect.WRONG, alone if len(at.gradient) == 1 else mixed)
    return RIGHT


def plain_step(at: OptimizerState) -> CallVerdict:
    if not at.gradient:
        return IDLE
    if at.gradient & LARGE:
        return CallVerdict(Effect.WRONG, Violation.STEP_BYPASSES_SCALER)
    return RIGHT if at.gradient <= TRUE_SIZED else CallVerdict(Effect.WRONG)


def clip(at: OptimizerState) -> CallVerdict:
    if at.used:
        # The step that was to be limited is over.
        return CallVerdict(Effect.WRONG, Violation.UNSCALED_OR_CLIPPED_AFTER_STEP)
    if not at.gradient:
        return IDLE
    if at.gradient & LARGE:
        return CallVerdict(Effect.WRONG, Violation.CLIP_BEFORE_UNSCALE)
    return RIGHT if at.gradient <= TRUE_SIZED else CallVerdict(Effect.WRONG)


def read(at: OptimizerState) -> CallVerdict:
    """Gradients that are looked at, before or after the step."""
    if not at.gradient:
        return IDLE
    if at.gradient & LARGE:
        return CallVerdict(Effect.WRONG, Violation.SCALED_GRADIENTS_READ)
    return RIGHT if at.gradient <= TRUE_SIZED else CallVerdict(Effect.WRONG)


def update(at: OptimizerState) -> OptimizerState:
    """All optimizers are ready again; the scale may be another one from here on."""
    gradient = at.gradient
    if gradient is not None:
        gradient = frozenset(
            Contribution.STALE if each is Contribution.SCALED else each for each in gradient
        )
    return at._replace(phase=Phase.READY, gradient=gradient, checked=False)


def clear(at: OptimizerState, *, to_none: bool) -> OptimizerState:
    if at.gradient is None:
        return at
    lost = at.lost or at.ran or at.phase is Phase.UNSCALED
    return at._replace(gradient=None if to_none else frozenset(), lost=lost)


def hooked(at: OptimizerState) -> frozenset[OptimizerState]:
    """The states after a hook that nobody knows: it may do nothing, divide the gradients, or make
    the whole step."""
    return frozenset({at, unscale(at)[0], OptimizerState(ran=at.ran)})


def refused(by: Refused, at: OptimizerState) -> CallVerdict:
    return CallVerdict(Effect.RAISES, by.later if at.ran else by.at_once, by.text)
