"""Moves: calls that move a tensor to a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import Device, DType, Edit, Host, Tensor, constant, only, reachable
from amplint import libcst as cst

from .local_values import definition, is_local

if TYPE_CHECKING:
    from amplint import View

NAMING = frozenset({"str", "int"})  # "cuda:0", or the index of a GPU


@dataclass(frozen=True)
class Move:
    """A call that moves a tensor.

    Args:
        device: as it is to be written in `device=`; None for an index that may be None, which means
            the current GPU for `cuda`, and the CPU for `device=`, and with a memory format.
        dtype: what is given along with it.
        certain: whether that is a device for every caller, not only in the calls that are seen.
    """

    device: str | None
    dtype: View | None
    certain: bool


def move_of(call: View) -> Move | None:
    """Ex) x.cuda(), x.cuda(0), x.to(device), x.to("cuda", non_blocking=True)"""
    target = call.arg("device", 0)
    if call.op != "call" or call.has_star:
        return None
    if call.method == "cuda":
        return _move_by_cuda(target)
    if call.method != "to" or target is None or _constant_device(target) == "cpu":
        return None
    certain = _names_device(target)
    device = target.text if call.arg("memory_format") is None else None
    return None if certain is None else Move(device, call.arg("dtype", 1), certain)


def _move_by_cuda(target: View | None) -> Move:
    """Ex) x.cuda(), x.cuda(0), x.cuda(args.gpu)"""
    if target is None:
        return Move('"cuda"', None, True)
    index = constant(target.value)
    if isinstance(index, int) and not isinstance(index, bool):
        certain = is_local(target)
        return Move(f'"cuda:{index}"' if certain else target.text, None, certain)
    if isinstance(only(target.value), Device):
        return Move(target.text, None, _is_surely_device(target))
    return Move(None, None, False)


def _constant_device(target: View) -> str | None:
    value = constant(target.value)
    return value.partition(":")[0] if isinstance(value, str) else None


def _names_device(target: View) -> bool | None:
    """Whether the argument of `.to` is a device: for every caller, only in the calls that are seen
    (False), or not at all (None)."""
    atoms = target.value
    if any(isinstance(a, DType | Tensor) for a in atoms):
        return None
    if all(isinstance(a, Device) or (isinstance(a, Host) and a.kind in NAMING) for a in atoms):
        on_cpu = all(isinstance(a, Device) and a.kind == "cpu" for a in atoms)
        return None if on_cpu else _is_surely_device(target)
    if target.op == "attr" and target.method == "index" and target.receiver is not None:
        return False if _is_called_device(target.receiver.cst) else None  # that of the CPU is None
    return True if _is_called_device(target.cst) else None


def _is_surely_device(at: View) -> bool:
    """Whether what is used as a device is one for every caller.

    Ex) x.device, f"cuda:{rank}", torch.device(name), "cuda" if fast else "cpu", a constant
    """

    def choices(part: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
        if isinstance(part, cst.IfExp):
            return (part.body, part.orelse)
        expression = None if _is_called_device(part) else definition(part, at.source)
        return () if expression is None else (expression,)

    parts = reachable([at.cst], choices)
    return all(choices(part) or _gives_device(at.of(part)) for part in parts)


def _gives_device(at: View) -> bool:
    if _is_called_device(at.cst) or isinstance(at.cst, cst.BaseString):
        return True
    return is_local(at.called if at.callee == "torch.device" else at)


def _is_called_device(node: cst.BaseExpression) -> bool:
    """Ex) x.device, self.device, main_device"""
    named = node.attr if isinstance(node, cst.Attribute) else node
    return isinstance(named, cst.Name) and named.value.endswith("device")


def is_sole_reader(name: View, expression: View) -> bool:
    """Whether what an expression has made is read by one variable at one place, and always."""
    source = name.source
    if not expression.is_written:
        return False
    others = [use for use in source.variables.uses(expression.cst) if use is not name.cst]
    if others or source.variables.joined(expression.cst):
        return False
    # A move in an inner loop, or under a condition, does not always happen.
    return _is_beside(name, expression)


def _is_beside(one: View, other: View) -> bool:
    """Whether the statements of two expressions stand in one block."""
    source = one.source
    return source.parent(source.statement(one.cst)) is source.parent(source.statement(other.cst))


def without_move(move: View) -> Edit:
    """Ex) x.to(d) -> x, and nothing for `x = x.to(d)`"""
    source, call = move.source, move.cst
    moved = call.func.value
    statement = source.layout.assignment(call)
    name = moved.value if isinstance(moved, cst.Name) else None
    if statement is not None and name is not None and source.assigned_name(call) == name:
        return source.edits.remove_statement(statement)
    return source.edits.remove_between(moved, call)
