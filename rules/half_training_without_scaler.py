"""Training in float16 without a GradScaler: small gradients become zero.

A gradient below 6e-8 does not exist in float16. Those of activations often are, and the layers
before them then learn nothing, without a word. A scaler multiplies the loss, and divides the
gradients again in float32. `torch.autocast("cuda")` is float16 unless it is told otherwise.

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

import libcst as cst

from amplint import Differs, Finding, Group, Rule, Source
from amplint.libraries import DEFAULT_DTYPES
from amplint.reads import heat_places, training_heat
from amplint.values import Autocast

rule = Rule(
    "AMP308",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    witness=Differs(rtol=0.5),
    words=frozenset({"backward"}),
    hot=True,
)
# Somebody scales, by hand or by a library.
SCALED = re.compile(
    r"scal(er|ing)|(loss|grad)_?scale|scale_?(loss|grad)|\bscale\(|fp16_optimizer"
    r"|\b(accelerate|lightning|pytorch_lightning|deepspeed|apex|colossalai|fairscale)\b",
    re.IGNORECASE,
)


@rule.on(cst.Call)
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    if src.backward(call) != () or not isinstance(call.func, cst.Attribute):
        return
    heat = training_heat(call, src)
    region = half_region_before(call, src) if heat is not None else None
    if heat is None or region is None or SCALED.search(src.content.text):
        return
    message = f"`{src.brief(call)}` runs in float16, and nothing scales the loss"
    related = [src.related(region.why)] if region.why is not None else []
    yield src.finding(rule, call, message, related=(*related, *heat_places(heat, src)))


def half_region_before(call: cst.Call, src: Source) -> Autocast | None:
    """The region in float16 above a call, or around it, in the blocks that the call stands in."""
    function, inner = src.function(call), src.statement(call)
    for block in src.ancestors(call):
        if block is function:
            break
        if isinstance(block, cst.With):
            found = half_region(block, src)
            if found is not None:
                return found
        if not isinstance(block, cst.IndentedBlock):
            continue
        for line in block.body:
            if line is inner or any(each is line for each in src.ancestors(call)):
                break
            found = half_region(line, src) if isinstance(line, cst.With) else None
            if found is not None:
                return found
    return None


def half_region(opened: cst.With, src: Source) -> Autocast | None:
    for item in opened.items:
        for atom in src.value(item.item):
            if isinstance(atom, Autocast) and atom.enabled is not False:
                dtype = atom.dtype or DEFAULT_DTYPES.get(atom.device or "")
                return atom if dtype == "float16" else None
    return None
