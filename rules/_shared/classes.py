"""The class around a place, its methods and its bases."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint import View

AUTOGRAD_FUNCTION = "torch.autograd.Function"


def method_beside(at: View, name: str) -> ast.FunctionDef | None:
    """The method of a name that the class around a place defines."""
    cls = at.source.class_around(at.cst)
    for statement in cls.body if cls is not None else ():
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return statement
    return None


def constructor_around(at: View) -> Sequence[ast.stmt]:
    """The statements of the `__init__` of the class around a place; none without one."""
    constructor = method_beside(at, "__init__")
    return constructor.body if constructor is not None else ()
