"""The size of gradients is read while they are multiplied by the scale of a GradScaler.

After `scaler.scale(loss).backward()` every gradient is 65536 times the true one, and so is its
norm: what is logged or compared with a threshold is the scale, above all, and jumps whenever the
scale changes.

    scaler.scale(loss).backward()
    norm = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5       # 65536 times as large
    scaler.step(optimizer)

    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5
    scaler.step(optimizer)

Fix safety: none is offered: what becomes of the number is for the author to say.

Known limits: it speaks of norms alone, and where every path from the backward pass to the reading
goes wrong; an unknown function that is given the optimizer or the scaler is assumed to unscale.
Silent in functions that know the scale, for they may divide by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import MISUSED, Differs, Group, Misuse, Rule, Violation
from amplint import libcst as cst
from amplint.knowledge.vocabulary import KNOWS_THE_SCALE

from .._shared.code_texts import text_around
from .._shared.steps import report

if TYPE_CHECKING:
    from amplint import Source

rule = Rule(
    "AMP414",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="call `scaler.unscale_(optimizer)` before the gradients are read",
    witness=Differs(0.5),
    violation=Violation.SCALED_GRADIENTS_READ,
    candidates=MISUSED,
)


def message(call: cst.Call, misuse: Misuse, src: Source) -> str | None:
    function = src.function(call)
    texts = [text_around(evidence, src) for evidence in (*misuse.inner, misuse.other)]
    texts.append(src.text(function) if function is not None else "")
    if any(word in text for word in KNOWS_THE_SCALE for text in texts):
        return None
    return f"`{src.brief(call)}` reads gradients that are still multiplied by the scale"


report(rule, message)
