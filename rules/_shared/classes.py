"""The class around a node, its methods and its bases."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint import Classes
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

AUTOGRAD_FUNCTION = "torch.autograd.Function"


def method_beside(node: cst.CSTNode, name: str, src: Source) -> ast.FunctionDef | None:
    """The method of a name that the class around a node defines."""
    cls = src.class_around(node)
    for statement in cls.body if cls is not None else ():
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return statement
    return None


def constructor_around(node: cst.CSTNode, src: Source) -> Sequence[ast.stmt]:
    """The statements of the `__init__` of the class around a node; none without one."""
    constructor = method_beside(node, "__init__", src)
    return constructor.body if constructor is not None else ()


def bases_around(node: cst.CSTNode, src: Source) -> frozenset[str]:
    """The library classes that the class around a node derives from."""
    cls = src.class_id(src.class_around(node))
    return src.fact(Classes).library_bases(cls) if cls is not None else frozenset()
