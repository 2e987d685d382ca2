"""A scheduler steps between the backward pass and the optimizer's step.

The gradients of this batch are then used with the learning rate of the next batch: the first value
of the schedule is skipped, and torch warns once.

    scaler.scale(loss).backward()
    scheduler.step()
    scaler.step(optimizer)
    scaler.update()

    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()

Fix safety: none is offered, because it would change the learning rates.

Known limits: found only in functions that call a scaler, with one optimizer. A scheduler that steps
before the backward pass, or that gets a metric or an epoch, is not reported.
"""

from __future__ import annotations

from amplint import Differs, Group, Rule, Violation

from .._shared.steps import report

rule = Rule(
    "AMP418",
    __doc__,
    group=Group.CORRECTNESS,
    help="step the scheduler after the optimizer",
    witness=Differs(0.01),
    violation=Violation.SCHEDULER_BEFORE_OPTIMIZER,
)
report(rule, "`{call}` runs before the optimizer's step: a learning rate is skipped")
