"""The class around a place, its methods and its bases."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint import Classes
from amplint import libcst as cst

from .guards import written

if TYPE_CHECKING:
    from amplint import Source, View

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


def is_in_backward(at: View) -> bool:
    """Whether the function around a place is the `backward` of an autograd function."""
    return at.function.name == "backward" and AUTOGRAD_FUNCTION in at.bases


# ------------------------------------------------------------ for rules that judge LibCST nodes


def bases_around(node: cst.CSTNode, src: Source) -> frozenset[str]:
    """The library classes that the class around a node derives from."""
    cls = src.class_id(src.class_around(node))
    return src.fact(Classes).library_bases(cls) if cls is not None else frozenset()
