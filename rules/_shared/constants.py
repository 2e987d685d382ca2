"""Which numbers are what they are written to be."""

from __future__ import annotations

from amplint import DType, Host, View, known, only

from .arithmetic import OPERATORS, computed

# Kinds of numbers whose type is known, and the names of these types.
PLAIN_NUMBERS = frozenset({"int", "float", "bool"})
# The limits of float32 that `torch.finfo` and `numpy.finfo` have.
LIMITS = {
    "max": 3.4028234663852886e38,
    "min": -3.4028234663852886e38,
    "tiny": 2.0**-126,
    "smallest_normal": 2.0**-126,
    "eps": 2.0**-23,
}


def number_of(at: View) -> float | None:
    """The number that an expression is: written, held by a variable, computed of such, or the limit
    of a dtype, as in `torch.finfo(torch.float32).min`. A default that calls leave as it is counts,
    whatever others may give."""
    if at.op == "unary" and at.operator == "USub":
        positive = number_of(at.operands[0])
        return None if positive is None else -positive
    if at.op == "binop" and at.operator in OPERATORS:
        left, right = map(number_of, at.operands)
        return None if left is None or right is None else computed(at.operator, left, right)
    if at.callee == "builtins.float" and not at.has_star:
        return next((number_of(argument) for _, _, argument in at.arguments), None)
    if at.op == "attr" and at.method in LIMITS and _is_of_float32(at.operands[0]):
        return LIMITS[at.method]
    value = only(known(at.value))
    number = value.const if isinstance(value, Host) else None
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return float(number)


def _is_of_float32(info: View) -> bool:
    """Ex) torch.finfo(torch.float32), np.finfo(np.float32)"""
    operand = info.arg("type", 0) or info.arg("dtype", 0)
    if operand is None or info.callee not in ("torch.finfo", "numpy.finfo"):
        return False
    dtype = only(operand.value)
    return operand.name == "numpy.float32" or (isinstance(dtype, DType) and dtype.name == "float32")
