"""Which numbers are what they are written to be."""

from __future__ import annotations

import re

from amplint import DType, View, constant, known, only
from amplint import libcst as cst

from .local_values import resolved

# Kinds of numbers whose type is known, and the names of these types.
PLAIN_NUMBERS = frozenset({"int", "float", "bool"})
INFINITE = re.compile(r"""(["'])[+-]?(inf|infinity|nan)\1""", re.IGNORECASE)
FLOAT32_MAX = 3.4028234663852886e38
OF_MATH = re.compile(r"(math|np|numpy|torch)\.(pi|e|inf|nan)")


def is_literal(at: View) -> bool:
    """Whether the expression is a number as it is written, or a variable that holds nothing else.

    Ex) 1e-3, -1, True, float("inf"), math.pi
    """
    made = resolved(at)
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


def number_of(at: View) -> float | None:
    """The number that an expression is: written, held by a variable, added up of such, or the limit
    of a dtype, as in `torch.finfo(torch.float32).min`. A default that calls leave as it is counts,
    whatever others may give."""
    if at.op == "unary" and at.operator == "USub":
        positive = number_of(at.operands[0])
        return None if positive is None else -positive
    if at.op == "binop":
        left, right = map(number_of, at.operands)
        if left is None or right is None or at.operator not in ("Add", "Sub"):
            return None
        return left + right if at.operator == "Add" else left - right
    if at.op == "attr" and at.method in ("min", "max"):
        return _limit_of_float32(at)
    number = constant(known(at.value))
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return float(number)


def _limit_of_float32(limit: View) -> float | None:
    info = limit.operands[0]
    given = info.arg("type", 0) if info.callee == "torch.finfo" else None
    dtype = only(given.value) if given is not None else None
    if not isinstance(dtype, DType) or dtype.name != "float32":
        return None
    return FLOAT32_MAX if limit.method == "max" else -FLOAT32_MAX
