"""What the rules about placement share: a call that moves a tensor to a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from amplint import DEVICE_HINTS, Device, DType, Edit, Host, Tensor, constant, only

if TYPE_CHECKING:
    from amplint import Source

NAMING = frozenset({"str", "int"})  # "cuda:0", or the index of a GPU


@dataclass(frozen=True)
class Move:
    """What moves a tensor.

    Args:
        device: as it is to be written in `device=`.
        dtype: what is given along with it.
        certain: whether that is a device beyond doubt, not by its name alone.
    """

    device: str
    dtype: str | None
    certain: bool


def move_of(call: cst.Call, src: Source) -> Move | None:
    """Ex) x.cuda(), x.cuda(0), x.to(device), x.to("cuda", non_blocking=True)"""
    if not isinstance(call.func, cst.Attribute) or src.has_star(call):
        return None
    method = call.func.attr.value
    if method == "cuda":
        return move_by_cuda(call, src)
    if method != "to" or src.keyword(call, "memory_format") is not None:
        return None
    target = src.argument(call, "device", 0)
    if target is None or constant_device(target.value, src) == "cpu":
        return None
    certain = names_device(target.value, src)
    if certain is None:
        return None
    dtype = src.argument(call, "dtype", 1)
    return Move(src.text(target.value), src.text(dtype.value) if dtype else None, certain)


def move_by_cuda(call: cst.Call, src: Source) -> Move | None:
    target = src.argument(call, "device", 0)
    if target is None:
        return Move('"cuda"', None, True)
    index = constant(src.value(target.value))
    if isinstance(index, int) and not isinstance(index, bool):
        return Move(f'"cuda:{index}"', None, True)
    if isinstance(only(src.value(target.value)), Device):
        return Move(src.text(target.value), None, True)
    return None  # an index that may be None means the current device


def constant_device(node: cst.BaseExpression, src: Source) -> str | None:
    value = constant(src.value(node))
    return value.partition(":")[0] if isinstance(value, str) else None


def names_device(node: cst.BaseExpression, src: Source) -> bool | None:
    """Whether the argument of `.to` is a device: certainly, by its name alone, or (None) not."""
    atoms = src.value(node)
    if any(isinstance(a, DType | Tensor) for a in atoms):
        return None
    if all(isinstance(a, Device) or (isinstance(a, Host) and a.kind in NAMING) for a in atoms):
        return None if all(isinstance(a, Device) and a.kind == "cpu" for a in atoms) else True
    if isinstance(node, cst.Attribute) and node.attr.value == "device":
        return True
    last = node.attr.value if isinstance(node, cst.Attribute) else getattr(node, "value", "")
    named = isinstance(last, str) and (last in DEVICE_HINTS or last.endswith("device"))
    return True if named and last.endswith("device") else None


def bound_before(name: cst.Name, src: Source) -> cst.BaseExpression | None:
    """The expression whose result the name holds, if this is the only place that reads it."""
    made = src.origin(name)
    if made is None or src.joined(made) or [use for use in src.uses(made) if use is not name]:
        return None
    # A move in an inner loop, or under a condition, does not always happen.
    if src.parent(src.statement(made)) is not src.parent(src.statement(name)):
        return None
    return made


def without_move(move: cst.Call, receiver: cst.BaseExpression, src: Source) -> Edit | None:
    """Ex) x.to(d) -> x, and nothing for `x = x.to(d)`"""
    statement = src.layout.assignment(move)
    if (
        isinstance(receiver, cst.Name)
        and statement is not None
        and src.assigned_name(move) == receiver.value
    ):
        return src.edits.remove_statement(statement)
    return src.edits.remove_between(receiver, move)
