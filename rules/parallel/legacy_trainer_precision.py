"""`precision=16` or `"bf16"` of Lightning's Trainer: both mean mixed precision, and do not say so.

Since version 2.0 there is `"16-true"` as well, which is half weights; the old words are accepted,
with a warning.

    Trainer(precision=16)               # UserWarning: its usage is discouraged

    Trainer(precision="16-mixed")

Fix safety: unsafe: Lightning before 2.0 refuses the new words. The fix writes the successors of
arguments that 2.0 refuses (AMP611), too, and waits where one has none: no release takes both.

Known limits: only what is written in the call is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Finding, Fix, Group, Rule, Safety, Unrun, calls, constant
from amplint import libcst as cst

from .._shared.lightning import MIXED, TRAINERS, removed_arguments, renewed

if TYPE_CHECKING:
    from amplint import Source

NEW: dict[object, str] = {16: "16-mixed", "16": "16-mixed", "bf16": "bf16-mixed"}


rule = Rule(
    "AMP612",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
    help='write `precision="16-mixed"` or `precision="bf16-mixed"`',
    witness=Unrun(
        "Lightning is not installed here; seen with lightning 2.6.6",
        "https://lightning.ai/docs/pytorch/stable/common/trainer.html#precision",
    ),
    candidates=calls(*TRAINERS) & (lambda at: constant(at.of(at.given("precision"))) in NEW),
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    given = src.keyword(call, "precision")
    if given is None or not isinstance(given.value, cst.Integer | cst.SimpleString):
        return
    new = NEW.get(constant(src.value(given.value)))
    if new is None or src.name(call.func) not in TRAINERS:
        return
    message = f'`precision={src.text(given.value)}` is discouraged: say "{new}"'
    # No release has both the new words and what went when they came.
    renewal = renewed(removed_arguments(call, src), MIXED)
    fix = None
    if renewal is not None:
        title = "Say that it is mixed" + (", and use the successors" if renewal else "")
        edits = (src.edits.replace(given.value, f'"{new}"'), *renewal)
        fix = Fix(title, edits, Safety.UNSAFE)
    yield src.finding(rule, given, message, fix)
