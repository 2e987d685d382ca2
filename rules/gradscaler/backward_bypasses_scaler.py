"""A loss is backpropagated unscaled, and `scaler.step(optimizer)` divides its gradients anyway.

`scaler.step` (or `unscale_`) divides all gradients of the optimizer. Those of a loss that
`scaler.scale` has not multiplied come out 65536 times too small, and half of them are zero before
that, for they were computed without the scale that keeps them in the range of float16. If nothing
was ever scaled, the step raises.

    loss.backward()                        # gradients divided by the scale
    scaler.step(optimizer)
    scaler.update()

    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

Fix safety: unsafe, since the weights change: they become those that were meant.

Known limits: only a loss that is seen to be computed is reported, not a parameter, which a caller
may have scaled. Silent where a test keeps the scaled backward pass and the plain one apart, for
that test may say whether the scaler is enabled; and where other optimizers may take the gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import MISUSED, Change, Edit, Fix, Group, Misuse, Raises, Rule, Safety, Violation
from amplint import libcst as cst

from .._shared.steps import instead, report, scaler_for, tests_missing

if TYPE_CHECKING:
    from amplint import Source

rule = Rule(
    "AMP402",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="call `scaler.scale(loss).backward()`",
    witness=Raises("_scale is None"),
    changes=frozenset({Change.TRAINING}),
    violation=Violation.BACKWARD_BYPASSES_SCALER,
    supersedes=("AMP308",),
    candidates=MISUSED,
)


def scaled(misuse: Misuse, call: cst.Call, src: Source) -> Fix | None:
    """Ex) loss.backward() -> scaler.scale(loss).backward()

    Where the scaler is used under a test alone, so is the scaled loss.
    """
    scaler = scaler_for(misuse, call, src)
    tests = tests_missing(scaler, call, src) if scaler is not None else None
    function = call.func
    if scaler is None or tests is None or not isinstance(function, cst.Attribute):
        return None
    if src.name(function) is not None or function.value.lpar:
        return None  # torch.autograd.backward(losses)
    loss = src.text(function.value)
    loss = f"{src.text(scaler)}.scale({loss})"
    edit: Edit | None = src.edits.replace(function.value, loss)
    if tests:
        whole = loss + src.text(call).removeprefix(src.text(function.value))
        edit = instead(call, [whole], tests, src)
    return Fix("Scale the loss", (edit,), Safety.UNSAFE) if edit is not None else None


report(rule, "`{call}` is not scaled, and the scaler divides its gradients", scaled)
