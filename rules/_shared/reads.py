"""Host reads: a tensor on the device, read in a hot place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    READ,
    TRAINING,
    Device,
    Heat,
    Host,
    Mapping,
    NotGuessed,
    Related,
    Sequence,
    Symbol,
    Tensor,
    TensorCertainty,
    TensorTree,
    Value,
    calls,
    constant,
    is_unknown,
    known,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.host_reads import LOGGED, READING_FUNCTIONS, READING_METHODS

from ._hot_arguments import HotArgument
from ._nests import as_nests
from ._read_by_framework import ReadByFramework, read_by_framework
from ._unknown_when_hot import UnknownWhenHot

if TYPE_CHECKING:
    from amplint import Reason, View

    Reasons = tuple[Reason | Related | None, ...]

# The calls of which `operand_of_read` may find the operand, and more of which `tensor_of_read` may
# find a tensor.
READS = calls(*(f".{name}" for name in (*READING_METHODS, "to", "type")), *READING_FUNCTIONS)
LOGS = calls(*LOGGED) | (nodes("call") & read_by_framework)

# Raises for a tensor of another device, so that where nothing says where one lives, this does.
ONLY_OF_HOST = "numpy"
# Ex) torch.FloatTensor; not torch.cuda.FloatTensor, which is of the device
TYPE_OF_HOST = re.compile(r"torch\.[A-Z]\w*Tensor")


def device_tensor(
    value: Value, certain: bool = False, receiver: bool = False, presumed: bool = False
) -> Tensor | TensorTree | None:
    """The tensor on an accelerator that the value is; None where it may be anything else.

    Args:
        value: what the expression is known to be.
        certain: only what is surely a tensor, not a nest of containers that may hold one.
        receiver: a method of tensors is called on it, which lists and numbers do not have.
        presumed: also a tensor of which nothing says where it is. Where training runs for every
            batch, that is the accelerator (docs/decisions.md, "Device").
    """
    if receiver:
        value = frozenset(
            atom
            for atom in value
            if not isinstance(atom, Sequence | Mapping)
            and not (isinstance(atom, Host) and atom.kind != "numpy")
        )
    if any(isinstance(atom, Tensor) for atom in value):
        value = known(value)
    if not certain and any(isinstance(atom, TensorTree) for atom in value):
        value = as_nests(value)
    atom = only(value)
    kinds = Tensor if certain else Tensor | TensorTree
    if not isinstance(atom, kinds):
        return None
    somewhere = presumed and isinstance(atom, Tensor) and atom.device.kind is None
    return atom if somewhere or atom.device.kind == ACCELERATOR else None


def hot_tensor(at: View, receiver: bool = False) -> Tensor | TensorTree | None:
    """The tensor on the device that an expression is, where the place runs for every batch.

    It has to be a tensor by more than a guess: what is compared with a number may be one, also
    where it is a parameter of `forward`. So may what is out of a nest, where nothing says that this
    was moved. `receiver`: a method of tensors is called on it, which says that it is one.
    """
    tensor = device_tensor(at.value, not receiver, receiver, presumed=True)
    if tensor is None and (argument := at.ask(HotArgument)) is not None:
        tensor = device_tensor(argument, certain=True, presumed=True)
    if tensor is None or receiver:
        return tensor
    return tensor if at.ask(NotGuessed if _on_device(tensor) else TensorCertainty) else None


def _on_device(tensor: Tensor | TensorTree) -> bool:
    return tensor.device.kind == ACCELERATOR


def read_of_batches(
    at: View, tensor: Tensor | TensorTree | None, temperature: str = TRAINING
) -> Reasons | None:
    """Why a tensor is on the device and the place runs for every batch, of training or of
    evaluation; None unless both hold."""
    heat = at.hotness if tensor is not None else None
    if tensor is None or heat is None or heat.temperature != temperature:
        return None
    if at.ask(UnknownWhenHot):
        if not _says_device(at):
            return None
        tensor = Tensor()
    if tensor.device.kind is not None:
        return (*heat.chain, tensor.device.evidence)
    if heat.is_guess or _is_moved_below(at):
        return None
    return (*heat.chain, at.related("presumed on the device: nothing puts it on the CPU"))


def tensor_of_read(call: View) -> Tensor | TensorTree | None:
    """The tensor on the device whose value a call brings to the host: t.item(), float(t)."""
    operand = operand_of_read(call)
    if operand is None:
        return next(_tensors_logged(call), None)
    is_method = _operand_is_receiver(call)
    if is_unknown(operand.value) and _says_device(call):
        return Tensor()
    if is_method and call.method == ONLY_OF_HOST:
        return device_tensor(operand.value, receiver=True)
    # `float(x)` takes a number as well; `x.item()` says that x is a tensor or an array.
    return hot_tensor(operand, receiver=is_method)


def operand_of_read(call: View) -> View | None:
    """The expression whose value a call brings to the host."""
    if _operand_is_receiver(call):
        return call.receiver
    arguments = list(call.arguments)
    if len(arguments) == 1 and call.callee in READING_FUNCTIONS:
        _, keyword, argument = arguments[0]
        return argument if keyword is None and argument.op != "starred" else None
    return None


def _operand_is_receiver(call: View) -> bool:
    """Whether a call brings the value of what it is called on to the host.

    Ex) x.item(), x.to("cpu"), x.type(torch.FloatTensor)
    """
    method = call.method
    if method == "to":
        return is_move_to_host(call) and not returns_at_once(call)
    if method == "type":
        arguments = [argument for _, _, argument in call.arguments]
        return len(arguments) == 1 and _names_host(arguments[0].value)
    return method in READING_METHODS


def _tensors_logged(call: View) -> Iterator[Tensor]:
    """The tensors on the device that are written to a log: writer.add_scalar("loss", loss)"""
    name = call.callee
    if name not in LOGGED:
        name = f".{call.method}"
    if name in LOGGED:
        position, keyword = LOGGED[name]
        logged = call.arg(keyword, position)
        arguments = [logged] if logged is not None else []
    else:
        by_framework = call.ask(ReadByFramework)
        arguments = [argument for _, _, argument in call.arguments] if by_framework else []
    for each in arguments:
        tensor = hot_tensor(each)
        if isinstance(tensor, Tensor):
            yield tensor
        elif tensor is None:
            yield from _tensors_in_dict(each.value)


def _tensors_in_dict(value: Value) -> Iterator[Tensor]:
    """The tensors in a dict that surely are on the device."""
    atom = only(value)
    items = (*(entry for _, entry in atom.items), atom.rest) if isinstance(atom, Mapping) else ()
    for entry in items:
        tensor = device_tensor(entry, certain=True)
        if isinstance(tensor, Tensor):
            yield tensor


def _says_device(at: View) -> bool:
    """Whether a call says by itself that it brings a tensor to the host: `x.cpu()`.

    Whatever `x` is, that is what it is for; modules, which have it too, are known as such where
    they are called. Not of what was computed from what is on the host already, by the looks of it.
    """
    receiver = at.receiver if at.op == "call" and at.method == "cpu" else None
    if receiver is None or any(at.arguments):
        return False
    origin = receiver.origin
    return receiver.op != READ or not origin.is_written or ".cpu()" not in origin.text


def is_move_to_host(call: View) -> bool:
    """Ex) x.to("cpu"), x.to(device="cpu"), x.to(host) with host = torch.device("cpu")"""
    target = call.arg("device", 0)
    if target is None:
        return False
    if constant(target.value) == "cpu":
        return True
    atom = only(target.value)
    # A parameter or a field may be another device elsewhere; a local name is what it is.
    return isinstance(atom, Device) and atom.kind == "cpu" and target.origin.op == "call"


def returns_at_once(call: View) -> bool:
    """Whether a copy is made without waiting for it: `non_blocking=True`."""
    non_blocking = call.arg("non_blocking")
    return non_blocking is not None and constant(non_blocking.value) is True


def _names_host(value: Value) -> bool:
    """Whether a value is a type of tensors on the CPU: `torch.FloatTensor`, or its name."""
    atom = only(value)
    name = atom.name if isinstance(atom, Symbol) else constant(value)
    return isinstance(name, str) and TYPE_OF_HOST.fullmatch(name) is not None


def _is_moved_below(at: View) -> bool:
    """Whether a variable that an expression reads is moved to the device further down: until then
    it is on the CPU.

    Ex) labels[i] of `if labels[i] < 0: ...` before `labels = labels.to(device)`
    """
    node, src = at.cst, at.source
    function, place = src.function(node), at.span.start
    if function is None:
        return False
    names = {name.value for name in src.layout.names(node)}
    # Most functions move nothing in this way: not all of their calls are asked for each read.
    moved = {name for name in names if src.says(re.compile(rf"\b{name}\s*=\s*{name}\.(to|cuda)\("))}
    return bool(moved) and any(
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value in ("to", "cuda")
        and isinstance(call.func.value, cst.Name)
        and call.func.value.value in moved
        and src.assigned_name(call) == call.func.value.value
        and src.span(call).start > place
        and src.keyword(call, "dtype") is None  # that is a cast back, to what it was before
        and not is_move_to_host(at.of(call))
        for call in src.calls(function)
    )


def heat_of_training(at: View) -> Heat | None:
    """Why a place runs for every batch of training; None unless it does."""
    heat = at.hotness
    return heat if heat is not None and heat.temperature == TRAINING else None
