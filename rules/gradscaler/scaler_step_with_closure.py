"""`scaler.step` is given a closure, or an optimizer that cannot step without one.

A closure runs the backward pass within the step, where the scaler can neither look for infinities
nor divide. `closure=` raises ("Closure use is not currently supported if GradScaler is enabled"). A
closure in second place slips through the check, and the optimizer then steps with scaled gradients.
LBFGS cannot step without one: TypeError.

    scaler.step(optimizer, closure=closure)          # raises
    scaler.step(optimizer, closure)                  # steps with scaled gradients

    loss = closure()                                 # backpropagates `scaler.scale(loss)`
    scaler.step(optimizer)

Fix safety: none is offered; an optimizer that needs a closure needs training without a scaler.

Known limits: a closure among `*args` or `**kwargs` is not seen; of the optimizers that need one,
only torch.optim.LBFGS is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Finding, Function, Group, Object, Raises, Rule, Spot, calls, only
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source


def has_closure(at: Spot) -> bool:
    """Whether a scaler is given more than an optimizer, or one that needs a closure."""
    scaler = only(at.of(at.receiver))
    if not isinstance(scaler, Object) or scaler.kind != "scaler" or not at.arguments:
        return False
    optimizer = only(at.of(at.arguments[0]))
    needs = isinstance(optimizer, Object) and optimizer.type == "torch.optim.LBFGS"
    return needs or len(at.arguments) > 1 or at.given("closure") >= 0


rule = Rule(
    "AMP415",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="call the closure first, then `scaler.step(optimizer)`; train LBFGS without a scaler",
    witness=Raises("Closure use is not currently supported if GradScaler is enabled"),
    candidates=calls(".step") & has_closure,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    function = call.func
    if not isinstance(function, cst.Attribute) or function.attr.value != "step" or not call.args:
        return
    scaler = only(src.value(function.value))
    if not isinstance(scaler, Object) or scaler.kind != "scaler" or scaler.enabled is False:
        return
    if src.keyword(call, "closure") is not None:
        message = f"`{src.brief(call)}` raises: a scaler steps without a closure"
    elif len(call.args) > 1 and isinstance(only(src.value(call.args[1].value)), Function):
        message = f"`{src.brief(call)}` steps with the scaled gradients of the closure"
    elif len(call.args) == 1 and needs_closure(call.args[0], src):
        message = f"`{src.brief(call)}` raises: LBFGS cannot step without a closure"
    else:
        return
    yield src.finding(rule, call, message)


def needs_closure(arg: cst.Arg, src: Source) -> bool:
    optimizer = only(src.value(arg.value))
    return isinstance(optimizer, Object) and optimizer.type == "torch.optim.LBFGS"
