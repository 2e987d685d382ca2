"""GradScalers: which values are one, and how they are built."""

from __future__ import annotations

from amplint import Device, Host, Object, Value, View, only
from amplint.knowledge.libraries import SCALERS


def scaler_at(at: View | None) -> Object | None:
    """The scaler that an expression certainly is."""
    atom = only(at.value) if at is not None else None
    return atom if isinstance(atom, Object) and atom.kind == "scaler" else None


def _names_device(value: Value) -> bool:
    """Ex) "cuda", torch.device("cuda", 0), f"cuda:{rank}" """
    atom = only(value)
    return isinstance(atom, Device) or (isinstance(atom, Host) and atom.kind == "str")


def misplaced_device(call: View) -> View | None:
    """The device that is given to a class that takes none, and whose first parameter is the scale.

    Ex) torch.cuda.amp.GradScaler("cuda"), torch.cuda.amp.GradScaler(device="cuda")
    """
    api = SCALERS.get(call.callee or "")
    if api is None or "device" in api.parameters:
        return None
    first = call.arg("", 0)
    return first if first is not None and _names_device(first.value) else call.arg("device")
