"""`scaler.unscale_(optimizer)` is called a second time before `scaler.update()`.

The scaler refuses to divide the same gradients twice: RuntimeError, "unscale_() has already been
called on this optimizer since the last update()".

    scaler.unscale_(optimizer)
    log(grad_norm(model))
    scaler.unscale_(optimizer)                       # raises
    clip_grad_norm_(model.parameters(), 1.0)

    scaler.unscale_(optimizer)
    log(grad_norm(model))
    clip_grad_norm_(model.parameters(), 1.0)

Fix safety: safe where the first call stands in the same block, before the second: then the second
could only raise. None is offered elsewhere, nor where the error is caught.

Known limits: it speaks where every path from the first call to the second goes wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amplint import Finding, Fix, Group, Misuse, Raises, Rule, Source

from .._shared.guards import is_caught
from .._shared.steps import WORDS, evidence, is_statement, other

DOMINATED = "the first call stands in the same block, before the second"
UNCAUGHT = "nothing around it catches the error"

rule = Rule(
    "AMP405",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    witness=Raises("unscale_() has already been called"),
    safe_if=(DOMINATED, UNCAUGHT),
    words=WORDS,
    misuse=True,
)


@rule.on(cst.Call)
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    misuse = src.misuse(call, rule.code)
    if misuse is None:
        return
    message = f"`{src.brief(call)}` raises: the gradients are unscaled already"
    yield src.finding(rule, call, message, once(misuse, call, src), evidence(misuse, src))


def once(misuse: Misuse, call: cst.Call, src: Source) -> Fix | None:
    """Ex) scaler.unscale_(opt); ...; scaler.unscale_(opt) -> scaler.unscale_(opt); ..."""
    first, line = other(misuse, call, src), src.statement(call)
    if first is None or not isinstance(line, cst.SimpleStatementLine):
        return None
    if not is_statement(call, src) or not is_statement(first, src):
        return None
    before = src.statement(first)
    if before is None or src.parent(before) is not src.parent(line) or is_caught(call, src):
        return None
    edit = src.remove_statement(line.body[0])
    if edit is None:
        return None
    return Fix.safe_if("Unscale once", (edit,), {DOMINATED: True, UNCAUGHT: True})
