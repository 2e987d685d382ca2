"""Gradients are clipped while they are still multiplied by the scale of a GradScaler.

After `scaler.scale(loss).backward()` the norm of the gradients is 65536 times the true one.
Clipping it to 1.0 leaves gradients of that norm, which `scaler.step` then divides by 65536: the
model all but stops learning, and nothing says so. What the clipping returns, and is logged, is
65536 times too large as well.

    scaler.scale(loss).backward()
    clip_grad_norm_(model.parameters(), 1.0)         # the norm of scaled gradients
    scaler.step(optimizer)

    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)

Fix safety: unsafe, since the weights change: they become those that were meant.

Known limits: reported only where every path from the backward pass to the clipping goes wrong; an
unknown function that is given the optimizer or the scaler is assumed to unscale. Of several
optimizers, any one that is unscaled is taken to be the one that is clipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import MISUSED, Change, Differs, Fix, Group, Misuse, Rule, Safety, Violation
from amplint import libcst as cst

from .._shared.steps import methods, other, report, scaler_of

if TYPE_CHECKING:
    from amplint import Source

rule = Rule(
    "AMP404",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="call `scaler.unscale_(optimizer)` before the clipping",
    witness=Differs(1e-3),
    changes=frozenset({Change.TRAINING}),
    violation=Violation.CLIP_BEFORE_UNSCALE,
    candidates=MISUSED,
)


def unscaled(misuse: Misuse, call: cst.Call, src: Source) -> Fix | None:
    """Ex) clip_grad_norm_(...) -> scaler.unscale_(optimizer); clip_grad_norm_(...)"""
    scaler, line = scaler_of(other(misuse, call, src)), src.statement(call)
    if scaler is None or not isinstance(line, cst.SimpleStatementLine):
        return None
    name = src.text(scaler)
    steps = methods(name, "step", call, src)
    optimizers = {src.text(step.args[0].value) for step in steps if len(step.args) == 1}
    if len(optimizers) != 1 or methods(name, "unscale_", call, src):
        return None
    edit = src.edits.insert_statement_before(line, f"{name}.unscale_({optimizers.pop()})")
    return Fix("Unscale the gradients first", (edit,), Safety.UNSAFE) if edit is not None else None


report(rule, "`{call}` clips gradients that are still multiplied by the scale", unscaled)
