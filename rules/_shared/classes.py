"""The class around a place, its methods and its bases."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .guards import written

if TYPE_CHECKING:
    from amplint import Source

    from .guards import Place

AUTOGRAD_FUNCTION = "torch.autograd.Function"


def method_beside(at: Place, name: str, src: Source | None = None) -> ast.FunctionDef | None:
    """The method of a name that the class around a place defines."""
    node, src = written(at, src)
    cls = src.class_around(node)
    for statement in cls.body if cls is not None else ():
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return statement
    return None


def constructor_around(at: Place, src: Source | None = None) -> Sequence[ast.stmt]:
    """The statements of the `__init__` of the class around a place; none without one."""
    constructor = method_beside(at, "__init__", src)
    return constructor.body if constructor is not None else ()


# ------------------------------------------------------------ for rules that judge LibCST nodes
