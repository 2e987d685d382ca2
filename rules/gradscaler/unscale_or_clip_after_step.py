"""Gradients are unscaled or clipped after `scaler.step(optimizer)` has used them.

`unscale_` after the step raises ("unscale_() is being called after step()"). Clipping alone does
nothing at all, and says nothing: the step with the unclipped gradients is over, and `zero_grad`
throws away what was clipped.

    scaler.step(optimizer)
    scaler.unscale_(optimizer)                       # raises
    clip_grad_norm_(model.parameters(), 1.0)         # comes too late

    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)

Fix safety: none is offered; which lines have to move where is for the author to see.

Known limits: it speaks where every path from the step to the call goes wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amplint import Finding, Group, Raises, Rule, Source

from .._shared.steps import WORDS, evidence

rule = Rule(
    "AMP406",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    witness=Raises("unscale_() is being called after step()"),
    words=WORDS,
    misuse=True,
)


@rule.on(cst.Call)
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    misuse = src.misuse(call, rule.code)
    if misuse is None:
        return
    what = "raises" if misuse.raises else "does nothing"
    message = f"`{src.brief(call)}` {what}: the step with these gradients has been made"
    yield src.finding(rule, call, message, None, evidence(misuse, src))
