"""Arguments that name a dtype, a device or a switch."""

from __future__ import annotations

from dataclasses import replace

from amplint.inference.transfer.kinds import STR, Site
from amplint.inference.transfer.symbols import DTYPES, canonical
from amplint.knowledge.dtypes import covering
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS
from amplint.knowledge.vocabulary import DEVICE_NAME, NUMBERED_DEVICE, OTHER_ACCELERATORS
from amplint.values.atoms import (
    ACCELERATOR,
    CPU,
    NO_DEVICE,
    NONE,
    UNKNOWN,
    Atom,
    Device,
    DType,
    Host,
    Reason,
    Shows,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    constant,
    first_of,
    one,
)
from amplint.values.lattice import agreed, only

HOST_DEVICES = ("cpu", "meta")


def dtype_of(value: Value) -> str | None:
    """The dtype that a `dtype=` argument names."""
    if names_dtype(value):
        return covering({atom.name for atom in value if isinstance(atom, DType)})
    atom = only(value)
    if isinstance(atom, Symbol) and atom.name in (
        "builtins.float",
        "builtins.int",
        "builtins.bool",
    ):
        return {"float": "float64", "int": "int64", "bool": "bool"}[atom.name[9:]]
    return None


def device_type_of(value: Value) -> str | None:
    """The device type that a `device_type=` argument names; of a choice between the CPU, or what
    nobody knows, and another one, this, as in `device_of`."""
    names = [atom.const if isinstance(atom, Host) else None for atom in value]
    kinds = {name.partition(":")[0] if isinstance(name, str) else None for name in names}
    others = kinds - {"cpu", None}
    return agreed(others or kinds)


def names_dtype(value: Value) -> bool:
    """Whether it is a torch.dtype, or one of several."""
    return {type(atom) for atom in value if atom != NONE} == {DType}


def device_of(value: Value, hint: str, site: Site) -> Device:
    """The device that an argument names: of `device=`, `.to(...)`, `torch.device(...)`.

    A choice between an accelerator and the CPU (`"cuda" if available else "cpu"`) is the
    accelerator: that is where it matters. What cannot be known is a device where the argument is
    called one.
    """
    kinds: set[str | None] = set()
    names: set[str] = set()
    reasons: list[Reason | None] = []
    others: frozenset[str] = frozenset()
    for atom in value:
        device = device_of_atom(atom, site)
        kinds.add(device.kind)
        others |= device.others
        if device.name:
            names.add(device.name)
        reasons.append(device.evidence)
    reason = first_of(reasons) or site.evidence("moved to the device here", Shows.PLACEMENT)
    if ACCELERATOR in kinds:
        name = agreed(names) if kinds == {ACCELERATOR} else None
        return Device(ACCELERATOR, reason, name, others=others)
    if kinds == {"cpu"}:
        return CPU
    if DEVICE_NAME.match(hint):
        return Device(ACCELERATOR, reason)
    return NO_DEVICE


def device_of_atom(atom: Atom, site: Site) -> Device:
    if isinstance(atom, Device):
        return atom
    if isinstance(atom, Tensor | TensorTree):
        return atom.device
    if isinstance(atom, Host) and atom.known and isinstance(atom.const, str):
        kind = atom.const.partition(":")[0]
        if kind in HOST_DEVICES:
            return CPU
        device, others = site.device(f"moved to `{atom.const}` here"), {kind} & OTHER_ACCELERATORS
        return replace(device, name=atom.const, others=frozenset(others))
    if isinstance(atom, Host) and atom.kind == "int":
        name = f"cuda:{atom.const}" if atom.known else None
        return replace(site.device("moved to the device here"), name=name)
    return NO_DEVICE


def text_begun(begin: object, site: Site) -> Value:
    """A text that goes on with a value: a device, if the beginning names one."""
    named = NUMBERED_DEVICE.match(begin) if isinstance(begin, str) else None
    if named is None:
        return STR
    others = OTHER_ACCELERATORS & {named.group(1)}
    return one(replace(site.device("the device is chosen here"), others=others))


def array_dtype_of(value: Value) -> str | None:
    """The dtype that an argument of numpy names: np.float32, "float32", float."""
    atom = only(value)
    name = constant(value)
    if isinstance(atom, Symbol) and atom.name.startswith("numpy."):
        name = {"double": "float64", "single": "float32", "half": "float16"}.get(
            atom.name[6:], atom.name[6:]
        )
    if isinstance(name, str):
        return name if name in DTYPES.values() else None
    return dtype_of(value)


def legacy_type(value: Value | None) -> str | None:
    """The type that `x.type(torch.LongTensor)` or `x.type("torch.LongTensor")` names."""
    value = chosen_types(value or UNKNOWN)
    atom = only(value)
    name = canonical(atom.name) if isinstance(atom, Symbol) else constant(value)
    return name if isinstance(name, str) and name in LEGACY_CONSTRUCTORS else None


def chosen_types(value: Value) -> Value:
    """Of a choice between tensor types of the accelerator and of the CPU, those of the accelerator,
    as `device_of` has it of devices.

    Ex) torch.cuda.FloatTensor if cuda else torch.FloatTensor
    """
    names = {atom: canonical(atom.name) for atom in value if isinstance(atom, Symbol)}
    places = {
        atom: LEGACY_CONSTRUCTORS[name][1]
        for atom, name in names.items()
        if name in LEGACY_CONSTRUCTORS
    }
    if len(places) < len(value) or len({*places.values()}) < 2:
        return value
    return frozenset(atom for atom, place in places.items() if place != "cpu")


def switch(value: Value | None, default: bool | None) -> bool | None:
    if value is None:
        return default
    flag = constant(value)
    return bool(flag) if isinstance(flag, bool | int) else None
