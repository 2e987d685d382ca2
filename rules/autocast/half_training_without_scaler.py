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
from typing import TYPE_CHECKING

from amplint import HOT, Differs, Finding, Frameworks, Group, Rule, Spot, calls
from amplint import libcst as cst
from amplint.knowledge.vocabulary import SCALES_BY_HAND

from .._shared.classes import in_backward_of_function
from .._shared.reads import heat_places, training_heat
from .._shared.steps import region_dtype, regions_before

if TYPE_CHECKING:
    from amplint import Source


def is_unscaled(at: Spot) -> bool:
    """Whether a backward pass may follow a region of float16."""
    half = any(region_dtype(context) == "float16" for context in at.contexts)
    return half and at.runs_backward(at.number) == ()


rule = Rule(
    "AMP308",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="scale the loss with a GradScaler, or use bfloat16, which needs none",
    witness=Differs(rtol=0.5),
    candidates=calls(".backward") & is_unscaled & HOT,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    if src.backward(call) != () or not isinstance(call.func, cst.Attribute):
        return
    # Within the backward pass of a function, gradients are scaled, or not, by who has begun it.
    if call.func.attr.value != "backward" or in_backward_of_function(call, src):
        return
    heat = training_heat(call, src)
    regions = regions_before(call, src) if heat is not None else ()
    region = next((each for each in regions if region_dtype(each) == "float16"), None)
    if heat is None or region is None or src.says(SCALES_BY_HAND):
        return
    by_framework = src.fact(Frameworks).scaling()
    if src.says(re.compile(rf"\b({'|'.join(by_framework)})\b")):
        return
    message = f"`{src.brief(call)}` is not scaled in float16: small gradients become 0"
    related = (*src.reasons(region.evidence), *heat_places(heat, src))
    yield src.finding(rule, call, message, related=related)
