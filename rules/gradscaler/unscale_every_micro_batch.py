"""Gradients are unscaled for every micro-batch, but the optimizer steps only after several.

After `unscale_` the gradients have their true size; the next backward pass adds scaled ones to
them, and no scale fits both any more. The next `unscale_` raises ("unscale_() has already been
called"). With an `update()` for every micro-batch nothing raises, but all except the last
micro-batch are divided by the scale again and again, and so are lost.

    for i, batch in enumerate(loader):
        scaler.scale(loss / n).backward()
        scaler.unscale_(optimizer)                   # raises for the second micro-batch
        if (i + 1) % n == 0:
            scaler.step(optimizer)
            scaler.update()

    for i, batch in enumerate(loader):
        scaler.scale(loss / n).backward()
        if (i + 1) % n == 0:
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

Fix safety: none is offered; the author has to decide what to move under the test.

Known limits: a test of a remainder (`(i + 1) % n == 0`), or of a project function that returns one
(`if self.is_last(i)`), is known to be false for some batches; under another test (`if
self.sync_gradients`) all paths have to be wrong. A framework's own clipping, in its context for
gradient accumulation (`with accelerator.accumulate(model):`), is reported if an argument asks for
several batches, and the precision is float16 or depends on an option.
"""

from __future__ import annotations

from amplint import Group, Misuse, Raises, Rule, View, Violation

from .._shared.steps import report

rule = Rule(
    "AMP412",
    __doc__,
    group=Group.CORRECTNESS,
    help="unscale just before the step, under the test for the last micro-batch",
    witness=Raises("unscale_() has already been called"),
    violation=Violation.UNSCALED_EVERY_MICRO_BATCH,
)


def message(_: View, misuse: Misuse) -> str:
    if misuse.raises:
        return "`{call}` raises for the second micro-batch: no step in between"
    return "`{call}` belongs to the last micro-batch: the others do not step"


report(rule, message)
