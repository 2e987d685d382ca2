"""Adam, or a moving average of weights, makes small steps on bfloat16 parameters.

A bfloat16 number has 8 significant bits: an update is lost if it is smaller than 1/512 of the
weight. A step of Adam is about as large as the learning rate. With a rate of 1e-5 and no float32
copy, weights above 0.0052 stay where they are, and others move in jumps; an average with a decay of
0.9999 hardly follows the weights.

    model = Net().cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    model(x.bfloat16()).mean().backward()
    optimizer.step()                                    # most weights do not change

    model = Net().cuda()                                # float32 parameters
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).mean()
    loss.backward()
    optimizer.step()

Some projects train this way on purpose, for half the memory, so the rule is pedantic.

Fix safety: there is no fix: float32 parameters need more memory, and training with autocast is
another program.

Known limits: for the optimizer, those of AMP804. The rule is silent in a project that mentions
master weights, stochastic rounding or `mp_policy`. A moving average is found as
`average.lerp_(weight, ...)` or `average.mul_(...).add_(...)` in a loop over the parameters of the
average, if the function or its caller casts the module in the expression that creates it. Learning
rates are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    Differs,
    Finding,
    Group,
    Misuse,
    Rule,
    View,
    Violation,
    calls,
)
from amplint.knowledge.vocabulary import KEEPS_SMALL_STEPS

from .._shared.steps import report
from ._bfloat16_parameters import BFloat16Parameters

rule = Rule(
    "AMP806",
    __doc__,
    group=Group.PEDANTIC,
    help="keep the parameters in float32 and compute under autocast, or step on a float32 copy",
    witness=Differs(rtol=0.1),
    violation=Violation.STEPS_LOST,
    preview=True,
)


def of_optimizer(call: View, _: Misuse) -> str | None:
    """The message about a step of the optimizer; None where the project keeps small ones."""
    if keeps_small_steps(call):
        return None
    return "`{call}` loses small steps, which bfloat16 parameters round away"


report(rule, of_optimizer)


@rule.on(calls(".lerp_", ".add_"))
def check(call: View) -> Iterator[Finding]:
    """Ex) average.lerp_(p, 0.001), average.mul_(0.999).add_(p, alpha=0.001)"""
    average = call.receiver
    if call.method == "add_" and average is not None:
        is_scaled = average.op == "call" and average.method == "mul_"
        average = average.receiver if is_scaled else None
    cast = average.ask(BFloat16Parameters) if average is not None else None
    if cast is None or keeps_small_steps(call):
        return
    message = f"`{call.brief}` loses small steps, which bfloat16 weights round away"
    yield call.finding(message, (cast,))


def keeps_small_steps(at: View) -> bool:
    """Whether the project speaks of a way to keep what bfloat16 rounds away."""
    return at.matches(KEEPS_SMALL_STEPS.pattern)
