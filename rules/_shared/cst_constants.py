"""Which numbers are what they are written to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import libcst as cst

from .constants import INFINITE, OF_MATH

if TYPE_CHECKING:
    from amplint import Source

# Kinds of numbers whose type is known, and the names of these types.


def is_literal(node: cst.BaseExpression, src: Source) -> bool:
    """Whether the expression is a number as it is written, or a variable that holds nothing else.

    Ex) 1e-3, -1, True, float("inf"), math.pi
    """
    if isinstance(node, cst.Name) and node.value not in ("True", "False"):
        made = src.origin(node) or src.variables.global_value(node)
        return made is not None and is_literal(made, src)
    if isinstance(node, cst.UnaryOperation):
        return is_literal(node.expression, src)
    if isinstance(node, cst.Call):
        text = src.text(node.args[0]) if len(node.args) == 1 else ""
        return src.name(node.func) == "builtins.float" and INFINITE.fullmatch(text) is not None
    if isinstance(node, cst.Attribute):
        return OF_MATH.fullmatch(src.text(node)) is not None
    return isinstance(node, cst.Integer | cst.Float | cst.Name)
