"""Whether an expression is a number, or a list of numbers, that is always the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from amplint.values import Host, Sequence, Value, only

if TYPE_CHECKING:
    from amplint.source import Source

NUMBERS = frozenset({"int", "float", "bool"})
INFINITE = re.compile(r"""(["'])[+-]?(inf|infinity|nan)\1""", re.IGNORECASE)
OF_MATH = re.compile(r"(math|np|numpy|torch)\.(pi|e|inf|nan)")


def is_literal(node: cst.BaseExpression, src: Source) -> bool:
    """Whether the expression is a number as it is written, or a variable that holds nothing else.

    Ex) 1e-3, -1, True, float("inf"), math.pi
    """
    if isinstance(node, cst.Name) and node.value not in ("True", "False"):
        made = src.origin(node) or src.global_value(node)
        return made is not None and is_literal(made, src)
    if isinstance(node, cst.UnaryOperation):
        return is_literal(node.expression, src)
    if isinstance(node, cst.Call):
        text = src.text(node.args[0]) if len(node.args) == 1 else ""
        return src.name(node.func) == "builtins.float" and INFINITE.fullmatch(text) is not None
    if isinstance(node, cst.Attribute):
        return OF_MATH.fullmatch(src.text(node)) is not None
    return isinstance(node, cst.Integer | cst.Float | cst.Name)


def is_constant(node: cst.BaseExpression, src: Source) -> bool:
    """The same for lists, for arithmetic, and for what is known to be nothing else.

    Ex) [0.5, 0.5], [0.1] * 3 + [1 / 3], self.taps after `self.taps = [0.25, 0.5, 0.25]`
    """
    if is_known(src.value(node)) or is_literal(node, src):
        return True
    if isinstance(node, cst.Name):
        made = src.origin(node) or src.global_value(node)
        return made is not None and is_constant(made, src)
    if isinstance(node, cst.List | cst.Tuple):
        parts = [element.value for element in node.elements]
        return all(is_constant(part, src) for part in parts) and not any(
            isinstance(element, cst.StarredElement) for element in node.elements
        )
    if isinstance(node, cst.BinaryOperation):
        return is_constant(node.left, src) and is_constant(node.right, src)
    return False


def is_known(value: Value) -> bool:
    """Whether the value is one number, or one list of them."""
    atom = only(value)
    if isinstance(atom, Sequence):
        return atom.items is not None and all(is_known(item) for item in atom.items)
    return isinstance(atom, Host) and atom.known and atom.kind in NUMBERS
