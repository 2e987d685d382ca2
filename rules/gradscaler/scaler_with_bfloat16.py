"""A GradScaler scales a loss that was computed in bfloat16.

bfloat16 has the range of float32: no gradient becomes zero for want of it. The scaler works, but is
of no use, and reads the device once for each step.

    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()

    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)

Fix safety: none is offered: the rounding of the weights may change.

Known limits: the region has to be opened in the function that scales the loss. Silent where the
scaler may be switched off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Finding, Group, Object, Rule, Same, Spot, calls, only
from amplint import libcst as cst

from .._shared.steps import region_dtype, regions_before

if TYPE_CHECKING:
    from amplint import Source


def scales_bfloat16(at: Spot) -> bool:
    scaler = only(at.of(at.receiver))
    is_scaler = isinstance(scaler, Object) and scaler.kind == "scaler"
    return is_scaler and any(region_dtype(context) == "bfloat16" for context in at.contexts)


rule = Rule(
    "AMP411",
    __doc__,
    group=Group.PEDANTIC,
    since="0.1",
    help="leave out the scaler, or enable it for float16 alone",
    witness=Same(),
    candidates=calls(".scale") & scales_bfloat16,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    function = call.func
    if not isinstance(function, cst.Attribute) or function.attr.value != "scale":
        return
    scaler = only(src.value(function.value))
    if not isinstance(scaler, Object) or scaler.kind != "scaler" or scaler.enabled is not True:
        return
    regions = list(regions_before(call, src))
    if not regions or {region_dtype(each) for each in regions} != {"bfloat16"}:
        return
    message = f"`{src.brief(call)}` scales a loss in bfloat16, which needs no scale"
    related = src.reasons(*(each.evidence for each in regions))
    yield src.finding(rule, call, message, related=related)
