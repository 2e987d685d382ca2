"""Values of expressions that hold for every caller of the function around them.

`View.value` joins the calls that are seen. A safe fix must hold for all others, too: a function
that is given an int in every call of the project may be given a tensor by its users.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Host, reachable
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source, View

GIVES_INT = frozenset({"builtins.int", "builtins.len"})
INT_METHODS = frozenset({"dim", "nelement", "ndimension", "numel"})


def is_local(at: View) -> bool:
    """Whether the value of an expression rests on nothing that a caller passes.

    Each variable that it is computed from certainly holds one expression of the same function, or
    is bound by the module alone.

    Ex) n of `n = 2 * len(NAMES)`; not of `def f(n):`, `for n in rows:`, nor `self.n`
    """
    source = at.source
    return all(
        definition(name, source) is not None or source.variables.is_fixed(name)
        for part in reachable([at.cst], lambda part: _definitions(part, source))
        for name in _variables(part)
    )


def _definitions(node: cst.CSTNode, src: Source) -> Iterator[cst.BaseExpression]:
    """The expressions that the variables in an expression certainly hold."""
    for name in _variables(node):
        expression = definition(name, src)
        if expression is not None:
            yield expression


def definition(node: cst.CSTNode, src: Source) -> cst.BaseExpression | None:
    """The expression that a variable of the function or of the module certainly holds."""
    if not isinstance(node, cst.Name):
        return None
    return src.variables.origin(node) or src.variables.global_value(node)


def resolved(at: View) -> View:
    """The expression behind a variable, or behind one that holds another."""

    def definitions(part: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
        expression = definition(part, at.source)
        return () if expression is None else (expression,)

    return at.of(list(reachable([at.cst], definitions))[-1])


def _variables(node: cst.CSTNode) -> Iterator[cst.Name]:
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


def is_surely_int(at: View) -> bool:
    """Ex) 3, len(x), x.size(0), x.shape[0] + 1; a variable that holds it"""
    return all(
        _operands_of_int(part, at.source) or _gives_int(at.of(part))
        for part in reachable([at.cst], lambda part: _operands_of_int(part, at.source))
    )


def _operands_of_int(node: cst.BaseExpression, source: Source) -> tuple[cst.BaseExpression, ...]:
    """The parts that must be ints for the expression to be one."""
    keep_ints = (cst.Add, cst.Subtract, cst.Multiply, cst.FloorDivide, cst.Modulo)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, keep_ints):
        return (node.left, node.right)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus | cst.Plus):
        return (node.expression,)
    expression = definition(node, source)
    return () if expression is None else (expression,)


def _gives_int(at: View) -> bool:
    """Ex) 3, len(x), x.size(0), x.shape[-1], x.ndim, n of `n, m = x.shape`"""
    if at.op == "call":
        if at.method in INT_METHODS or (at.method == "size" and len(at.operands) == 2):
            return True
        return at.callee in GIVES_INT and is_local(at.called)
    if at.op == "subscript":
        whole, index = at.operands
        return index.op not in ("slice", "tuple") and shaped(whole) is not None
    if at.op == "attr" and at.method == "ndim":
        return True
    if isinstance(at.cst, cst.Name):
        parts = at.source.variables.unpacked(at.cst)
        if parts is not None and shaped(at.of(parts)) is not None:
            return True
    is_int = bool(at.value) and all(isinstance(a, Host) and a.kind == "int" for a in at.value)
    return is_int and is_local(at)


def shaped(at: View) -> View | None:
    """The tensor that a shape, or a part of it, is of: x of x.shape, x.size() and x.shape[1:]"""

    def operand(part: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
        if isinstance(part, cst.Subscript):
            a_slice = len(part.slice) == 1 and isinstance(part.slice[0].slice, cst.Slice)
            return (part.value,) if a_slice else ()
        expression = definition(part, at.source)
        return () if expression is None else (expression,)

    whole = at.of(list(reachable([at.cst], operand))[-1])
    is_shape = whole.op == "attr" and whole.method == "shape"
    is_size = whole.op == "call" and whole.method == "size" and len(whole.operands) == 1
    return whole.receiver if is_shape or is_size else None
