"""The size of gradients is read while they are still multiplied by the scale of a GradScaler.

After `scaler.scale(loss).backward()` every gradient is 65536 times the true one, and so are its
norm and its largest element: a log or a threshold test mostly sees the scale, and jumps whenever
the scale changes.

    scaler.scale(loss).backward()
    norm = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5       # 65536 times as large
    scaler.step(optimizer)

    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5
    scaler.step(optimizer)

Fix safety: none is offered: only the author knows how the number is used.

Known limits: only norms, sums, means, deviations and extremes are reported, and only if every path
from the backward pass to the read is wrong; an unknown function that gets the optimizer or the
scaler is assumed to unscale. Silent in functions that use the scale, because they may divide by it,
and where the same number is tested for 0 or infinity, or divided by another one of the gradients.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Differs, FunctionTexts, Group, Misuse, Rule, View, Violation
from amplint.knowledge.vocabulary import KNOWS_THE_SCALE

from .._shared.steps import report
from ._scaled_statistics import DependsOnScale

rule = Rule(
    "AMP414",
    __doc__,
    group=Group.CORRECTNESS,
    help="call `scaler.unscale_(optimizer)` before reading the gradients",
    witness=Differs(0.5),
    violation=Violation.SCALED_GRADIENTS_READ,
)


def message(call: View, misuse: Misuse) -> str | None:
    if not call.ask(DependsOnScale):
        return None
    if any(word in text for text in texts_around(call, misuse) for word in KNOWS_THE_SCALE):
        return None
    return "`{call}` reads gradients that are still multiplied by the scale"


def texts_around(call: View, misuse: Misuse) -> Iterator[str]:
    """The texts of the functions that the gradients go through, and of the one around the call."""
    for evidence in (*misuse.inner, misuse.other):
        yield call.fact(FunctionTexts).around(evidence.place)
    function = call.source.function(call.cst)
    if function is not None:
        yield call.source.text(function)


report(rule, message)
