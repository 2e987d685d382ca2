"""The protocol of a GradScaler as an automaton: what each call does, and what comes of it.

An optimizer has a `Stage` with its scaler, and its gradients are made of `Part`s: what backward
passes have added, and what became of that. Three tables say all: `ORDER`, which call is refused at
which stage; `UNSCALED`, what dividing by the scale makes of a part; `BLAME`, the rule that speaks
of a step with a part that is not as the loss gives it. `tests/oracles/test_protocol.py` holds the
automaton against torch's own scaler, over sequences of calls.

There are no trees and no paths here. Where several histories are possible (a backward pass may or
may not reach the parameters of an optimizer), whoever asks keeps the standing of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Call(Enum):
    """What a training step may do, as it is written."""

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


class Stage(Enum):
    """Where an optimizer stands with its scaler, since the last `update()`."""

    READY = "ready"
    UNSCALED = "unscaled"
    STEPPED = "stepped"


class Part(Enum):
    """What a backward pass has added to a gradient, and how large it is now."""

    PLAIN = "as the loss gives it"
    SCALED = "times the scale"
    UNSCALED = "multiplied and divided by the scale"
    DIVIDED = "divided by the scale alone"
    TWICE = "multiplied once, divided twice"
    STALE = "multiplied by a scale that is no more"
    FOREIGN = "times the scale of another scaler"


RIGHT_PARTS = frozenset({Part.PLAIN, Part.UNSCALED})
LARGE_PARTS = frozenset({Part.SCALED, Part.STALE, Part.FOREIGN})


class Effect(Enum):
    RIGHT = "does what is meant"
    IDLE = "has nothing to work on"
    WRONG = "goes wrong without a word"
    RAISES = "raises"


class Outcome(NamedTuple):
    """What comes of a call: the rule that speaks of it, if any, and the text of the exception."""

    effect: Effect
    code: str | None = None
    text: str = ""


RIGHT = Outcome(Effect.RIGHT)
IDLE = Outcome(Effect.IDLE)

UNKNOWN_SCALE = "_scale is None"
NO_CHECKS = "No inf checks were recorded for this optimizer."
NOTHING_TO_UPDATE = "No inf checks were recorded prior to update."
STEPPED_TWICE = "step() has already been called since the last update()."
UNSCALED_TWICE = "unscale_() has already been called on this optimizer since the last update()."
UNSCALED_LATE = "unscale_() is being called after step()."


class Refused(NamedTuple):
    """An exception, and the rules that speak of it.

    at_once: where no backward pass ran since what makes the call one too many.
    later: where one did, and so an iteration has ended without what ends it.
    """

    text: str
    at_once: str
    later: str


ORDER: dict[tuple[Call, Stage], Stage | Refused] = {
    (Call.UNSCALE, Stage.READY): Stage.UNSCALED,
    (Call.UNSCALE, Stage.UNSCALED): Refused(UNSCALED_TWICE, "AMP405", "AMP412"),
    (Call.UNSCALE, Stage.STEPPED): Refused(UNSCALED_LATE, "AMP406", "AMP403"),
    (Call.STEP, Stage.READY): Stage.STEPPED,
    (Call.STEP, Stage.UNSCALED): Stage.STEPPED,
    (Call.STEP, Stage.STEPPED): Refused(STEPPED_TWICE, "AMP407", "AMP403"),
}

UNSCALED: dict[Part, Part] = {
    Part.PLAIN: Part.DIVIDED,
    Part.SCALED: Part.UNSCALED,
    Part.UNSCALED: Part.TWICE,
    Part.DIVIDED: Part.DIVIDED,
    Part.TWICE: Part.TWICE,
    Part.STALE: Part.STALE,
    Part.FOREIGN: Part.FOREIGN,
}

# The first that is found is blamed: where all of the gradient is like it, and where only some is.
BLAME: dict[Part, tuple[str | None, str | None]] = {
    Part.DIVIDED: ("AMP402", "AMP402"),
    Part.STALE: ("AMP407", "AMP407"),
    Part.TWICE: ("AMP407", "AMP412"),
    Part.SCALED: ("AMP412", "AMP412"),  # `scaler.step` divides all, unless something was already
    Part.FOREIGN: (None, None),
}


class Standing(NamedTuple):
    """One optimizer: its stage, and the gradients of its parameters.

    Args:
        gradient: None where there is none; no parts where it is all zeros.
        checked: whether its gradients were looked at for infinities since the last `update()`.
        ran: whether a backward pass ran since its last `unscale_` or `step`.
        lost: whether gradients were thrown away before anything used them.
    """

    stage: Stage = Stage.READY
    gradient: frozenset[Part] | None = None
    checked: bool = False
    ran: bool = False
    lost: bool = False


def advance(at: Standing, call: Call) -> tuple[Standing, Outcome]:
    """One call that concerns the optimizer, for an enabled scaler that knows its scale."""
    match call:
        case Call.BACKWARD:
            return add(at, Part.PLAIN), RIGHT
        case Call.SCALED_BACKWARD:
            return add(at, Part.SCALED), RIGHT
        case Call.UNSCALE:
            return unscale(at)
        case Call.CLIP:
            return at, clip(at)
        case Call.READ:
            return at, read(at)
        case Call.STEP:
            return step(at)
        case Call.PLAIN_STEP:
            return at._replace(ran=False), plain_step(at)
        case Call.UPDATE:
            return update(at), RIGHT
        case Call.CLEAR | Call.ZERO:
            return clear(at, to_none=call is Call.CLEAR), RIGHT


def add(at: Standing, part: Part) -> Standing:
    """A backward pass adds to the gradients."""
    return at._replace(gradient=(at.gradient or frozenset()) | {part}, ran=True, lost=False)


def unscale(at: Standing) -> tuple[Standing, Outcome]:
    following = ORDER[Call.UNSCALE, at.stage]
    if isinstance(following, Refused):
        return at, refused(following, at)
    after = at._replace(stage=following, ran=False)
    if at.gradient is None:
        return after, RIGHT
    gradient = frozenset(UNSCALED[part] for part in at.gradient)
    return after._replace(gradient=gradient, checked=True), RIGHT


def step(at: Standing) -> tuple[Standing, Outcome]:
    following = ORDER[Call.STEP, at.stage]
    if isinstance(following, Refused):
        return at, refused(following, at)
    ready = unscale(at)[0] if at.stage is Stage.READY else at
    if not ready.checked:
        return ready, Outcome(Effect.RAISES, "AMP408" if at.lost else None, NO_CHECKS)
    return ready._replace(stage=following, ran=False), used(ready)


def used(at: Standing) -> Outcome:
    """What a step makes of the gradients, once the scaler lets it happen."""
    if not at.gradient:
        return Outcome(Effect.WRONG, "AMP408") if at.lost else IDLE
    for part, (alone, mixed) in BLAME.items():
        if part in at.gradient:
            return Outcome(Effect.WRONG, alone if len(at.gradient) == 1 else mixed)
    return RIGHT


def plain_step(at: Standing) -> Outcome:
    if not at.gradient:
        return IDLE
    if at.gradient & LARGE_PARTS:
        return Outcome(Effect.WRONG, "AMP401")
    return RIGHT if at.gradient <= RIGHT_PARTS else Outcome(Effect.WRONG)


def clip(at: Standing) -> Outcome:
    if at.stage is Stage.STEPPED and not at.ran:
        return Outcome(Effect.WRONG, "AMP406")  # the step that was to be limited is over
    if not at.gradient:
        return IDLE
    if at.gradient & LARGE_PARTS:
        return Outcome(Effect.WRONG, "AMP404")
    return RIGHT if at.gradient <= RIGHT_PARTS else Outcome(Effect.WRONG)


def read(at: Standing) -> Outcome:
    """Gradients that are looked at, before or after the step."""
    if not at.gradient:
        return IDLE
    if at.gradient & LARGE_PARTS:
        return Outcome(Effect.WRONG, "AMP414")
    return RIGHT if at.gradient <= RIGHT_PARTS else Outcome(Effect.WRONG)


def update(at: Standing) -> Standing:
    """All optimizers are ready again; the scale may be another one from here on."""
    gradient = at.gradient
    if gradient is not None:
        gradient = frozenset(Part.STALE if part is Part.SCALED else part for part in gradient)
    return at._replace(stage=Stage.READY, gradient=gradient, checked=False)


def clear(at: Standing, *, to_none: bool) -> Standing:
    if at.gradient is None:
        return at
    lost = at.lost or at.ran
    return at._replace(gradient=None if to_none else frozenset(), lost=lost)


def refused(by: Refused, at: Standing) -> Outcome:
    return Outcome(Effect.RAISES, by.later if at.ran else by.at_once, by.text)


@dataclass
class Protocol:
    """A scaler with all its optimizers, where it is known what each call reaches.

    Args:
        enabled: whether the scaler is; one that is not hands everything through.
        scale_known: whether `scale` was ever called, which is when the scale comes to be.
    """

    enabled: bool = True
    scale_known: bool = False
    standings: dict[str, Standing] = field(default_factory=dict)

    def call(self, call: Call, *optimizers: str) -> Outcome:
        """Make a call that reaches these optimizers: none for `update`, several for a backward
        pass."""
        if not self.enabled:
            call = PASSED_THROUGH.get(call, call)
        if call is Call.SCALED_BACKWARD:
            self.scale_known = True
        if call in (Call.UPDATE, Call.UNSCALE, Call.STEP):
            if not self.enabled:
                return RIGHT
            if not self.scale_known:
                return Outcome(Effect.RAISES, None, UNKNOWN_SCALE)
        if call is Call.UPDATE:
            if not any(at.checked for at in self.standings.values()):
                return Outcome(Effect.RAISES, "AMP407", NOTHING_TO_UPDATE)
            optimizers = tuple(self.standings)
        outcome = RIGHT
        for name in optimizers:
            at = self.standings.get(name, Standing())
            self.standings[name], outcome = advance(at, call)
        return outcome


PASSED_THROUGH = {Call.SCALED_BACKWARD: Call.BACKWARD, Call.STEP: Call.PLAIN_STEP}
"""What the calls of a disabled scaler come to; its `unscale_` and `update` do nothing."""
