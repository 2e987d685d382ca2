"""A loss is backpropagated unscaled, and `scaler.step(optimizer)` divides its gradients anyway.

`scaler.step` (or `unscale_`) divides all gradients of the optimizer. The gradients of a loss that
`scaler.scale` has not multiplied become 65536 times too small, and many are zero even before that,
because they were computed without the scale that keeps them in the range of float16. If nothing was
ever scaled, the step raises.

    loss.backward()                        # gradients divided by the scale
    scaler.step(optimizer)
    scaler.update()

    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

Fix safety: unsafe, since the weights change: to the intended ones.

Known limits: only a loss that is visibly computed is reported, not a parameter, which a caller may
have scaled. Silent if a test separates the scaled backward pass from the plain one, because it may
test whether the scaler is enabled; and if other optimizers may use the gradients.
"""

from __future__ import annotations

from amplint import Change, Fix, Group, Misuse, Raises, Rule, View, Violation

from .._shared.steps import report, unsafe
from ._fixes import instead, scaler_for

rule = Rule(
    "AMP402",
    __doc__,
    group=Group.CORRECTNESS,
    help="call `scaler.scale(loss).backward()`",
    witness=Raises("_scale is None"),
    changes=frozenset({Change.TRAINING}),
    violation=Violation.BACKWARD_BYPASSES_SCALER,
    supersedes=("AMP308",),
)

TITLE = "Scale the loss"


def scaled(call: View, misuse: Misuse) -> Fix | None:
    """Ex) loss.backward() -> scaler.scale(loss).backward()

    Where the scaler is used under a test alone, so is the scaled loss.
    """
    loss, scaler_use = call.receiver, scaler_for(call, misuse)
    if loss is None or scaler_use is None or loss.cst.lpar:
        return None
    if loss.name is not None:
        return None  # torch.autograd.backward(losses)
    scaler, tests = scaler_use
    written = f"{scaler}.scale({loss.text})"
    if not tests:
        return unsafe(TITLE, call.source.edits.replace(loss.cst, written))
    return unsafe(TITLE, instead(call, [written + call.text.removeprefix(loss.text)], tests))


report(rule, "`{call}` is not scaled, but the scaler divides its gradients", scaled)
