"""Gradients are unscaled or clipped after `scaler.step(optimizer)` has used them.

`unscale_` after the step raises ("unscale_() is being called after step()"). Clipping alone
silently has no effect: the step has already used the unclipped gradients, and `zero_grad` discards
the clipped ones.

    scaler.step(optimizer)
    scaler.unscale_(optimizer)                       # raises
    clip_grad_norm_(model.parameters(), 1.0)         # comes too late

    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)

Fix safety: none is offered; the author has to decide which lines to move.

Known limits: reported only if every path from the step to the call is wrong, and not with an
infinite limit, by which the norm is only measured.
"""

from __future__ import annotations

from amplint import Group, Misuse, Raises, Rule, View, Violation

from .._shared.steps import report

rule = Rule(
    "AMP406",
    __doc__,
    group=Group.CORRECTNESS,
    help="unscale and clip before `scaler.step(optimizer)`",
    witness=Raises("unscale_() is being called after step()"),
    violation=Violation.UNSCALED_OR_CLIPPED_AFTER_STEP,
)


def message(call: View, misuse: Misuse) -> str | None:
    limit = call.arg("max_norm", 1)
    if limit is not None and "inf" in limit.text:
        return None  # it measures the norm, and limits nothing
    what = "raises" if misuse.raises else "does nothing"
    return f"`{{call}}` {what}: the step has already used these gradients"


report(rule, message)
