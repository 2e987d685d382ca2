"""The optimizer's step runs inside an autocast region.

A weight update needs no autocast. One step at the end of the region does no harm, so this is a
matter of style. But the casts of the weights are kept until the region ends: any forward pass after
the step still uses the old ones (AMP302).

    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
        ...
        optimizer.step()

    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
    ...
    optimizer.step()

Fix safety: unsafe: ends the region before the step, if only steps follow in it. Some optimizers
multiply matrices, in half inside the region. Not offered if the `with` also opens another context.

Known limits: a step in a function that the region calls is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    IN_REGION,
    Change,
    Finding,
    Fix,
    Group,
    Method,
    Object,
    Presumes,
    Rule,
    Same,
    View,
    calls,
    only,
)
from amplint import libcst as cst

from .._shared.steps import unsafe
from ._regions import lines_to_leave

OF_TRAINING = frozenset({"step", "update", "zero_grad"})
KINDS = frozenset({"optimizer", "scaler", "scheduler"})

rule = Rule(
    "AMP303",
    __doc__,
    group=Group.PEDANTIC,
    help="end the region before the optimizer step",
    witness=Same(),
    changes=frozenset({Change.ROUNDING}),
    presumes=Presumes.AUDITED,
)


@rule.on(calls(".step") & IN_REGION)
def check(call: View) -> Iterator[Finding]:
    stepper = owner(call)
    if stepper is None or stepper.kind == "scheduler":
        return
    region = call.enabled_region
    if region is None or region.inherited:
        return
    keeps = "which may reuse casts of the old ones"
    message = f"`{call.brief}` updates the weights inside autocast, {keeps}"
    yield call.finding(message, [region.evidence], leave(call))


def owner(call: View) -> Object | None:
    """The optimizer, scaler or scheduler of which a method is called that belongs to a step."""
    method = only(call.operands[0].value) if call.op == "call" else None
    if not isinstance(method, Method) or method.name not in OF_TRAINING:
        return None
    return method.of if isinstance(method.of, Object) and method.of.kind in KINDS else None


def leave(call: View) -> Fix | None:
    """End the region just before the step."""
    src = call.source
    moved = lines_to_leave(src.statement(call.cst), call)
    if not all(is_step(line, call) for line in moved):
        return None
    return unsafe("End the region before the step", *src.edits.dedent(moved))


def is_step(line: cst.BaseStatement, at: View) -> bool:
    """Ex) optimizer.step(), scaler.update(), optimizer.zero_grad()"""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return False
    expression = line.body[0]
    return isinstance(expression, cst.Expr) and owner(at.of(expression.value)) is not None
