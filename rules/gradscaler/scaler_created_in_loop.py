"""A GradScaler is made anew for every batch.

Each new scaler begins with the initial scale, and what `update()` has learnt is lost with the old
one: the scale never adapts. If it is too large, every step is skipped for infinities, and the model
never trains at all.

    for x, y in loader:
        scaler = torch.amp.GradScaler("cuda")        # begins at 65536, again and again

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        ...

Fix safety: unsafe: the scale adapts from then on, and so steps are skipped or made that were not.
Offered where the scaler is made in the loop itself, of what does not change in it: it is made above
all loops around then.

Known limits: a scaler that is made once for each epoch forgets as well, but is left alone. Silent
where a function only makes it, for others may keep it, and under a test for None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import HOT, Change, Differs, Finding, Fix, Group, Object, Rule, Safety, calls, only
from amplint import libcst as cst
from amplint.knowledge.libraries import SCALERS

from .._shared.hoisting import above_loops, outermost_loop
from .._shared.reads import heat_places, training_heat

if TYPE_CHECKING:
    from amplint import Source

rule = Rule(
    "AMP409",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="make the scaler once, before the loop",
    witness=Differs(0.5),
    changes=frozenset({Change.TRAINING}),
    candidates=calls(*SCALERS) & HOT,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    if src.name(call.func) not in SCALERS:
        return
    scaler, heat = only(src.value(call)), training_heat(call, src)
    if heat is None or not isinstance(scaler, Object) or scaler.enabled is False:
        return
    target = target_of(call, src)
    if target is None or is_made_once(call, target, src):
        return
    message = f"`{src.brief(call)}` is made for every batch: its scale never adapts"
    edits = above_loops(call, src)
    fix = Fix("Make the scaler before the loop", edits, Safety.UNSAFE) if edits else None
    yield src.finding(rule, call, message, fix, heat_places(heat, src))


def target_of(call: cst.Call, src: Source) -> cst.BaseExpression | None:
    """The name that the scaler is given, or the field by which the same loop steps.

    Ex) scaler = GradScaler("cuda"), self.scaler = GradScaler("cuda")
    """
    target, loop = src.layout.assigned(call), outermost_loop(call, src)
    if target is None or isinstance(target, cst.Name):
        return target
    step = f"{src.text(target)}.step"
    stepped = loop is not None and any(src.text(each.func) == step for each in src.calls(loop))
    return target if stepped else None


def is_made_once(call: cst.Call, target: cst.BaseExpression, src: Source) -> bool:
    """Ex) if scaler is None: scaler = GradScaler("cuda")"""
    names = {each.value for each in src.layout.names(target)}
    return any(
        isinstance(around, cst.If)
        and not names.isdisjoint(each.value for each in src.layout.names(around.test))
        for around in src.ancestors(call)
    )
