"""Which numbers are what they are written to be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint import DType, constant, known, only
from amplint import libcst as cst

from .local_values import resolved

if TYPE_CHECKING:
    from amplint import Source, View

# Kinds of numbers whose type is known, and the names of these types.
PLAIN_NUMBERS = frozenset({"int", "float", "bool"})
INFINITE = re.compile(r"""(["'])[+-]?(inf|infinity|nan)\1""", re.IGNORECASE)
FLOAT32_MAX = 3.4028234663852886e38
OF_MATH = re.compile(r"(math|np|numpy|torch)\.(pi|e|inf|nan)")


def is_literal(at: View) -> bool:
    """Whether the expression is a number as it is written, or a variable that holds nothing else.

    Ex) 1e-3, -1, True, float("inf"), math.pi
    """
    made = at.of(resolved(at.cst, at.source))
    node = made.cst
    if isinstance(node, cst.UnaryOperation):
        return is_literal(made.of(node.expression))
    if isinstance(node, cst.Call):
        text = made.source.text(node.args[0]) if len(node.args) == 1 else ""
        return made.callee == "builtins.float" and INFINITE.fullmatch(text) is not None
    if isinstance(node, cst.Attribute):
        return OF_MATH.fullmatch(made.text) is not None
    is_bool = isinstance(node, cst.Name) and node.value in ("True", "False")
    return is_bool or isinstance(node, cst.Integer | cst.Float)


def number_of(node: cst.BaseExpression, src: Source) -> float | None:
    """The number that an expression is: written, held by a variable, added up of such, or the limit
    of a dtype, as in `torch.finfo(torch.float32).min`. A default that calls leave as it is counts,
    whatever others may give."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        positive = number_of(node.expression, src)
        return None if positive is None else -positive
    if isinstance(node, cst.BinaryOperation):
        if not isinstance(node.operator, cst.Add | cst.Subtract):
            return None
        left, right = number_of(node.left, src), number_of(node.right, src)
        if left is None or right is None:
            return None
        return left + right if isinstance(node.operator, cst.Add) else left - right
    if isinstance(node, cst.Attribute) and node.attr.value in ("min", "max"):
        return _limit_of_float32(node, src)
    number = constant(known(src.value(node)))
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return float(number)


def _limit_of_float32(node: cst.Attribute, src: Source) -> float | None:
    info = node.value
    if not isinstance(info, cst.Call) or src.name(info.func) != "torch.finfo" or not info.args:
        return None
    dtype = only(src.value(info.args[0].value))
    if not isinstance(dtype, DType) or dtype.name != "float32":
        return None
    return FLOAT32_MAX if node.attr.value == "max" else -FLOAT32_MAX
