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

So it is where a framework has the scaler: the optimizers that `self.optimizers()` of Lightning with
`precision="16-mixed"` or `accelerator.prepare` with `mixed_precision="fp16"` return divide the
gradients themselves, which is right after `self.manual_backward(loss)` and
`accelerator.backward(loss)` alone. Those scale by a scaler of the framework: a scaler of one's own
has scaled nothing then, and its step raises.

Known limits: only a loss that is visibly computed is reported, not a parameter, which a caller may
have scaled. Silent if a test separates the scaled backward pass from the plain one, because it may
test whether the scaler is enabled; and if other optimizers may use the gradients. With a framework,
backward pass and step have to stand in one function that mentions no scale, and runs no other
backward pass by the framework; the precision has to be a constant.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    MISUSED,
    Change,
    Finding,
    Fix,
    Group,
    Instance,
    Misuse,
    Object,
    Raises,
    Rule,
    View,
    Violation,
    only,
)

from .._shared.lightning import in_lightning_module
from .._shared.steps import places, unsafe
from ._fixes import instead, other, scaler_for

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
BY_FRAMEWORK = "let the framework run the backward pass"


@rule.on(MISUSED)
def check(call: View) -> Iterator[Finding]:
    misuse = call.misuse(rule.violation)
    if misuse is None:
        return
    use = other(call, misuse)
    by_framework = is_of_framework(call)
    steps_itself = use is not None and use.method == "step" and not [*use.arguments]
    fix, help = None, ""
    if by_framework:
        message = f"`{call.brief}` scales by the framework's own scaler, not by this one"
        help = "drop the scaler, and step with the optimizer that the framework has prepared"
    elif steps_itself:
        message = f"`{call.brief}` is not scaled, but the framework divides its gradients"
        help = f"{BY_FRAMEWORK}: `self.manual_backward(loss)`, `accelerator.backward(loss)`"
        fix = backpropagated(call)
    else:
        message = f"`{call.brief}` is not scaled, but the scaler divides its gradients"
        fix = scaled(call, misuse)
    yield call.finding(message, places(call, misuse), fix, help=help)


def is_of_framework(call: View) -> bool:
    """Ex) accelerator.backward(loss), self.manual_backward(loss)"""
    owner = only(call.receiver.value) if call.receiver is not None else None
    return isinstance(owner, Instance) or (
        isinstance(owner, Object) and owner.kind == "accelerator"
    )


def backpropagated(call: View) -> Fix | None:
    """Ex) loss.backward() -> self.manual_backward(loss)"""
    loss, src = call.receiver, call.source
    if loss is None or loss.name is not None or loss.cst.lpar or not in_lightning_module(call):
        return None
    function = src.function(call.cst)
    first = next(iter(function.params.params), None) if function is not None else None
    if first is None or first.name.value != "self":
        return None
    inside = call.text.removeprefix(loss.text).partition("(")[2]
    text = f"self.manual_backward({loss.text}{', ' if [*call.arguments] else ''}{inside}"
    return unsafe("Let Lightning scale the loss", src.edits.replace(call.cst, text))


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
