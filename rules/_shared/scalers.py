"""GradScalers: how they are built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import Device, Host, Spot, Value, View, only
from amplint import libcst as cst
from amplint.knowledge.libraries import SCALERS

if TYPE_CHECKING:
    from amplint import Source


def names_device(value: Value) -> bool:
    """Ex) "cuda", torch.device("cuda", 0), f"cuda:{rank}" """
    atom = only(value)
    return isinstance(atom, Device) or (isinstance(atom, Host) and atom.kind == "str")


def misplaced_device(call: View) -> View | None:
    """As `device_out_of_place`, of a View."""
    api = SCALERS.get(call.callee or "")
    if api is None or "device" in api.parameters:
        return None
    first = call.arg("", 0)
    return first if first is not None and names_device(first.value) else call.arg("device")


def may_be_given_device(at: Spot) -> bool:
    """Whether a call may give a scaler a device."""
    return at.given("device") >= 0 or names_device(at.of(at.given("", 0)))


def device_out_of_place(call: cst.Call, src: Source) -> cst.Arg | None:
    """The device that is given to a class that takes none, and whose first parameter is the scale.

    Ex) torch.cuda.amp.GradScaler("cuda"), torch.cuda.amp.GradScaler(device="cuda")
    """
    api = SCALERS.get(src.name(call.func) or "")
    if api is None or "device" in api.parameters or not call.args:
        return None
    first = call.args[0]
    if first.keyword is None and not first.star and names_device(src.value(first.value)):
        return first
    return src.keyword(call, "device")
