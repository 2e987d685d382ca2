"""Sums over batches: a variable that grows, and how long it lives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import View
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

ADDING = frozenset({"add_", "sub_"})


@dataclass(frozen=True)
class _Growth:
    """A statement that adds to what was there before: the variable, and whether it decays."""

    variable: cst.BaseExpression
    decays: bool = False


def growth_of(node: cst.CSTNode | None, src: Source) -> _Growth | None:
    """Ex) t += x, t = t + x, t = 0.9 * t + x, t.add_(x), t.mul_(0.9).add_(x), t.lerp_(x, 0.1)"""
    if isinstance(node, cst.AugAssign):
        adds = isinstance(node.operator, cst.AddAssign | cst.SubtractAssign)
        return _Growth(node.target) if adds else None
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        return _grown_by(node.value, src.text(node.targets[0].target), src)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
        method, receiver = node.func.attr.value, node.func.value
        if method == "lerp_":
            return _Growth(receiver, decays=True)
        if method not in ADDING:
            return None
        decayed = _is_method(receiver, "mul_")
        return _Growth(decayed or receiver, decays=decayed is not None)
    return None


def _grown_by(value: cst.BaseExpression, name: str, src: Source) -> _Growth | None:
    """The part of the old value in the new one: itself, or a share of it."""
    if not isinstance(value, cst.BinaryOperation):
        return None
    if not isinstance(value.operator, cst.Add | cst.Subtract):
        return None
    sides = [value.left]
    if isinstance(value.operator, cst.Add):
        sides.append(value.right)
    for side in sides:
        if src.text(side) == name:
            return _Growth(side)
        if isinstance(side, cst.BinaryOperation) and isinstance(side.operator, cst.Multiply):
            for factor in (side.left, side.right):
                if src.text(factor) == name:
                    return _Growth(factor, decays=True)
    return None


def _is_method(node: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
    """Ex) average, of average.mul_(0.9)"""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.value if node.func.attr.value == name else None
    return None


def loop_of_batches(at: View) -> cst.For | cst.While | None:
    """The loop around a hot place that is itself entered in a cold one."""
    for around in at.source.ancestors(at.cst):
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            return None
        if isinstance(around, cst.For | cst.While):
            header = around.iter if isinstance(around, cst.For) else around
            if at.of(header).hotness is None:
                return around
    return None


def is_bound_earlier(variable: View) -> bool:
    """Whether what an operand reads may have been bound in an earlier iteration."""
    return variable.is_joined or variable.op in ("attr", "name", "subscript")


def beginnings(name: str, block: cst.CSTNode, src: Source) -> Iterator[cst.CSTNode]:
    """The places of a block where the variable is given another value than one that grew."""
    targets: list[cst.BaseExpression] = []
    if isinstance(block, cst.Assign):
        if _grown_by(block.value, name, src) is None:
            targets = [target.target for target in block.targets]
    elif isinstance(block, cst.AnnAssign | cst.For | cst.CompFor | cst.NamedExpr):
        targets = [block.target]
    if any(name in _names_in(target, src) for target in targets):
        yield block
    for child in block.children:
        yield from beginnings(name, child, src)


def _names_in(target: cst.BaseExpression, src: Source) -> Iterator[str]:
    """Ex) a, b of `a, b = ...`"""
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _names_in(element.value, src)
    else:
        yield src.text(target)
