"""A GradScaler is made anew for every batch.

Each one begins with the initial scale, and what `update()` has learnt goes with the old one: the
scale never adapts. If it is too large, every step is skipped for infinities, and the model never
trains at all.

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

from .._shared.hoisting import above_loops
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
    if src.assigned_name(call) is None or is_made_once(call, src):
        return
    message = f"`{src.brief(call)}` is made for every batch: its scale never adapts"
    edits = above_loops(call, src)
    fix = Fix("Make the scaler before the loop", edits, Safety.UNSAFE) if edits else None
    yield src.finding(rule, call, message, fix, heat_places(heat, src))


def is_made_once(call: cst.Call, src: Source) -> bool:
    """Ex) if scaler is None: scaler = GradScaler("cuda")"""
    name = src.assigned_name(call)
    return any(
        isinstance(around, cst.If)
        and name in {each.value for each in src.layout.names(around.test)}
        for around in src.ancestors(call)
    )
