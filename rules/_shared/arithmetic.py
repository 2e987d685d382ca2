"""The arithmetic of Python on two numbers, by the names that `ast` has for its operators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

OPERATORS: Mapping[str, Callable[[float, float], object]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "Pow": operator.pow,
}


def computed(name: str, left: float, right: float) -> float | None:
    """The result of an operator on two numbers, if it is a number that a float can hold."""
    if name not in OPERATORS:
        return None
    try:
        result = OPERATORS[name](left, right)
    except ArithmeticError:
        return None
    return result if isinstance(result, float) else None
