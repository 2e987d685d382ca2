"""Gradients are cleared between the backward pass and `scaler.step(optimizer)`.

The step then finds no gradients: the scaler raises "No inf checks were recorded for this
optimizer". With `set_to_none=False` it finds zeros, and silently steps by nothing (or only by
momentum and weight decay).

    scaler.scale(loss).backward()
    optimizer.zero_grad()                            # throws the gradients away
    scaler.step(optimizer)

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)

Fix safety: none is offered; the author has to decide where the line belongs.

Known limits: `model.zero_grad()` is not followed, since it is not known whose parameters the
optimizer has. Reported only if every path between the calls is wrong.
"""

from __future__ import annotations

from amplint import Group, Raises, Rule, Violation

from .._shared.steps import report

rule = Rule(
    "AMP408",
    __doc__,
    group=Group.CORRECTNESS,
    help="call `zero_grad()` before the backward pass, or after the step",
    witness=Raises("No inf checks were recorded for this optimizer"),
    violation=Violation.CLEARED_BEFORE_STEP,
)
report(rule, "`{call}` clears gradients before the step uses them")
