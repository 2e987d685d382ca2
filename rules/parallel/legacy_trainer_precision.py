"""`precision=16` and `"bf16"` of Lightning's Trainer mean mixed precision, but do not say so.

Version 2.0 added `"16-true"`, which means half weights; the old values still work, with a warning.

    Trainer(precision=16)               # UserWarning: its usage is discouraged

    Trainer(precision="16-mixed")

Fix safety: unsafe: Lightning before 2.0 refuses the new values. The fix also writes the successors
of arguments that 2.0 refuses (AMP611). It is not offered if one of these has no successor: no
release accepts both.

Known limits: only literal values in the call are seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Fix, Group, Rule, Safety, Unrun, View, calls, calls_with, constant

from ._trainer import MIXED, TRAINERS, removed_arguments, renewed

NEW: dict[object, str] = {16: "16-mixed", "16": "16-mixed", "bf16": "bf16-mixed"}


rule = Rule(
    "AMP612",
    __doc__,
    group=Group.MIGRATION,
    help='write `precision="16-mixed"` or `precision="bf16-mixed"`',
    witness=Unrun(
        "Lightning is not installed here; seen with lightning 2.6.6",
        "https://lightning.ai/docs/pytorch/stable/common/trainer.html#precision",
    ),
)


@rule.on(calls(*TRAINERS) & calls_with("precision"))
def check(call: View) -> Iterator[Finding]:
    old = call.arg("precision")
    new = NEW.get(constant(old.value)) if old is not None and old.op == "const" else None
    if old is None or new is None or call.callee not in TRAINERS:
        return
    message = f'`precision={old.text}` is discouraged: write "{new}"'
    # No release has both the new words and what went when they came.
    renewal = renewed(removed_arguments(call), MIXED)
    fix = None
    if renewal is not None:
        title = "Name the mixed precision" + (", and use the successors" if renewal else "")
        edits = (call.source.edits.replace(old.cst, f'"{new}"'), *renewal)
        fix = Fix(title, edits, Safety.UNSAFE)
    yield call.finding(message, fix=fix, place=call.source.parent(old.cst))
