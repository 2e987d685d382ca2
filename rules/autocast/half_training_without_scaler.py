"""Training in float16 without a GradScaler: small gradients become zero.

A gradient below 6e-8 does not exist in float16. Those of activations often are, and the layers
before them then learn nothing, without a word. A scaler multiplies the loss, and divides the
gradients again in float32. `torch.autocast("cuda")` is float16 unless a dtype is given.

    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
    loss.backward()

    scaler = torch.amp.GradScaler("cuda")                    # once
    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

    with torch.autocast("cuda", dtype=torch.bfloat16):       # or this, which needs no scaler

Fix safety: there is no fix: a scaler has to be made, used at the step, and saved.

Known limits: the region has to be opened in the function that runs the backward pass. Files that
speak of a scale anywhere are left alone, as the loss may be multiplied by hand, and so are those of
libraries that own the loop (accelerate, Lightning, DeepSpeed, apex).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import HOT, Differs, Finding, Frameworks, Group, Rule, View, calls
from amplint.knowledge.vocabulary import SCALES_BY_HAND

from .._shared.classes import AUTOGRAD_FUNCTION
from .._shared.steps import region_dtype, regions_above

rule = Rule(
    "AMP308",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="scale the loss with a GradScaler, or use bfloat16, which needs none",
    witness=Differs(rtol=0.5),
)


@rule.on(calls(".backward") & HOT)
def check(call: View) -> Iterator[Finding]:
    heat = call.hotness if call.backward == () else None
    regions = regions_above(call, "float16") if heat is not None else []
    region = next((each for each in regions if region_dtype(each) == "float16"), None)
    if heat is None or region is None or is_in_backward_pass(call) or may_be_scaled(call):
        return
    message = f"`{call.brief}` is not scaled in float16: small gradients become 0"
    yield call.finding(message, (region.evidence, *heat.chain))


def is_in_backward_pass(call: View) -> bool:
    """Whether it is in the backward pass of a function: there gradients are scaled, or not, by who
    has begun it."""
    return call.function.name == "backward" and AUTOGRAD_FUNCTION in call.bases


def may_be_scaled(call: View) -> bool:
    """Whether something in the file multiplies losses by hand, or by a framework."""
    by_framework = "|".join(call.fact(Frameworks).scaling())
    says = call.source.says
    return says(SCALES_BY_HAND) or says(re.compile(rf"\b({by_framework})\b"))
