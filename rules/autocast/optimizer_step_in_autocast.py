"""The optimizer's step runs inside an autocast region.

An update of weights is no forward work: autocast has nothing to do there. One step at the end of
the region does no harm, which is why this is a matter of style; but the casts of the weights are
kept until the region ends: whatever runs there after the step still uses the old ones (AMP302).

    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
        ...
        optimizer.step()

    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
    ...
    optimizer.step()

Fix safety: ends the region before the step, where nothing else than steps follows in it. Safe for
an optimizer of torch that works element by element; unsafe for others, which may multiply matrices,
and do it in half in the region. Not offered where the `with` opens something else too.

Known limits: a step in a function that the region calls is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    IN_REGION,
    Change,
    Finding,
    Fix,
    Group,
    Method,
    Object,
    Rule,
    Same,
    Spot,
    calls,
    is_autocast,
    only,
)
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

STEPS = "nothing else than steps leaves the region"
ELEMENTWISE = "the optimizer works element by element"


OF_TRAINING = frozenset({"step", "update", "zero_grad"})
KINDS = frozenset({"optimizer", "scaler", "scheduler"})
_NAMES = "ASGD Adadelta Adagrad Adam AdamW Adamax NAdam RAdam RMSprop Rprop SGD"
OPTIMIZERS = frozenset(f"torch.optim.{name}" for name in _NAMES.split())


def steps(at: Spot) -> bool:
    atom = only(at.of(at.node.operands[0]))
    return isinstance(atom, Method) and isinstance(atom.of, Object) and atom.of.kind in KINDS


rule = Rule(
    "AMP303",
    __doc__,
    group=Group.PEDANTIC,
    since="0.1",
    help="end the region before the step of the optimizer",
    witness=Same(),
    safe_if=(STEPS, ELEMENTWISE),
    changes=frozenset({Change.ROUNDING}),
    presumes=False,
    candidates=calls(".step") & steps & IN_REGION,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    stepper = owner(call, "step", src)
    if stepper is None or stepper.kind == "scheduler":
        return
    region = src.region(call)
    if region is None or region.inherited or region.enabled is False:
        return
    message = f"`{src.brief(call)}` updates the weights inside autocast, which keeps old casts"
    related = src.reasons(region.evidence)
    yield src.finding(rule, call, message, leave(call, stepper, src), related)


def owner(call: cst.Call, method: str, src: Source) -> Object | None:
    """The optimizer, scaler or scheduler whose method is called."""
    atom = only(src.value(call.func))
    if isinstance(atom, Method) and atom.name == method and isinstance(atom.of, Object):
        return atom.of if atom.of.kind in KINDS else None
    return None


def leave(call: cst.Call, stepper: Object, src: Source) -> Fix | None:
    """End the region just before the step."""
    statement = src.statement(call)
    block = src.parent(statement)
    region = src.parent(block)
    if not isinstance(block, cst.IndentedBlock) or not isinstance(region, cst.With):
        return None
    if not all(is_autocast(src.value(item.item)) for item in region.items):
        return None
    at = next(index for index, line in enumerate(block.body) if line is statement)
    moved = list(block.body[at:])
    if at == 0 or not all(is_step(line, src) for line in moved):
        return None
    optimizer: Object | None = stepper
    if stepper.kind == "scaler":
        given = only(src.value(call.args[0].value)) if call.args else None
        optimizer = given if isinstance(given, Object) else None
    conditions = {
        STEPS: True,
        ELEMENTWISE: optimizer is not None and optimizer.type in OPTIMIZERS,
    }
    edits = src.edits.dedent(moved)
    return Fix.safe_if("End the region before the step", edits, conditions) if edits else None


def is_step(line: cst.BaseStatement, src: Source) -> bool:
    """Ex) optimizer.step(), scaler.update(), optimizer.zero_grad()"""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return False
    expression = line.body[0]
    call = expression.value if isinstance(expression, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return False
    return any(owner(call, method, src) is not None for method in OF_TRAINING)
