"""The automaton of a GradScaler against torch's scaler: the same calls, the same verdict."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings

from amplint.findings.violations import Violation
from amplint.gradscaler.automaton import (
    BLAME,
    NOTHING_TO_UPDATE,
    ORDER,
    RIGHT,
    UNSCALED,
    CallVerdict,
    Contribution,
    Effect,
    OptimizerState,
    Phase,
    StepCall,
    advance,
)

SCALE = 1024.0
NAMES = ("first", "second")
UNKNOWN_SCALE = "_scale is None"


@dataclass
class ScalerProtocol:
    """A scaler with all its optimizers, where it is known what each call reaches.

    Args:
        enabled: whether the scaler is; one that is not hands everything through.
        scale_known: whether `scale` was ever called, which is when the scale comes to be.
    """

    enabled: bool = True
    scale_known: bool = False
    optimizers: dict[str, OptimizerState] = field(default_factory=dict)

    def call(self, call: StepCall, *optimizers: str) -> CallVerdict:
        """Make a call that reaches these optimizers: none for `update`, several for a backward
        pass."""
        if not self.enabled:
            call = PASSED_THROUGH.get(call, call)
        if call is StepCall.SCALED_BACKWARD:
            self.scale_known = True
        if call in (StepCall.UPDATE, StepCall.UNSCALE, StepCall.STEP):
            if not self.enabled:
                return RIGHT
            if not self.scale_known:
                return CallVerdict(Effect.RAISES, None, UNKNOWN_SCALE)
        if call is StepCall.UPDATE:
            if not any(at.checked for at in self.optimizers.values()):
                return CallVerdict(Effect.RAISES, Violation.OUT_OF_ORDER, NOTHING_TO_UPDATE)
            optimizers = tuple(self.optimizers)
        verdict = RIGHT
        for name in optimizers:
            at = self.optimizers.get(name, OptimizerState())
            self.optimizers[name], verdict = advance(at, call)
        return verdict


PASSED_THROUGH = {
    StepCall.SCALED_BACKWARD: StepCall.BACKWARD,
    StepCall.STEP: StepCall.PLAIN_STEP,
}
"""The calls that those of a disabled scaler amount to; its `unscale_` and `update` do nothing."""


class Reality:
    """One weight for each optimizer, whose gradient is 1 for every backward pass; and the sum that
    the gradient would be without a scaler."""

    def __init__(self, enabled: bool) -> None:
        # The scale doubles at every update, so that what was scaled before never fits after.
        self.scaler = torch.amp.GradScaler(
            "cpu", init_scale=SCALE, growth_interval=1, enabled=enabled
        )
        self.weights = {
            name: torch.zeros((), dtype=torch.float64, requires_grad=True) for name in NAMES
        }
        self.optimizers = {
            name: torch.optim.SGD([weight], lr=1.0) for name, weight in self.weights.items()
        }
        self.sums = dict.fromkeys(NAMES, 0.0)
        self.lost = dict.fromkeys(NAMES, False)

    def call(self, call: StepCall, *names: str) -> float:
        """Make the call; returns what it worked with, as a share of what it should be.

        1 is right; 0 for a step that should move something and does not.
        """
        if call in (StepCall.BACKWARD, StepCall.SCALED_BACKWARD):
            # Each by a factor of its own: gradients that share memory would be divided twice.
            loss = sum((self.weights[name] * torch.ones(()) for name in names), torch.zeros(()))
            (self.scaler.scale(loss) if call is StepCall.SCALED_BACKWARD else loss).backward()
            for name in names:
                self.sums[name] += 1.0
        elif call is StepCall.UPDATE:
            self.scaler.update()
        else:
            return self.call_on(call, names[0])
        return 1.0

    def call_on(self, call: StepCall, name: str) -> float:
        optimizer, weight = self.optimizers[name], self.weights[name]
        before = weight.item()
        if call is StepCall.UNSCALE:
            self.scaler.unscale_(optimizer)
        elif call is StepCall.STEP:
            self.scaler.step(optimizer)
        elif call is StepCall.PLAIN_STEP:
            optimizer.step()
        elif call is StepCall.READ:
            norm = 0.0 if weight.grad is None else weight.grad.norm().item()
            return norm / self.sums[name] if self.sums[name] else 1.0
        elif call is StepCall.CLIP:
            norm = torch.nn.utils.clip_grad_norm_([weight], 1e9).item()
            return norm / self.sums[name] if self.sums[name] else 1.0
        else:
            optimizer.zero_grad(set_to_none=call is StepCall.CLEAR)
            self.sums[name] = 0.0
        if call in (StepCall.STEP, StepCall.PLAIN_STEP):
            moved = before - weight.item()
            return moved / self.sums[name] if self.sums[name] else 1.0 + moved
        return 1.0


def sequences() -> st.SearchStrategy[list[tuple[StepCall, tuple[str, ...]]]]:
    name = st.sampled_from(NAMES)
    reached = st.sampled_from([NAMES[:1], NAMES[1:], NAMES])
    backward = st.tuples(st.sampled_from([StepCall.SCALED_BACKWARD, StepCall.BACKWARD]), reached)
    mostly_scaled = st.tuples(st.just(StepCall.SCALED_BACKWARD), reached)
    others = [
        StepCall.UNSCALE,
        StepCall.CLIP,
        StepCall.READ,
        StepCall.STEP,
        StepCall.PLAIN_STEP,
        StepCall.CLEAR,
    ]
    others.append(StepCall.ZERO)
    on_one = st.tuples(st.sampled_from(others), name.map(lambda one: (one,)))
    update = st.just((StepCall.UPDATE, ()))
    return st.lists(st.one_of(backward, mostly_scaled, on_one, on_one, update), max_size=14)


@settings(max_examples=1500, deadline=None)
@given(sequences(), st.sampled_from([True, True, True, False]))
def test_the_automaton_is_torch(
    calls: list[tuple[StepCall, tuple[str, ...]]], enabled: bool
) -> None:
    check(calls, enabled)


def check(
    calls: list[tuple[StepCall, tuple[str, ...]]], enabled: bool = True
) -> CallVerdict | None:
    """Hold each call of the sequence against torch; returns the verdict of the last."""
    predicted, real = ScalerProtocol(enabled), Reality(enabled)
    verdict = None
    for call, names in calls:
        verdict = predicted.call(call, *names)
        if verdict.effect is Effect.RAISES:
            with pytest.raises((AssertionError, RuntimeError)) as raised:
                real.call(call, *names)
            assert verdict.text in str(raised.value)
            return verdict  # a program ends here
        share = real.call(call, *names)
        right = abs(share - 1.0) < 1e-4
        if call is StepCall.CLIP and verdict.violation == Violation.UNSCALED_OR_CLIPPED_AFTER_STEP:
            continue  # the norm may be right; it is the step that is over
        if verdict.violation == Violation.CLEARED_BEFORE_STEP:
            continue  # nothing moves, as nothing would without a scaler
        assert right is (verdict.effect in (Effect.RIGHT, Effect.IDLE)), (call, share, verdict)
    return verdict


SCALED, PLAIN, ONE = StepCall.SCALED_BACKWARD, StepCall.BACKWARD, NAMES[:1]

EXAMPLES: list[tuple[str, Violation | None]] = [
    ("scaled step update clear scaled step update", None),
    ("scaled unscale clip step update", None),
    ("scaled scaled unscale clip step update", None),
    ("scaled plain-step", Violation.STEP_BYPASSES_SCALER),
    ("scaled step update clear plain step", Violation.BACKWARD_BYPASSES_SCALER),
    ("scaled step clear scaled step", Violation.MISSING_UPDATE),
    ("scaled unscale step clear scaled unscale", Violation.MISSING_UPDATE),
    ("scaled clip", Violation.CLIP_BEFORE_UNSCALE),
    ("scaled unscale unscale", Violation.UNSCALED_TWICE),
    ("scaled step unscale", Violation.UNSCALED_OR_CLIPPED_AFTER_STEP),
    ("scaled step clip", Violation.UNSCALED_OR_CLIPPED_AFTER_STEP),
    ("scaled step update clip", Violation.UNSCALED_OR_CLIPPED_AFTER_STEP),
    ("scaled step update scaled unscale clip", None),
    ("scaled step step", Violation.OUT_OF_ORDER),
    ("scaled step update update", Violation.OUT_OF_ORDER),
    ("scaled clear step", Violation.CLEARED_BEFORE_STEP),
    ("scaled zero step", Violation.CLEARED_BEFORE_STEP),
    ("scaled unscale scaled unscale", Violation.UNSCALED_EVERY_MICRO_BATCH),
    ("scaled unscale scaled step", Violation.UNSCALED_EVERY_MICRO_BATCH),
    ("scaled unscale update scaled step", Violation.UNSCALED_EVERY_MICRO_BATCH),
    ("scaled read", Violation.SCALED_GRADIENTS_READ),
    ("scaled step read", None),
]


@pytest.mark.parametrize(("text", "violation"), EXAMPLES)
def test_each_violation_has_its_sequence(text: str, violation: Violation | None) -> None:
    names = {
        "scaled": SCALED,
        "plain": PLAIN,
        "plain-step": StepCall.PLAIN_STEP,
        "clear": StepCall.CLEAR,
    }
    calls = [names.get(word) or StepCall[word.upper()] for word in text.split()]
    verdict = check([(call, () if call is StepCall.UPDATE else ONE) for call in calls])
    assert verdict is not None and verdict.violation == violation


def test_an_update_between_two_optimizers() -> None:
    one, other = NAMES[:1], NAMES[1:]
    calls: list[tuple[StepCall, tuple[str, ...]]] = [
        (SCALED, NAMES), (StepCall.STEP, one), (StepCall.UPDATE, ()), (StepCall.STEP, other)
    ]  # fmt: skip
    verdict = check(calls)
    assert verdict == CallVerdict(Effect.WRONG, Violation.OUT_OF_ORDER)


def test_the_tables_are_complete() -> None:
    assert set(ORDER) == set(itertools.product((StepCall.UNSCALE, StepCall.STEP), Phase))
    assert set(UNSCALED) == set(Contribution)
    assert set(BLAME) == set(Contribution) - {Contribution.PLAIN, Contribution.UNSCALED}
