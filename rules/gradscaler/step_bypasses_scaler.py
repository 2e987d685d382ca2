"""`optimizer.step()` uses gradients that were scaled by a GradScaler.

`scaler.scale(loss).backward()` computes gradients that are `scale` times too large, 65536 times at
the beginning. `scaler.step(optimizer)` divides them before it steps; `optimizer.step()` silently
does not: one step ruins the weights. A `scaler.update()` after it raises, because the scaler has
seen no gradients.

    scaler.scale(loss).backward()
    optimizer.step()                       # an update 65536 times too large

    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

After `scaler.unscale_(optimizer)` the gradients have their true size. But `scaler.step` also skips
the step if a gradient is infinite or NaN, which happens in the first iterations, until the scale
has decreased. `optimizer.step()` does not skip it.

    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()                       # NaN in all weights, after the first overflow

A plain step after `scaler.step(optimizer)` repeats the step with the same gradients, even with
infinite ones, for which the scaler skipped the step.

    scaler.step(optimizer)
    scaler.update()
    optimizer.step()                       # to be taken out

Fix safety: unsafe, since the weights change: to the intended ones. `scaler.update()` is added where
the function has none. There is no fix for a second step.

Known limits: reported only if every path from the backward pass to the step is wrong. Silent if a
test separates `optimizer.step()` from `scaler.step(optimizer)`, because it may test whether the
scaler is enabled; and if one of several optimizers steps without the scaler, unless all its
gradients must be scaled. After `unscale_` it is silent if the function tests the norm, or mentions
infinite values at all (`isfinite`, `overflow`, `error_if_nonfinite`).
"""

from __future__ import annotations

from amplint import Change, Differs, Fix, Group, Misuse, Rule, View, Violation

from .._shared.steps import report, unsafe
from ._fixes import added, instead, methods, scaler_for, starts, tests_of

rule = Rule(
    "AMP401",
    __doc__,
    group=Group.CORRECTNESS,
    help="call `scaler.step(optimizer)`, then `scaler.update()`",
    witness=Differs(1e-3),
    changes=frozenset({Change.TRAINING}),
    violation=Violation.STEP_BYPASSES_SCALER,
)

TITLE = "Step through the scaler"


def through_scaler(call: View, misuse: Misuse) -> Fix | None:
    """Ex) optimizer.step() -> scaler.step(optimizer); scaler.update()

    Where the scaler is used under a test alone, so is its step.
    """
    optimizer, scaler_use = call.receiver, scaler_for(call, misuse)
    if optimizer is None or scaler_use is None or any(call.arguments):
        return None
    scaler, tests = scaler_use
    if is_made_before(call, scaler, optimizer):
        return None
    step, update = f"{scaler}.step({optimizer.text})", f"{scaler}.update()"
    has_update = bool(methods(scaler, "update", call))
    if tests:
        return unsafe(TITLE, instead(call, [step] if has_update else [step, update], tests))
    replaced = call.source.edits.replace(call.cst, step)
    return unsafe(TITLE, replaced, *([] if has_update else [added(call, update)]))


def is_made_before(call: View, scaler: str, optimizer: View) -> bool:
    """Whether the scaler has made a step of the optimizer wherever this one is made."""
    src = call.source
    here = tests_of(call.cst, src).keys()
    return any(
        [argument.text for *_, argument in step.arguments] == [optimizer.text]
        and starts(step.cst, call.cst, src)
        and tests_of(step.cst, src).keys() <= here
        for step in methods(scaler, "step", call)
    )


report(
    rule,
    "`{call}` steps even if gradients are infinite, where `scaler.step` would skip",
    through_scaler,
    Violation.STEP_BYPASSES_CHECK,
)
report(
    rule,
    "`{call}` repeats the step that `scaler.step` has made or skipped",
    violation=Violation.STEPPED_AGAIN,
)
report(rule, "`{call}` steps with gradients that are still multiplied by the scale", through_scaler)
