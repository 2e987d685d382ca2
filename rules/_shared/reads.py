"""Host reads: a tensor on the device, read in a hot place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
    ReadByFramework,
    Related,
    Sequence,
    Shows,
    Symbol,
    Tensor,
    TensorCertainty,
    TensorTree,
    UnknownWhenHot,
    Value,
    calls,
    constant,
    is_unknown,
    join_devices,
    known,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.host_reads import LOGGED, READING_FUNCTIONS, READING_METHODS

if TYPE_CHECKING:
    from amplint import Reason, Source, Spot, View

    Reasons = tuple[Reason | Related | None, ...]

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
    nests = [atom for atom in value if isinstance(atom, TensorTree)]
    if nests and not certain:
        # A tensor on one path, a nest on another: what holds of both is that they are nests.
        value = frozenset(a for a in value if not isinstance(a, Tensor | TensorTree)) | {
            TensorTree(
                join_devices([a.device for a in value if isinstance(a, Tensor | TensorTree)])
            )
        }
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
    if tensor is None or receiver:
        return tensor
    return tensor if at.ask(NotGuessed if on_device(tensor) else TensorCertainty) else None


def on_device(tensor: Tensor | TensorTree) -> bool:
    return tensor.device.kind == ACCELERATOR


def read_of_training(at: View, tensor: Tensor | TensorTree | None) -> Reasons | None:
    """Why a tensor is on the device and the place runs for every batch of training; None unless
    both hold."""
    return read_of_batches(at, tensor, TRAINING)


def read_of_batches(
    at: View, tensor: Tensor | TensorTree | None, temperature: str
) -> Reasons | None:
    """The same for every batch of training, or of evaluation."""
    heat = at.hotness if tensor is not None else None
    if tensor is None or heat is None or heat.temperature != temperature:
        return None
    if at.ask(UnknownWhenHot):
        if not says_device(at):
            return None
        tensor = Tensor()
    if tensor.device.kind is not None:
        return (*heat.chain, tensor.device.evidence)
    if heat.is_guess or is_moved_below(at):
        return None
    return (*heat.chain, at.related("nothing keeps this tensor on the CPU"))


def tensor_of_read(call: View) -> Tensor | TensorTree | None:
    """The tensor on the device whose value a call brings to the host: t.item(), float(t)."""
    operand = operand_of_read(call)
    if operand is None:
        return next(tensors_logged(call), None)
    is_method = operand_is_receiver(call)
    if is_unknown(operand.value) and says_device(call):
        return Tensor()
    if is_method and call.method == ONLY_OF_HOST:
        return device_tensor(operand.value, receiver=True)
    # `float(x)` takes a number as well; `x.item()` says that x is a tensor or an array.
    return hot_tensor(operand, receiver=is_method)


def operand_of_read(call: View) -> View | None:
    """The expression whose value a call brings to the host."""
    if operand_is_receiver(call):
        return call.receiver
    given = list(call.arguments)
    if len(given) == 1 and call.callee in READING_FUNCTIONS:
        _, keyword, argument = given[0]
        return argument if keyword is None and argument.op != "starred" else None
    return None


def operand_is_receiver(call: View) -> bool:
    """Whether a call brings the value of what it is called on to the host.

    Ex) x.item(), x.to("cpu"), x.type(torch.FloatTensor)
    """
    method = call.method
    if method == "to":
        return is_move_to_host(call) and not returns_at_once(call)
    if method == "type":
        given = [argument for _, _, argument in call.arguments]
        return len(given) == 1 and names_host(given[0].value)
    return method in READING_METHODS


def tensors_logged(call: View) -> Iterator[Tensor]:
    """The tensors on the device that are written to a log: writer.add_scalar("loss", loss)"""
    name = call.callee
    if name not in LOGGED:
        name = f".{call.method}"
    if name in LOGGED:
        position, keyword = LOGGED[name]
        logged = call.arg(keyword, position)
        given = [logged] if logged is not None else []
    else:
        by_framework = call.ask(ReadByFramework)
        given = [argument for _, _, argument in call.arguments] if by_framework else []
    for each in given:
        tensor = hot_tensor(each)
        if isinstance(tensor, Tensor):
            yield tensor
        elif tensor is None:
            yield from tensors_in_dict(each.value)


def tensors_in_dict(value: Value) -> Iterator[Tensor]:
    """The tensors in a dict that surely are on the device."""
    atom = only(value)
    for _, held in atom.items if isinstance(atom, Mapping) else ():
        tensor = device_tensor(held, certain=True)
        if isinstance(tensor, Tensor):
            yield tensor


def says_device(at: View) -> bool:
    """Whether a call says by itself that it brings a tensor to the host: `x.cpu()`.

    Whatever `x` is, that is what it is for; modules, which have it too, are known as such where
    they are called. Not of what was computed from what is on the host already, by the looks of it.
    """
    receiver = at.receiver if at.op == "call" and at.method == "cpu" else None
    if receiver is None or any(at.arguments):
        return False
    made = receiver.origin
    return receiver.op != READ or not made.is_written or ".cpu()" not in made.text


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
    given = call.arg("non_blocking")
    return given is not None and constant(given.value) is True


def names_host(value: Value) -> bool:
    """Whether a value is a type of tensors on the CPU: `torch.FloatTensor`, or its name."""
    atom = only(value)
    name = atom.name if isinstance(atom, Symbol) else constant(value)
    return isinstance(name, str) and TYPE_OF_HOST.fullmatch(name) is not None


def is_moved_below(at: View) -> bool:
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


def last_operand(at: View) -> View:
    """The last operand of an `and` or `or` that may be a tensor: its truth is that of the whole,
    unless one before it, whose truth was asked there, has decided the matter. Else the expression
    itself."""
    while at.op == "bool" and any(isinstance(atom, Tensor) for atom in at.value):
        at = at.operands[-1]
    return at


def heat_of_training(at: View) -> Heat | None:
    """Why a place runs for every batch of training; None unless it does."""
    heat = at.hotness
    return heat if heat is not None and heat.temperature == TRAINING else None


def runs_in_forward(heat: Heat) -> bool:
    """Whether it is a module's `forward` that makes a place hot, not a loop that was seen."""
    return bool(heat.chain) and heat.chain[-1].kind is Shows.FORWARD


# ------------------------------------------------------------ for rules that judge LibCST nodes


def tensor_of_training(
    node: cst.BaseExpression, src: Source, receiver: bool = False
) -> Tensor | TensorTree | None:
    """The tensor on the device that an expression is, where the place runs for every batch.

    It has to be a tensor by more than a guess: what is compared with a number may be one, also
    where it is a parameter of `forward`. So may what is out of a nest, where nothing says that this
    was moved.
    """
    tensor = device_tensor(src.value(node), not receiver, receiver, presumed=True)
    if tensor is None or receiver:
        return tensor
    return tensor if src.ask(NotGuessed if on_device(tensor) else TensorCertainty, node) else None


def tensor_read(call: cst.Call, src: Source) -> Tensor | TensorTree | None:
    """The tensor on the device whose value the call brings to the host: t.item(), float(t)."""
    operand = operand_read(call, src)
    if operand is None:
        return tensor_logged(call, src)
    method = isinstance(call.func, cst.Attribute) and operand is call.func.value
    if is_unknown(src.value(operand)) and is_taken_from_device(call, src):
        return Tensor()
    if method and isinstance(call.func, cst.Attribute) and call.func.attr.value == ONLY_OF_HOST:
        return device_tensor(src.value(operand), receiver=True)
    # `float(x)` takes a number as well; `x.item()` says that x is a tensor or an array.
    return tensor_of_training(operand, src, receiver=method)


def tensor_logged(call: cst.Call, src: Source) -> Tensor | TensorTree | None:
    """The tensor on the device that is written to a log: writer.add_scalar("loss", loss)"""
    name = src.name(call.func) or ""
    if isinstance(call.func, cst.Attribute) and name not in LOGGED:
        name = f".{call.func.attr.value}"
    if name in LOGGED:
        position, keyword = LOGGED[name]
        given = src.argument(call, keyword, position)
        return next(tensors_given([given], src), None) if given is not None else None
    by_framework = src.ask(ReadByFramework, call)
    return next(tensors_given(call.args, src), None) if by_framework else None


def tensors_given(given: Iterable[cst.Arg], src: Source) -> Iterator[Tensor]:
    """The tensors on the device among arguments, and in dicts among them."""
    for each in given:
        tensor = tensor_of_training(each.value, src)
        if isinstance(tensor, Tensor):
            yield tensor
        elif tensor is None:
            yield from tensors_in_dict(src.value(each.value))


def is_taken_from_device(call: cst.Call, src: Source) -> bool:
    """Whether a call says by itself that it brings a tensor to the host: `x.cpu()`.

    Whatever `x` is, that is what it is for; modules, which have it too, are known as such where
    they are called. Not of what was computed from what is on the host already, by the looks of it.
    """
    function = call.func
    if not isinstance(function, cst.Attribute) or function.attr.value != "cpu" or call.args:
        return False
    receiver = function.value
    made = src.origin(receiver) if isinstance(receiver, cst.Name) else None
    return made is None or ".cpu()" not in src.text(made)


def operand_read(call: cst.Call, src: Source) -> cst.BaseExpression | None:
    """The expression whose value the call brings to the host."""
    function = call.func
    if isinstance(function, cst.Attribute):
        name = function.attr.value
        if name in READING_METHODS:
            return function.value
        if name == "to" and moves_to_host(call, src) and not is_non_blocking(call, src):
            return function.value
        if name == "type" and len(call.args) == 1 and names_host(src.value(call.args[0].value)):
            return function.value
    if len(call.args) == 1 and not call.args[0].star and call.args[0].keyword is None:
        builtin = src.name(function)
        if builtin in READING_FUNCTIONS:
            return call.args[0].value
    return None


def hot_evidence(
    node: cst.CSTNode, tensor: Tensor | TensorTree | None, src: Source, temperature: str = TRAINING
) -> tuple[Related, ...] | None:
    """Why the tensor is on the device and the place runs for every batch of training, or of
    evaluation; None unless both hold."""
    heat = src.heat(node) if tensor is not None else None
    if tensor is None or heat is None or heat.temperature != temperature:
        return None
    if src.ask(UnknownWhenHot, node):
        if not isinstance(node, cst.Call) or not is_taken_from_device(node, src):
            return None
        tensor = Tensor()  # as of an unknown: `x.cpu()` says it by itself
    where = device_places(tensor, src)
    if tensor.device.kind is None:
        if heat.is_guess or is_moved_later(node, src):
            return None
        where = (src.related_node(node, "nothing keeps this tensor on the CPU"),)
    return (*heat_places(heat, src), *where)


def moves_to_host(call: cst.Call, src: Source) -> bool:
    """Ex) x.to("cpu"), x.to(device="cpu"), x.to(host) with host = torch.device("cpu")"""
    target = src.argument(call, "device", 0)
    if target is None:
        return False
    if constant(src.value(target.value)) == "cpu":
        return True
    # A parameter or a field may be another device elsewhere; a local name is what it is.
    made = src.origin(target.value) if isinstance(target.value, cst.Name) else target.value
    atom = only(src.value(target.value))
    return isinstance(made, cst.Call) and isinstance(atom, Device) and atom.kind == "cpu"


def is_non_blocking(call: cst.Call, src: Source) -> bool:
    """Whether a copy is made without waiting for it: `non_blocking=True`."""
    given = src.keyword(call, "non_blocking")
    return given is not None and constant(src.value(given.value)) is True


def training_heat(node: cst.CSTNode, src: Source) -> Heat | None:
    """Why the node runs for every batch of training; None unless it does."""
    heat = src.heat(node)
    return heat if heat is not None and heat.temperature == TRAINING else None


def heat_places(heat: Heat, src: Source) -> tuple[Related, ...]:
    return tuple(src.related(evidence) for evidence in heat.chain)


def device_places(tensor: Tensor | TensorTree, src: Source) -> tuple[Related, ...]:
    return src.reasons(tensor.device.evidence)


def is_moved_later(node: cst.CSTNode, src: Source) -> bool:
    """Whether a variable that an expression reads is moved to the device further down: until then
    it is on the CPU.

    Ex) labels[i] of `if labels[i] < 0: ...` before `labels = labels.to(device)`
    """
    function, place = src.function(node), src.span(node).start
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
        and not moves_to_host(call, src)
        for call in src.calls(function)
    )


def presumed_tensor(at: Spot, number: int) -> Tensor | TensorTree | None:
    """As `tensor_of_training`, of what is no receiver."""
    tensor = device_tensor(at.of(number), certain=True, presumed=True)
    if tensor is None or number < 0:
        return tensor
    return tensor if at.ask(NotGuessed if on_device(tensor) else TensorCertainty, number) else None


def goes_to_host(at: Spot) -> bool:
    """As `moves_to_host`, whatever a variable was made of."""
    target = at.of(at.given("device", 0))
    atom = only(target)
    return constant(target) == "cpu" or (isinstance(atom, Device) and atom.kind == "cpu")


def logs_tensor(at: Spot) -> bool:
    """As `tensor_logged`."""
    named = at.name
    name = named if named is not None and named in LOGGED else f".{at.method}"
    if name in LOGGED:
        position, keyword = LOGGED[name]
        numbers: tuple[int, ...] = (at.given(keyword, position),)
    else:
        numbers = at.arguments if at.ask(ReadByFramework) else ()
    return any(
        isinstance(presumed_tensor(at, number), Tensor) or any(tensors_in_dict(at.of(number)))
        for number in numbers
        if number >= 0
    )


def reads_tensor(at: Spot) -> bool:
    """As `tensor_read`."""
    typed = at.method == "type" and any(names_host(at.of(each)) for each in at.arguments)
    if typed or at.method in READING_METHODS or (at.method == "to" and goes_to_host(at)):
        if at.method == "cpu" and is_unknown(at.of(at.receiver)):
            return True
        presumed = at.method != ONLY_OF_HOST
        return device_tensor(at.of(at.receiver), receiver=True, presumed=presumed) is not None
    if at.name not in READING_FUNCTIONS or len(at.arguments) != 1:
        return False
    return presumed_tensor(at, at.arguments[0]) is not None


READS = (
    calls(
        *(f".{name}" for name in (*READING_METHODS, "to", "type")),
        *READING_FUNCTIONS,
    )
    & reads_tensor
    | nodes("call") & logs_tensor
)
