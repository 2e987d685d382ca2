"""An autocast region or a scaler is for CUDA, but the tensors may be on another accelerator.

`torch.autocast("cuda")` casts only CUDA tensors. On a machine without CUDA it warns ("CUDA is not
available. Disabling") and turns itself off. So does a GradScaler without another device. On MPS,
XPU, NPU or HPU the model then trains in float32, slower and with more memory; or in float16, if
there is a region of that device, without scaling.

    device = torch.device("mps" if torch.backends.mps.is_available() else "cuda")
    model.to(device)
    with torch.autocast("cuda", dtype=torch.float16):      # nothing is cast on MPS
        loss = model(x.to(device)).mean()

    device = torch.device("mps" if torch.backends.mps.is_available() else "cuda")
    model.to(device)
    with torch.autocast(device.type, dtype=torch.float16):
        loss = model(x.to(device)).mean()

A fallback to the CPU is not reported, since autocast is meant to turn itself off there. Neither is
"cuda" if the project names no other accelerator.

Fix safety: none is offered. Another device has its own lists of operations to cast, and the author
has to try them.

Known limits: the project has to name the device as a string, and the device has to reach a tensor,
a module or a device in the function that opens the region, or that the region decorates. A region
or a scaler that may be off on the other device is not reported: one under any test, after a test of
the device, with callers that test the device or AMP, or with an `enabled` that is not written as
True. But a scaler may be on where a dtype is float16 (`enabled=args.dtype == "float16"`), if its
function opens a region of the device that is there. An island (`autocast("cuda", enabled=False)`)
is reported in such a region, which it does not switch off. `custom_fwd(device_type="cuda")` is not
checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint import Atom, Device, Finding, Group, Host, Rule, Unrun, View, calls, constant
from amplint import libcst as cst
from amplint.knowledge.libraries import AUTOCASTS, SCALERS
from amplint.knowledge.vocabulary import (
    ASKS_DEVICE,
    ASKS_DEVICE_OR_AMP,
    OTHER_ACCELERATORS,
    REDIRECTS_CUDA,
)

from .._shared.guards import tests_around, tests_before
from ._tested import AskedByCallers

if TYPE_CHECKING:
    from amplint import Source

FLOAT16 = re.compile(r"[\"']?\b(torch\.)?float16\b")

rule = Rule(
    "AMP316",
    __doc__,
    group=Group.PRECISION,
    help="pass `device.type` instead of `cuda`",
    witness=Unrun(
        "it takes an accelerator that is not CUDA",
        "torch/amp/autocast_mode.py and torch/amp/grad_scaler.py of torch 2.13",
    ),
    supersedes=("AMP307", "AMP508"),
    preview=True,
)


class DevicePlace(NamedTuple):
    """Something that may be on an accelerator of another kind."""

    at: View
    device: Device


@rule.on(calls(*AUTOCASTS, *SCALERS))
def check(call: View) -> Iterator[Finding]:
    """Ex) torch.autocast("cuda"), GradScaler(), beside `x.to("xpu")`"""
    effect = effect_of(call) if device_of(call) == "cuda" else None
    if effect is None or call.mentions(*REDIRECTS_CUDA):
        return
    place = next(elsewhere(call), None)
    if place is None or is_by_device(call):
        return
    kind = min(place.device.others)
    message = f"`{call.brief}` is for CUDA: on {kind}, {effect}"
    what = place.at.related(f"this may be on {kind}")
    yield call.finding(message, (what, place.device.evidence))


def device_of(call: View) -> object:
    """The type of device that a region or a scaler is of; None where that is not certain."""
    name = call.callee or ""
    api = AUTOCASTS.get(name) or SCALERS.get(name)
    if api is None or call.has_star:
        return None
    first = api.parameters[0]
    device = call.arg(first, 0) if first in ("device", "device_type") else None
    return api.device if device is None else constant(device.value)


def effect_of(call: View) -> str | None:
    """The effect of a region, an island or a scaler of CUDA on another device; None where it may be
    as meant: what is handed in may be False there, and what is computed may rest on the device."""
    is_region = call.callee in AUTOCASTS
    api = AUTOCASTS.get(call.callee or "") or SCALERS[call.callee or ""]
    switch = call.arg("enabled", api.parameters.index("enabled"))
    state = constant(switch.value) if switch is not None and switch.origin.op == "const" else None
    if switch is None or state is True:
        return "nothing is cast" if is_region else "nothing is scaled"
    if not any(map(is_of_any, call.operations("call"))):
        return None
    if is_region:
        is_island = state is False and call.enabled_region is not None
        return "the region around it stays on" if is_island else None
    return "nothing is scaled" if is_by_dtype(switch) else None


def is_of_any(region: View) -> bool:
    """Whether a call opens a region of the device that is there, perhaps no CUDA, and is not tested
    for. Ex) torch.autocast(device.type)"""
    device = region.arg("device_type", 0) if region.callee in AUTOCASTS else None
    if device is None or any("cuda" in test.text for test in tests_around(region)):
        return False
    parts = (device, *device.origin.operands) if device.origin.op == "attr" else (device,)
    return any(may_be_other(atom) for part in parts for atom in part.value)


def may_be_other(atom: Atom) -> bool:
    """Ex) "mps", torch.device("mps")"""
    if isinstance(atom, Device):
        return bool(atom.others)
    return isinstance(atom, Host) and atom.const in OTHER_ACCELERATORS


def is_by_dtype(switch: View) -> bool:
    """Whether a scaler is on where a dtype is float16, and that may be so without CUDA.

    Ex) args.dtype == "float16"
    """
    test, variables = switch.origin, switch.source.variables
    if test.op != "compare" or test.operators != ("Eq",) or not FLOAT16.search(test.text):
        return False
    others = (each.cst for each in test.operands if not FLOAT16.search(each.text))
    return any(
        may_be_float16(
            (variables.origin(each) or variables.global_value(each))
            if isinstance(each, cst.Name)
            else each,
            switch.source,
        )
        for each in others
    )


def may_be_float16(dtype: cst.CSTNode | None, src: Source) -> bool:
    """Ex) args.dtype; "bfloat16" if torch.cuda.is_bf16_supported() else "float16" """
    if isinstance(dtype, cst.Attribute):
        return src.text(dtype.value) != "self"
    if not isinstance(dtype, cst.IfExp):
        return False
    test, rest = src.text(dtype.test), dtype.orelse
    if ASKS_DEVICE.search(test) and "is_bf16_supported" not in test:
        return False
    return may_be_float16(rest, src) or FLOAT16.match(src.text(rest)) is not None


def is_by_device(call: View) -> bool:
    """Whether something that may ask for the device decides whether it is made.

    Ex) if device.type == "cuda": scaler = GradScaler(); if self.use_amp: self.step_in_region(x)
    """
    if is_in_handler(call) or any(True for _ in tests_around(call)):
        return True
    caller_tests = " ".join(call.ask(AskedByCallers) or ())
    texts = (caller_tests, *(each.text for each in tests_before(call, asserted=True)))
    return any(map(ASKS_DEVICE_OR_AMP.search, texts))


def is_in_handler(at: View) -> bool:
    """Whether the node runs only where something has failed, within its function."""
    for ancestor in at.source.ancestors(at.cst):
        if isinstance(ancestor, cst.FunctionDef | cst.Lambda):
            return False
        if isinstance(ancestor, cst.ExceptHandler | cst.ExceptStarHandler):
            return True
    return False


def elsewhere(call: View) -> Iterator[DevicePlace]:
    """The results of calls that may be on an accelerator of another kind, in the function that
    opens the region, or that it decorates."""
    for each in operations_under(call):
        for atom in each.value:
            device = atom if isinstance(atom, Device) else getattr(atom, "device", None)
            if isinstance(device, Device) and device.others:
                yield DevicePlace(each, device)


def operations_under(call: View) -> Iterator[View]:
    """The calls of the function around it; of a decorator, those of the function below."""
    if not any(use.op == "def" for use in call.uses):
        return call.operations("call")
    src = call.source
    function = src.parent(src.parent(call.cst))
    calls_below = src.calls(function.body) if isinstance(function, cst.FunctionDef) else ()
    return map(call.of, calls_below)
