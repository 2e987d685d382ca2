"""An autocast region or a scaler is of CUDA, and the tensors may be on another accelerator.

`torch.autocast("cuda")` casts what is on CUDA alone. On a machine without CUDA it warns ("CUDA is
not available. Disabling") and turns itself off, and so does a GradScaler without another device:
the model trains in float32 on MPS, XPU, NPU or HPU, slower and with more memory, or in float16 in a
region of that device without a scale.

    device = torch.device("mps" if torch.backends.mps.is_available() else "cuda")
    model.to(device)
    with torch.autocast("cuda", dtype=torch.float16):      # nothing is cast on MPS
        loss = model(x.to(device)).mean()

    device = torch.device("mps" if torch.backends.mps.is_available() else "cuda")
    model.to(device)
    with torch.autocast(device.type, dtype=torch.float16):
        loss = model(x.to(device)).mean()

A fallback to the CPU is not reported, since autocast turns itself off there, as is meant; nor is
"cuda" where no other accelerator is in sight.

Fix safety: none is offered. In its own region, a device of another kind casts by tables of its own,
which the author has to try.

Known limits: the device has to be named in the project, as a string, and to come to a tensor, a
module or a device in the function that opens the region. A region under a test of the device is
left alone, and so is one that something else than a parameter switches.
`custom_fwd(device_type="cuda")` is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amplint import Device, Finding, Group, Rule, Unrun, View, calls, constant
from amplint.knowledge.libraries import AUTOCASTS, SCALERS
from amplint.knowledge.vocabulary import ASKS_DEVICE, REDIRECTS_CUDA

from .._shared.guards import tests_around, tests_before

rule = Rule(
    "AMP316",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="give the type of the device, `device.type`, in the place of CUDA's",
    witness=Unrun(
        "it takes an accelerator that is not CUDA",
        "torch/amp/autocast_mode.py and torch/amp/grad_scaler.py of torch 2.13",
    ),
    supersedes=("AMP307", "AMP508"),
    preview=True,
)


class Place(NamedTuple):
    """Something that may be on an accelerator of another kind."""

    at: View
    device: Device


@rule.on(calls(*AUTOCASTS, *SCALERS))
def check(call: View) -> Iterator[Finding]:
    """Ex) torch.autocast("cuda"), GradScaler(), beside `x.to("xpu")`"""
    if device_of(call) != "cuda" or is_by_device(call) or call.mentions(*REDIRECTS_CUDA):
        return
    place = next(elsewhere(call), None)
    if place is None:
        return
    kind = min(place.device.others)
    effect = "nothing is cast" if call.callee in AUTOCASTS else "nothing is scaled"
    message = f"`{call.brief}` is of CUDA: on {kind}, {effect}"
    what = place.at.related(f"this may be on {kind}")
    yield call.finding(message, (what, place.device.evidence))


def device_of(call: View) -> object:
    """The type of device that a region or a scaler is of; None where that is not certain."""
    name = call.callee or ""
    api = AUTOCASTS.get(name) or SCALERS.get(name)
    if api is None or call.has_star:
        return None
    first = api.parameters[0]
    given = call.arg(first, 0) if first in ("device", "device_type") else None
    return api.device if given is None else constant(given.value)


def is_by_device(call: View) -> bool:
    """Whether it is made, or switched on, by the device.

    Ex) if device.type == "cuda": scaler = GradScaler(); autocast("cuda", enabled=use_cuda)
    """
    tests = (*tests_around(call), *tests_before(call))
    if any(ASKS_DEVICE.search(test.text) for test in tests):
        return True
    api = AUTOCASTS.get(call.callee or "") or SCALERS[call.callee or ""]
    switch = call.arg("enabled", api.parameters.index("enabled"))
    if switch is None:
        return False
    if constant(switch.value) is True:
        return False
    # What is computed may be computed of the device, in another function, too.
    return switch.origin.op != "param" or ASKS_DEVICE.search(switch.text) is not None


def elsewhere(call: View) -> Iterator[Place]:
    """The results of calls in the function that may be on an accelerator of another kind."""
    for each in call.operations("call"):
        for atom in each.value:
            device = atom if isinstance(atom, Device) else getattr(atom, "device", None)
            if isinstance(device, Device) and device.others:
                yield Place(each, device)
