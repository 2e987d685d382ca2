"""Values of expressions that hold for every caller of the function around them.

`Source.value` joins the calls that are seen. A safe fix must hold for all others, too: a function
that is given an int in every call of the project may be given a tensor by its users.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Host, reachable
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

GIVES_INT = frozenset({"builtins.int", "builtins.len"})
GIVES_NUMBER = GIVES_INT | {"builtins.bool", "builtins.float"}
INT_METHODS = frozenset({"dim", "nelement", "ndimension", "numel"})


def is_local(node: cst.BaseExpression, src: Source) -> bool:
    """Whether the value of an expression rests on nothing that a caller passes.

    Each variable that it is computed from certainly holds one expression of the same function, or
    is bound by the module alone.

    Ex) n of `n = 2 * len(NAMES)`; not of `def f(n):`, `for n in rows:`, nor `self.n`
    """
    return all(
        definition(name, src) is not None or src.variables.is_fixed(name)
        for part in reachable([node], lambda part: definitions(part, src))
        for name in variables(part)
    )


def definitions(node: cst.BaseExpression, src: Source) -> Iterator[cst.BaseExpression]:
    """The expressions that the variables in an expression certainly hold."""
    for name in variables(node):
        made = definition(name, src)
        if made is not None:
            yield made


def definition(node: cst.BaseExpression, src: Source) -> cst.BaseExpression | None:
    """The expression that a variable of the function or of the module certainly holds."""
    if not isinstance(node, cst.Name):
        return None
    return src.origin(node) or src.variables.global_value(node)


def resolved(node: cst.BaseExpression, src: Source) -> cst.BaseExpression:
    """The expression behind a variable, or behind one that holds another."""

    def held(part: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
        made = definition(part, src)
        return () if made is None else (made,)

    return list(reachable([node], held))[-1]


def variables(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The names in an expression that stand for values: neither attributes nor keywords."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, cst.Name):
            yield current
        elif isinstance(current, cst.Attribute | cst.Arg):
            stack.append(current.value)
        else:
            stack.extend(current.children)


def surely_int(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) 3, len(x), x.size(0), x.shape[0] + 1; a variable that holds it"""
    return all(
        operands_of_int(part, src) or gives_int(part, src)
        for part in reachable([node], lambda part: operands_of_int(part, src))
    )


def operands_of_int(node: cst.BaseExpression, src: Source) -> tuple[cst.BaseExpression, ...]:
    """The parts that must be ints for the expression to be one."""
    keep_ints = (cst.Add, cst.Subtract, cst.Multiply, cst.FloorDivide, cst.Modulo)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, keep_ints):
        return (node.left, node.right)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus | cst.Plus):
        return (node.expression,)
    made = definition(node, src)
    return () if made is None else (made,)


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


def shaped(node: cst.BaseExpression, src: Source) -> cst.BaseExpression | None:
    """The tensor that a shape, or a part of it, is of: x of x.shape, x.size() and x.shape[1:]"""

    def operand(part: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
        if isinstance(part, cst.Subscript):
            a_slice = len(part.slice) == 1 and isinstance(part.slice[0].slice, cst.Slice)
            return (part.value,) if a_slice else ()
        made = definition(part, src)
        return () if made is None else (made,)

    whole = list(reachable([node], operand))[-1]
    if isinstance(whole, cst.Attribute) and whole.attr.value == "shape":
        return whole.value
    if isinstance(whole, cst.Call) and method_of(whole) == "size" and not whole.args:
        assert isinstance(whole.func, cst.Attribute)
        return whole.func.value
    return None


def method_of(node: cst.BaseExpression | None) -> str | None:
    """Ex) "tolist" of x.tolist()"""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value
    return None
