"""A scheduler makes its step between the backward pass and the step of the optimizer.

The gradients of this batch are then used with the learning rate of the next: the first value of the
schedule is skipped, and torch warns of it once.

    scaler.scale(loss).backward()
    scheduler.step()
    scaler.step(optimizer)
    scaler.update()

    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()

Fix safety: none is offered; the learning rates become other ones.

Known limits: found in functions that call a scaler, with one optimizer. A scheduler that makes its
step before the backward pass is left alone, and so is one that is given a metric or an epoch.
"""

from __future__ import annotations

from amplint import Differs, Group, Rule, Violation

from .._shared.steps import report

rule = Rule(
    "AMP418",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="step the scheduler after the optimizer",
    witness=Differs(0.01),
    violation=Violation.SCHEDULER_BEFORE_OPTIMIZER,
)
report(rule, "`{call}` runs before the optimizer's step: a learning rate is skipped")
