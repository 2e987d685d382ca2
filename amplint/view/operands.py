"""The expressions that the operands of a node are written as."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from amplint.ir.ssa import handed_on

Parts = Sequence[ast.expr | None]
# By kind of expression or statement: its parts, in the order that the operands of its node have
# (`ir.ops`).
PARTS: Mapping[type[ast.AST], Callable[[Any], Parts]] = {
    ast.AnnAssign: lambda s: [s.annotation],
    ast.Assert: lambda s: [s.test],
    ast.Attribute: lambda e: [e.value],
    ast.AugAssign: lambda s: [s.target, s.value],
    ast.Await: lambda e: [e.value],
    ast.BinOp: lambda e: [e.left, e.right],
    ast.BoolOp: lambda e: e.values,
    ast.Call: lambda e: [e.func, *e.args, *(keyword.value for keyword in e.keywords)],
    ast.Compare: lambda e: [e.left, *e.comparators],
    ast.Dict: lambda e: e.values,
    ast.DictComp: lambda e: [p for p in (e.key, e.value, handed_on(e)) if p is not None],
    ast.GeneratorExp: lambda e: [e.elt],
    ast.IfExp: lambda e: [e.body, e.orelse],
    ast.JoinedStr: lambda e: [v.value for v in e.values if isinstance(v, ast.FormattedValue)],
    ast.List: lambda e: e.elts,
    ast.ListComp: lambda e: [e.elt],
    ast.Raise: lambda s: [part for part in (s.exc, s.cause) if part is not None],
    ast.Return: lambda s: [s.value],
    ast.Set: lambda e: e.elts,
    ast.SetComp: lambda e: [e.elt],
    ast.Slice: lambda e: [part for part in (e.lower, e.upper, e.step) if part is not None],
    ast.Starred: lambda e: [e.value],
    ast.Subscript: lambda e: [e.value, e.slice],
    ast.Tuple: lambda e: e.elts,
    ast.UnaryOp: lambda e: [e.operand],
    ast.Yield: lambda e: [e.value],
}


def parts_of(thing: ast.AST) -> Parts:
    """The parts of an expression or a statement, one for each operand of its node; none where it
    has no parts that are operands. Behind them, the nodes of `x[i] = y` and `x.a = y` have an
    operand that is no part of `x[i]` and `x.a`."""
    while isinstance(thing, ast.NamedExpr):
        thing = thing.value
    parts = PARTS.get(type(thing))
    return parts(thing) if parts is not None else ()
