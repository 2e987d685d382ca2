"""A GradScaler scales a loss that was computed in bfloat16.

bfloat16 has the range of float32, so small gradients do not become zero. The scaler works, but is
useless, and reads from the device once for each step.

    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()

    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)

Fix safety: none is offered: the rounding of the weights may change.

Known limits: the region has to be opened in the function that scales the loss. Silent if the scaler
may be switched off.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Group, Rule, Same, View, calls, region_dtype

from .._shared.regions import opened_above
from .._shared.scalers import scaler_at

rule = Rule(
    "AMP411",
    __doc__,
    group=Group.PEDANTIC,
    help="remove the scaler, or enable it only for float16",
    witness=Same(),
)


@rule.on(calls(".scale"))
def check(call: View) -> Iterator[Finding]:
    scaler = scaler_at(call.receiver)
    if scaler is None or scaler.enabled is not True:
        return
    regions = [region for _, region in opened_above(call, "bfloat16")]
    if regions and all(region_dtype(each) == "bfloat16" for each in regions):
        message = f"`{call.brief}` scales a bfloat16 loss, which needs no scaling"
        yield call.finding(message, (each.evidence for each in regions))
