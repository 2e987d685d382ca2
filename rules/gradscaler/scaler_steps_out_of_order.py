"""The steps and updates of a GradScaler are in an order that raises, or that makes a wrong step.

In each iteration, every optimizer steps once, then the scaler is updated once. A second `step` of
the same optimizer raises, and so does an `update()` without a step since the last one. An
`update()` between two optimizers does not raise. But if it changes the scale, the gradients of the
second optimizer are divided by another scale than they were multiplied by.

    scaler.scale(loss_g + loss_d).backward()
    scaler.step(opt_g)
    scaler.update()                                  # the scale may change here
    scaler.step(opt_d)
    scaler.update()

    scaler.scale(loss_g + loss_d).backward()
    scaler.step(opt_g)
    scaler.step(opt_d)
    scaler.update()

An update after each optimizer is right if each has its own backward pass after the last update. In
a loop over optimizers without one, it belongs after the loop.

Fix safety: none is offered; the author has to find the right order.

Known limits: reported only if every path between the two calls is wrong. An `update()` without a
step is reported only if it follows another `update()`.
"""

from __future__ import annotations

from amplint import Group, Misuse, Raises, Rule, View, Violation

from .._shared.steps import report

rule = Rule(
    "AMP407",
    __doc__,
    group=Group.CORRECTNESS,
    help="step every optimizer once, then call `scaler.update()` once",
    witness=Raises("step() has already been called"),
    violation=Violation.OUT_OF_ORDER,
)


def message(call: View, misuse: Misuse) -> str:
    if not misuse.raises:
        return "`{call}` may change the scale before all optimizers have stepped"
    stepped = "nothing has" if call.method == "update" else "the optimizer has"
    return f"`{{call}}` raises: {stepped} stepped since the last update"


report(rule, message)
