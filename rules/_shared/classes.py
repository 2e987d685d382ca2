"""The class around a place, its methods and its bases."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source, View

AUTOGRAD_FUNCTION = "torch.autograd.Function"
# Decorators of its methods that do nothing about dtypes or regions.
PLAIN = frozenset({"staticmethod", "once_differentiable"})


def is_plain(method: cst.FunctionDef, src: Source) -> bool:
    """Whether the decorators of a method of such a Function leave dtypes and regions alone."""
    decorators = {src.text(each.decorator).rpartition(".")[2] for each in method.decorators}
    return decorators <= PLAIN


def _method_beside(at: View, name: str) -> ast.FunctionDef | None:
    """The method of a name that the class around a place defines."""
    cls = at.source.class_around(at.cst)
    for statement in cls.body if cls is not None else ():
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return statement
    return None


def passes_around(at: View) -> tuple[cst.FunctionDef, cst.FunctionDef] | None:
    """`forward` and `backward` of an `autograd.Function`, for a place in `forward`."""
    if at.function.name != "forward" or AUTOGRAD_FUNCTION not in at.bases:
        return None
    forward, written = at.source.function(at.cst), _method_beside(at, "backward")
    backward = at.source.layout.node_for(written) if written is not None else None
    if isinstance(forward, cst.FunctionDef) and isinstance(backward, cst.FunctionDef):
        return forward, backward
    return None


def constructor_around(at: View) -> Sequence[ast.stmt]:
    """The statements of the `__init__` of the class around a place; none without one."""
    constructor = _method_beside(at, "__init__")
    return constructor.body if constructor is not None else ()
