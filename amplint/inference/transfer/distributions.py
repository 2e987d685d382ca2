"""Distributions of torch, and what is asked of them."""

from __future__ import annotations

from amplint.inference.transfer.promotion import common_device, tensors_in
from amplint.knowledge import distributions as table
from amplint.values.atoms import CPU, NO_DEVICE, Arguments, Device, Host, Object, Tensor, Value, one

KIND = "distribution"
NUMBERS = frozenset({"bool", "float", "int", "number"})


def distribution(name: str, arguments: Arguments) -> Object:
    """A distribution, which is where its parameters are."""
    return Object(KIND, name, device_of_parameters(arguments))


def divergence(arguments: Arguments) -> Value:
    """How far one distribution is from another: a tensor, where they are."""
    return one(Tensor(device=device_of_parameters(arguments)))


def device_of_parameters(arguments: Arguments) -> Device:
    """Where the parameters lie, tensors or other distributions; of numbers alone, on the CPU."""
    atoms = [atom for value in arguments.all for atom in value]
    inner = [Tensor(device=a.device) for a in atoms if isinstance(a, Object) and a.kind == KIND]
    tensors = [*tensors_in(arguments.all), *inner]
    if tensors:
        return common_device(tensors)
    is_of_numbers = atoms and all(isinstance(a, Host) and a.kind in NUMBERS for a in atoms)
    return CPU if is_of_numbers else NO_DEVICE


def attribute(thing: Object, name: str) -> Value | None:
    """A parameter or a moment of a distribution; None for what is no tensor."""
    return one(Tensor(device=thing.device)) if name in table.ATTRIBUTES else None


def method(thing: Object, name: str) -> Value | None:
    """The result of a method of a distribution; None where it is no tensor."""
    if name in table.DRAWN:
        dtype = "int64" if table.distribution(thing.type) in table.OF_INDICES else None
        return one(Tensor(dtype, thing.device, grad=False))
    if name in table.WITH_GRAPH:
        return one(Tensor(device=thing.device))
    return one(thing) if name == "expand" else None
