"""Dtypes: what differs, since where, and what may not be as it seems."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    FLOATS,
    HALF,
    NONE,
    DType,
    Method,
    Object,
    Region,
    Related,
    Shows,
    Tensor,
    TensorTree,
    Value,
    evidence_of,
    known,
    only,
)
from amplint.knowledge.casts import DTYPE_OF_CAST, EQUAL_DTYPES
from amplint.knowledge.dtypes import CHOICES, covering
from amplint.knowledge.operations import SHAPE_METHODS
from amplint.knowledge.vocabulary import PRECISION

if TYPE_CHECKING:
    from amplint import Finding, Fix, Group, Reason, View

# Methods that leave the dtype, and the numbers.
SAME_DTYPE = SHAPE_METHODS | {"cuda", "contiguous", "clone", "detach"}
# Operations on two tensors that are done in the wider dtype.
ARITHMETIC = frozenset({"Add", "Sub", "Mult", "Div"})


def differ(one: str | None, other: str | None) -> bool:
    """Whether two float dtypes are known to differ, one of them being half."""
    if one not in FLOATS or other not in FLOATS or one == other or not {one, other} & HALF:
        return False
    if {one, other} & CHOICES.keys():
        return False  # or chosen by one flag
    return not ({one, other} <= HALF and "half" in (one, other))  # either may be the other


def device_type(region: Region, tensors: Iterable[Tensor]) -> str | None:
    """The device type of a region; CUDA if it is unknown, and tensors are on an accelerator."""
    if region.device is None and any(tensor.device.kind == ACCELERATOR for tensor in tensors):
        return "cuda"
    return region.device


def library_casts_model_outputs(at: View) -> bool:
    """Whether some library casts what models give to float32, as it wraps them.

    Ex) model = accelerator.prepare(model), model = fabric.setup(model)
    """
    return at.mentions("Accelerator", "prepare") or at.mentions("Fabric", "setup")


def finding_on_dtype(
    at: View,
    tensor: Tensor,
    message: str,
    fix: Fix | None = None,
    because: Iterable[Reason | Related] = (),
    help: str = "",
    group: Group | None = None,
) -> Finding:
    """A finding that rests on the dtype of a tensor, which one flag may choose for all that runs
    within a region and outside of one.

    Args:
        because: other places to show, before what has made the dtype.
        fix, help, group: as `View.finding` takes them.
    """
    places = (*because, tensor.dtype_evidence)
    return at.finding(message, places, fix, help, group, anywhere=_is_chosen_by_flag(tensor))


def tensor_on_a_path(at: View | None) -> Tensor | None:
    """The tensor that something is, be it on one path alone, and unknown on another; None where it
    is half on one path, and the precision is asked for on the way here: that path may go elsewhere.

    Ex) not x after `x = x.half() if fp16 else x`, where `if fp16: return x` comes before
    """
    atom = only(known(at.value)) if at is not None else None
    if at is None or not isinstance(atom, Tensor):
        return None
    is_sure = at.tensor is not None and atom.dtype in HALF
    return atom if is_sure or not any(map(PRECISION.search, at.tested_around)) else None


def _is_chosen_by_flag(tensor: Tensor) -> bool:
    """Whether a tensor is half where a cast says so, on one path, and not where a region does."""
    evidence = evidence_of(tensor.dtype_evidence)
    cast = evidence is not None and evidence.kind is Shows.DTYPE
    return cast and tensor.dtype not in HALF


def _named_dtype(value: Value) -> str | None:
    """The torch.dtype that a value is, or the choice between several."""
    dtypes = {atom.name for atom in value if isinstance(atom, DType)}
    return covering(dtypes) if dtypes and len(dtypes) == len(value - {NONE}) else None


@dataclass(frozen=True)
class Operation:
    """An operation of torch: a function, a method of a tensor, or a layer.

    Args:
        name: as in the tables of amplint.knowledge: "torch.matmul", "Tensor.mm", "torch.nn.Linear".
        operands: what may be tensors.
        module: the layer that is called, whose parameters are operands too.
    """

    name: str
    operands: tuple[View, ...]
    module: Object | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """The operands that are tensors, as such."""
        return [each.tensor for each in self.operands if each.tensor is not None]


def product(at: View) -> Operation | None:
    """A matrix product, a convolution and the like: what raises where dtypes differ.

    Ex) a @ b, torch.einsum("ij,jk", a, b), a.mm(b), linear(a)
    """
    if at.op == "binop":
        is_product = at.operator == "MatMult"
        return Operation("Tensor.__matmul__", tuple(at.operands)) if is_product else None
    op = operation(at)
    return op if op is not None and op.name in EQUAL_DTYPES else None


def operation(call: View) -> Operation | None:
    """Ex) torch.linalg.inv(a), a.inverse(), criterion(a, b)"""
    if call.op != "call":
        return None
    function, *arguments = call.operands
    operands = tuple(part for each in arguments for part in _parts_of(each))
    called = only(function.value)
    if isinstance(called, Object):
        return Operation(called.type, operands, called)
    if isinstance(called, Method):
        receiver = (call.receiver,) if call.receiver is not None else ()
        is_of_tensor = isinstance(called.of, Tensor | TensorTree)
        return Operation(f"Tensor.{called.name}", (*receiver, *operands)) if is_of_tensor else None
    return Operation(call.callee, operands) if call.callee is not None else None


def _parts_of(at: View) -> Sequence[View]:
    """The parts of a list or a tuple, or the one that is none."""
    return at.operands if at.op in ("list", "tuple") else (at,)


def chain_root(at: View, through: Collection[str]) -> View:
    """The expression on which methods of these names are called: `ids`, for ids.view(-1).long()"""
    while at.op == "call" and at.method in through:
        receiver = at.receiver
        if receiver is None or receiver.tensor is None:
            break
        at = receiver
    return at


def dtype_of_cast(call: View) -> str | None:
    """The dtype to which a method casts what it is called on: x.half(), x.to("cuda", torch.half)"""
    if call.op != "call":
        return None
    arguments = (argument for _, _, argument in call.arguments)
    if call.method in ("to", "type"):
        return next((name for each in arguments if (name := _named_dtype(each.value))), None)
    dtype = DTYPE_OF_CAST.get(f"Tensor.{call.method}")
    return dtype if dtype is not None and not any(True for _ in arguments) else None


def taken_by(at: View) -> Iterator[View]:
    """The operations that take a value; of a method that is called on it, the call."""
    for use in at.uses:
        yield from [each for each in use.uses if _calls_method(each, use)] or [use]


def _calls_method(call: View, method: View) -> bool:
    return method.op == "attr" and call.op == "call" and call.operands[0].is_same(method)


def is_receiver_of(at: View, call: View) -> bool:
    """Whether a method is called on a value."""
    return call.op == "call" and call.receiver is not None and call.receiver.is_same(at)
