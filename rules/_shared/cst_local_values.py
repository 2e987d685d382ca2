"""Values of expressions that hold for every caller of the function around them.

`Source.value` joins the calls that are seen. A safe fix must hold for all others, too: a function
that is given an int in every call of the project may be given a tensor by its users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import Host, reachable
from amplint import libcst as cst

from . import local_values
from .local_values import (
    GIVES_INT,
    GIVES_NUMBER,
    INT_METHODS,
    is_local,
    method_of,
    resolved,
    shaped,
)

if TYPE_CHECKING:
    from amplint import Source


def surely_int(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) 3, len(x), x.size(0), x.shape[0] + 1; a variable that holds it"""
    return all(
        local_values.operands_of_int(part, src) or gives_int(part, src)
        for part in reachable([node], lambda part: local_values.operands_of_int(part, src))
    )


def gives_int(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) 3, len(x), x.size(0), x.shape[-1], x.ndim, n of `n, m = x.shape`"""
    if isinstance(node, cst.Call):
        method = method_of(node)
        if (method == "size" and len(node.args) == 1) or method in INT_METHODS:
            return True
        return src.name(node.func) in GIVES_INT and is_local(node.func, src)
    if isinstance(node, cst.Subscript):
        index = len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)
        return index and shaped(node.value, src) is not None
    if isinstance(node, cst.Attribute) and node.attr.value == "ndim":
        return True
    if isinstance(node, cst.Name):
        whole = src.variables.unpacked(node)
        if whole is not None and shaped(whole, src) is not None:
            return True
    return isinstance(node, cst.Integer) or (has_kind(node, {"int"}, src) and is_local(node, src))


def surely_number(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) 0.5, float(x), x.item(), len(x); a variable that holds it"""
    made = resolved(node, src)
    if isinstance(made, cst.Call):
        converted = src.name(made.func) in GIVES_NUMBER and is_local(made.func, src)
        return converted or method_of(made) == "item" or surely_int(made, src)
    return surely_int(made, src) or (
        has_kind(made, {"int", "float", "bool"}, src) and is_local(made, src)
    )


def has_kind(node: cst.BaseExpression, kinds: set[str], src: Source) -> bool:
    """Whether a value is one of the host, of one of these kinds, in the calls that are seen."""
    value = src.value(node)
    return bool(value) and all(isinstance(each, Host) and each.kind in kinds for each in value)
