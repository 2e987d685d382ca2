"""A new GradScaler is created for every batch.

Each new scaler starts with the initial scale, and loses the adapted scale of the old one: the scale
never adapts. If it is too large, every step is skipped because of infinite gradients, and the model
never trains.

    for x, y in loader:
        scaler = torch.amp.GradScaler("cuda")        # begins at 65536, again and again

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        ...

Fix safety: unsafe: the scale then adapts, so other steps are skipped than before. Offered if the
scaler is created in the loop itself, with arguments that do not change in it: it moves before the
outermost loop.

Known limits: a scaler that is created once for each epoch loses its scale as well, but is not
reported. Silent if a function only creates the scaler, because the caller may keep it, and under a
test for None.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import HOT, Change, Differs, Finding, Group, Object, Rule, View, calls, only
from amplint import libcst as cst
from amplint.knowledge.libraries import SCALERS

from .._shared.hoisting import above_loops
from .._shared.steps import unsafe
from ._fixes import tests_of, without_not

rule = Rule(
    "AMP409",
    __doc__,
    group=Group.CORRECTNESS,
    help="create the scaler once, before the loop",
    witness=Differs(0.5),
    changes=frozenset({Change.TRAINING}),
)


@rule.on(calls(*SCALERS) & HOT)
def check(call: View) -> Iterator[Finding]:
    scaler, heat = only(call.value), call.hotness
    if heat is None or not isinstance(scaler, Object) or scaler.enabled is False:
        return
    target = target_of(call) if call.callee in SCALERS else None
    if target is None or is_made_once(call, target) or is_off(call):
        return
    message = f"`{call.brief}` is created for every batch: its scale never adapts"
    edits = above_loops(call)
    fix = unsafe("Create the scaler before the loop", *edits) if edits else None
    yield call.finding(message, heat.chain, fix)


def target_of(call: View) -> cst.BaseExpression | None:
    """The name that the scaler is given, or the field by which the same loop steps.

    Ex) scaler = GradScaler("cuda"), scaler = GradScaler() if amp else None, self.scaler = ...
    """
    src = call.source
    parent = src.parent(call.cst)
    value = parent if isinstance(parent, cst.IfExp) else call.cst
    target = src.layout.assigned(value)
    if target is None or isinstance(target, cst.Name):
        return target
    step = f"{src.text(target)}.step"
    loops = (each for each in src.ancestors(call.cst) if isinstance(each, cst.For | cst.While))
    stepped = any(src.text(each.func) == step for loop in loops for each in src.calls(loop))
    return target if stepped else None


def is_made_once(call: View, target: cst.BaseExpression) -> bool:
    """Ex) if scaler is None: scaler = GradScaler("cuda")"""
    src = call.source
    names = {each.value for each in src.layout.names(target)}
    return any(
        isinstance(around, cst.If | cst.IfExp)
        and not names.isdisjoint(each.value for each in src.layout.names(around.test))
        for around in src.ancestors(call.cst)
    )


def is_off(call: View) -> bool:
    """Ex) GradScaler("cuda", enabled=amp), where `amp` is off"""
    flag = call.arg("enabled")
    return flag is not None and not without_not(tests_of(call.cst, call.source)).get(
        flag.text, True
    )
