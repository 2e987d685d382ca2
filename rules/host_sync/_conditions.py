"""Conditions: the expressions whose truth is asked for, and what is asked together with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import READ, Tensor, TensorTree
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import View

BOOL = "builtins.bool"
SIZE = re.compile(r"\.shape\b|\.(size|numel|dim)\(|\blen\(")


def tested_by_bool(at: View) -> View | None:
    """Ex) x of bool(x)"""
    arguments = [each for _, _, each in at.arguments if each.op != "starred"]
    return arguments[0] if len(arguments) == 1 and at.callee == BOOL else None


def others_asked(test: View) -> tuple[list[View], list[View]]:
    """The other parts of a condition that are tested, before an expression and after it."""
    parts = list(_asked_in(condition(test)))
    earlier = [each for each in parts if each.span.end <= test.span.start]
    return earlier, [each for each in parts if each.span.start >= test.span.end]


def condition(test: View) -> View:
    """The whole of what stands around an expression and does nothing but ask for truths."""
    whole = test
    for node in test.source.ancestors(test.cst):
        around = test.of(node)
        joins = isinstance(node, cst.BooleanOperation)  # of `a and b and c`, two are one operation
        if joins or is_not(around) or tested_by_bool(around) is not None:
            whole = around
        elif not isinstance(node, cst.Arg):
            break
    return whole


def _asked_in(whole: View) -> Iterator[View]:
    """The expressions whose truth a condition asks for: both `a` and `b` of `not a or bool(b)`."""
    is_tested = getattr(whole.source.parent(whole.cst), "test", None) is whole.cst
    stack = [(whole, is_tested)]
    while stack:
        at, is_tested = stack.pop()
        inner = at.operands[0] if is_not(at) else tested_by_bool(at)
        if at.op == "bool":
            *others, last = at.operands
            stack += [(last, is_tested), *((each, True) for each in reversed(others))]
        elif inner is not None:
            stack.append((inner, True))
        elif is_tested:
            yield at


def is_not(at: View) -> bool:
    return at.op == "unary" and at.operator == "Not"


def may_be_size(test: View, tensor: Tensor | TensorTree) -> bool:
    """Whether what is tested may be a size, which a tensor of the CPU holds: `if channels`,
    `x.shape[1] == channels`. Asked only where nothing says where the tensor lives."""
    if test.op == "compare":
        return test.operators[0] in ("Eq", "NotEq") and SIZE.search(test.text) is not None
    return test.op in (READ, "name") and isinstance(tensor, Tensor) and tensor.dtype is None


def last_operand(at: View) -> View:
    """The last operand of an `and` or `or` that may be a tensor: its truth is that of the whole,
    unless one before it, whose truth was asked there, has decided the matter. Else the expression
    itself."""
    while at.op == "bool" and any(isinstance(atom, Tensor) for atom in at.value):
        at = at.operands[-1]
    return at
