"""Training in float16 without a GradScaler: small gradients become zero.

float16 has no numbers between 0 and 6e-8. The gradients of activations are often that small, and
then the layers before them silently learn nothing. A scaler multiplies the loss, and later divides
the gradients in float32. `torch.autocast("cuda")` is float16 unless a dtype is given.

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

`MixedPrecision(param_dtype=torch.float16)` of FSDP has the same effect on gradients as such a
region, and needs a `ShardedGradScaler`. The finding is at the optimizer's step.

A region without a dtype is reported beside a scaler that is on for one dtype alone
(`GradScaler(enabled=args.dtype == "float16")`): with bfloat16 it is a float16 region as well.
So is `scaler._enabled = False`, or a comparison there, which leaves the region on.

Fix safety: there is no fix: a scaler has to be created, used at the step, and saved.

The rule is silent if the loss is visibly computed outside the region: code in the region that needs
no gradients, such as a teacher model, needs no scaler.

Known limits: the region has to be opened in the function that runs the backward pass. Files that
mention a scale anywhere are not reported, as the loss may be multiplied by hand; neither are files
of libraries that own the loop (accelerate, Lightning, DeepSpeed, apex). They are reported if the
scaler is off (`enabled=False`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from amplint import (
    HOT,
    Autocast,
    Differs,
    Finding,
    Group,
    Rule,
    View,
    calls,
    constant,
    nodes,
    only,
    reachable,
    region_dtype,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import AUTOCASTS, FULLY_SHARDED, SCALERS, SHARDED_SCALERS
from amplint.knowledge.vocabulary import PRECISION, SCALES_BY_HAND

from .._shared.classes import AUTOGRAD_FUNCTION
from .._shared.guards import speaks_of, tests_around, tests_before
from .._shared.regions import opened_above
from .._shared.scalers import scaler_at
from ._dtype_options import has_no_graph, regions_beside
from ._scaling import Frameworks, ShardedInFloat16

COMPUTED = frozenset({"call", "binop", "unary", "phi", "unpack"})
SWITCH_BOTH = "switch the region with it: `enabled=scaler.is_enabled()`"
PASS = "pass the dtype to the region as well"
SHARD = "scale the loss with a `ShardedGradScaler`, or use bfloat16, which needs none"

rule = Rule(
    "AMP308",
    __doc__,
    group=Group.CORRECTNESS,
    help="scale the loss with a GradScaler, or use bfloat16, which needs none",
    witness=Differs(rtol=0.5),
)


@rule.on(calls(".backward") & HOT)
def check(call: View) -> Iterator[Finding]:
    heat = call.hotness if call.backward == () else None
    region = region_of_loss(call) if heat is not None else None
    if heat is None or region is None or is_in_backward_pass(call):
        return
    scaled = call.receiver
    scaler = scaler_at(scaled.receiver) if scaled is not None and is_scale(scaled) else None
    if scaler is not None and scaler.enabled is False:
        how = f"the scaler is off, and the float16 region {'is' if region.enabled else 'may be'} on"
    elif may_be_scaled(call):
        return
    else:
        how = f"`{call.brief}` is not scaled in float16"
    yield call.finding(f"{how}: small gradients become 0", (region.evidence, *heat.chain))


@rule.on(calls(".step") & HOT)
def check_sharded(call: View) -> Iterator[Finding]:
    """Ex) optimizer.step(), of what FSDP computes in float16"""
    optimizer = call.receiver
    if optimizer is None or not speaks_of(call, FULLY_SHARDED) or speaks_of(call, SHARDED_SCALERS):
        return
    why = optimizer.ask(ShardedInFloat16)
    if why is not None and call.hotness is not None and not may_be_scaled(call):
        message = f"`{call.brief}` uses unscaled float16 gradients: small ones became 0"
        yield call.finding(message, (why, *call.hotness.chain), help=SHARD)


@rule.on(calls(*SCALERS))
def check_default(scaler: View) -> Iterator[Finding]:
    """Ex) torch.autocast("cuda"), beside GradScaler(enabled=args.dtype == "float16")"""
    for region in regions_beside(scaler, "Eq"):
        message = f"`{region.brief}` is float16 with the scaler off: small gradients become 0"
        yield region.finding(message, [scaler.related("this is on for float16 alone")], help=PASS)


@rule.on(nodes("store"))
def check_switched_off(store: View) -> Iterator[Finding]:
    """Ex) self.scaler._enabled = epoch >= 5"""
    if store.operator != "_enabled" or not may_switch_off(store.operands[1]):
        return
    tests = (*tests_around(store), *tests_before(store))
    if scaler_at(store.operands[0]) is None or any(PRECISION.search(test.text) for test in tests):
        return
    regions = [each for each in store.operations("call") if each.callee in AUTOCASTS]
    region = next(iter(regions), None)
    if region is not None and all(map(stays_on, regions)):
        message = "the scaler is switched off, and not its float16 region: small gradients become 0"
        yield store.finding(message, [region.related("the region")], help=SWITCH_BOTH)


def may_switch_off(value: View) -> bool:
    """Whether a value is False, or a comparison; not what is kept, to be put back."""
    is_flag = value.origin.op == "const" and constant(value.value) is False
    return is_flag or (value.origin.op == "compare" and constant(value.value) is not True)


def stays_on(region: View) -> bool:
    """Whether a region of float16 is on, or wherever there is a scaler, and loses gradients."""
    atom, api = only(region.value), AUTOCASTS[region.callee or ""]
    if not isinstance(atom, Autocast) or region_dtype(atom) != "float16" or has_no_graph(region):
        return False
    switch = region.arg("enabled", api.parameters.index("enabled"))
    asks_scaler = switch is not None and switch.text.endswith("scaler is not None")
    return atom.enabled is True or asks_scaler


def region_of_loss(call: View) -> Autocast | None:
    """The float16 region in which the loss of a backward pass is computed: one above the call, or
    one in a branch that may have made the loss."""
    loss = loss_of(call)
    above = [
        region
        for context, region in opened_above(call, "float16") or opened_above(call, "half")
        if not is_switched_with(context, call)
        and (loss is None or not is_made_outside(loss, context))
    ]
    branches = alternatives(loss) if not above and loss is not None else ()
    tested = {*call.tested_around}
    contexts = (
        context
        for each in branches
        for context in each.contexts_around
        if tested.isdisjoint(context.tested_around)
    )
    opened = (atom for context in contexts for atom in context.value if isinstance(atom, Autocast))
    regions = (*above, *(region for region in opened if region.enabled is not False))
    return next((region for region in regions if may_be_float16(region, call)), None)


def may_be_float16(region: Autocast, call: View) -> bool:
    """Whether a region is float16: one of whatever device, without a dtype, is one of CUDA where
    its function runs on CUDA alone, moves something by `.cuda()`, or does nothing."""
    if region.device is not None or region.dtype is not None:
        return region_dtype(region) == "float16"
    if any(map(is_cuda_alone, tests_before(call, asserted=True))):
        return True
    function = call.source.function(call.cst)
    return function is not None and any(
        call.of(each).method == "cuda" for each in call.source.calls(function)
    )


def is_cuda_alone(test: View) -> bool:
    """Ex) assert device == "cuda"; if device.type != "cuda": raise ValueError"""
    operator = "Eq" if isinstance(test.source.parent(test.cst), cst.Assert) else "NotEq"
    devices = [each for each in test.operands if constant(each.value) == "cuda"]
    return test.operators == (operator,) and bool(devices)


def is_switched_with(context: View, call: View) -> bool:
    """Whether the flag that switches a region is tested around a call."""
    switch = context.origin.arg("enabled")
    return switch is not None and switch.text in call.tested_around


def is_made_outside(loss: View, context: View) -> bool:
    """Whether nothing that has a part in the gradients of a loss is seen to be made in a region.

    Ex) a teacher runs in it without gradients, and the student after it.
    """
    parts = [*reachable([loss.origin], lambda each: [part.origin for part in differentiated(each)])]
    return loss.origin.op in COMPUTED and all(is_outside(each, context) for each in parts)


def differentiated(at: View) -> Sequence[View]:
    """The values behind a value that its gradients flow into."""
    if has_no_graph(at):
        return ()
    if at.op == "call":
        receiver = at.receiver
        arguments = [argument for _, _, argument in at.arguments]
        return [*arguments, *([receiver] if receiver is not None and receiver.name is None else ())]
    return at.operands if at.op in COMPUTED else ()


def is_outside(at: View, context: View) -> bool:
    """Whether a value is made outside of a region, or without gradients. What is kept in an object
    or in a list may be of any place."""
    if has_no_graph(at):
        return True
    is_told = at.op in COMPUTED or at.op in ("const", "param", "import", "iter")
    return is_told and context not in at.contexts_around


def loss_of(call: View) -> View | None:
    """Ex) loss, of `loss.backward()` and of `scaler.scale(loss).backward()`"""
    receiver = call.receiver
    if receiver is None or not is_scale(receiver):
        return receiver
    return receiver.arg("outputs", 0)


def is_scale(at: View) -> bool:
    return at.method == "scale"


def alternatives(at: View) -> Iterator[View]:
    """The values that a variable may hold, by the branch that has been taken."""
    origins = reachable(
        [at.origin], lambda each: [one.origin for one in each.operands if each.op == "phi"]
    )
    return (each for each in origins if each.op != "phi")


def is_in_backward_pass(call: View) -> bool:
    """Whether it is in the backward pass of a function: there gradients are scaled, or not, by who
    has begun it."""
    return call.function.name == "backward" and AUTOGRAD_FUNCTION in call.bases


def may_be_scaled(call: View) -> bool:
    """Whether something in the file multiplies losses by hand, or by a framework."""
    by_framework = "|".join(call.fact(Frameworks).scaling())
    says = call.source.says
    return says(SCALES_BY_HAND) or says(re.compile(rf"\b({by_framework})\b"))
