"""Moves: calls that move a tensor to a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import Device, DType, Edit, Host, Tensor, constant, only, reachable
from amplint import libcst as cst

from .local_values import definition, is_local
from .moves import NAMING

if TYPE_CHECKING:
    from amplint import Source


@dataclass(frozen=True)
class Move:
    """A call that moves a tensor.

    Args:
        device: as it is to be written in `device=`; None for an index that may be None, which means
            the current GPU for `cuda`, and the CPU for `device=`.
        dtype: what is given along with it.
        certain: whether that is a device for every caller, not only in the calls that are seen.
    """

    device: str | None
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
    index, written = constant(src.value(target.value)), src.text(target.value)
    if isinstance(index, int) and not isinstance(index, bool):
        certain = is_local(target.value, src)
        return Move(f'"cuda:{index}"' if certain else written, None, certain)
    if isinstance(only(src.value(target.value)), Device):
        return Move(written, None, surely_device(target.value, src))
    return Move(None, None, False)


def constant_device(node: cst.BaseExpression, src: Source) -> str | None:
    value = constant(src.value(node))
    return value.partition(":")[0] if isinstance(value, str) else None


def names_device(node: cst.BaseExpression, src: Source) -> bool | None:
    """Whether the argument of `.to` is a device: for every caller, only in the calls that are seen
    (False), or not at all (None)."""
    atoms = src.value(node)
    if any(isinstance(a, DType | Tensor) for a in atoms):
        return None
    if all(isinstance(a, Device) or (isinstance(a, Host) and a.kind in NAMING) for a in atoms):
        on_cpu = all(isinstance(a, Device) and a.kind == "cpu" for a in atoms)
        return None if on_cpu else surely_device(node, src)
    if isinstance(node, cst.Attribute) and node.attr.value == "index":
        return False if is_called_device(node.value) else None  # that of the CPU is None
    return True if is_called_device(node) else None


def surely_device(node: cst.BaseExpression, src: Source) -> bool:
    """Whether what is used as a device is one for every caller.

    Ex) x.device, f"cuda:{rank}", torch.device(name), "cuda" if fast else "cpu", a constant
    """

    def choices(part: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
        if isinstance(part, cst.IfExp):
            return (part.body, part.orelse)
        made = None if is_called_device(part) else definition(part, src)
        return () if made is None else (made,)

    return all(choices(part) or gives_device(part, src) for part in reachable([node], choices))


def gives_device(node: cst.BaseExpression, src: Source) -> bool:
    if is_called_device(node) or isinstance(node, cst.BaseString):
        return True
    if isinstance(node, cst.Call) and src.name(node.func) == "torch.device":
        return is_local(node.func, src)
    return is_local(node, src)


def is_called_device(node: cst.BaseExpression) -> bool:
    """Ex) x.device, self.device, main_device"""
    named = node.attr if isinstance(node, cst.Attribute) else node
    return isinstance(named, cst.Name) and named.value.endswith("device")


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
