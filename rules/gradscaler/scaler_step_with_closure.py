"""`scaler.step` gets a closure, or an optimizer that cannot step without one.

A closure runs the backward pass within the step, where the scaler can neither look for infinities
nor divide. `closure=` raises ("Closure use is not currently supported if GradScaler is enabled"). A
closure as the second positional argument passes the check, and the optimizer then steps with scaled
gradients. LBFGS cannot step without a closure: TypeError.

    scaler.step(optimizer, closure=closure)          # raises
    scaler.step(optimizer, closure)                  # steps with scaled gradients

    loss = closure()                                 # backpropagates `scaler.scale(loss)`
    scaler.step(optimizer)

Fix safety: none is offered; an optimizer that needs a closure needs training without a scaler.

Known limits: a closure in `*args` or `**kwargs` is not seen; torch.optim.LBFGS is the only known
optimizer that needs one.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Function, Group, Object, Raises, Rule, View, calls, only

from .._shared.scalers import scaler_at

rule = Rule(
    "AMP415",
    __doc__,
    group=Group.CORRECTNESS,
    help="call the closure first, then `scaler.step(optimizer)`; train LBFGS without a scaler",
    witness=Raises("Closure use is not currently supported if GradScaler is enabled"),
)


@rule.on(calls(".step"))
def check(call: View) -> Iterator[Finding]:
    scaler = scaler_at(call.receiver)
    if scaler is None or scaler.enabled is False:
        return
    atoms = [only(each.value) for _, _, each in call.arguments]
    if call.arg("closure") is not None:
        yield call.finding(f"`{call.brief}` raises: a scaler steps without a closure")
    elif len(atoms) > 1 and isinstance(atoms[1], Function):
        yield call.finding(f"`{call.brief}` steps with the scaled gradients of the closure")
    elif len(atoms) == 1 and needs_closure(atoms[0]):
        yield call.finding(f"`{call.brief}` raises: LBFGS cannot step without a closure")


def needs_closure(optimizer: object) -> bool:
    return isinstance(optimizer, Object) and optimizer.type == "torch.optim.LBFGS"
