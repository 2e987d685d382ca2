"""Modules that a constructor casts to half on one kind of device alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from amplint import HALF, ProjectText
from amplint.knowledge.vocabulary import ASKS_DEVICE

from .classes import constructor_around

if TYPE_CHECKING:
    from amplint import View

CASTS = frozenset({"half", "bfloat16", "float", "double", "type", "apply"})
SAYS_DTYPE = ("dtype", "float", "double", *HALF)


def half_by_device(module: View) -> ast.If | None:
    """The `if` that asks for the device and holds the only cast of a module, to half, where that is
    a field of an object.

    Ex) if self.device == "cuda": self.model = self.model.half()
    """
    cls, constructor = module.source.class_around(module.cst), constructor_around(module)
    if cls is None or module.fact(ProjectText).is_stored_from_outside(module.method):
        return None
    casts = [*_casts(cls.body, module.text)]
    asking = [each for each in constructor if isinstance(each, ast.If) and not each.orelse]
    held = [each for each in asking if [*_casts(each.body, module.text)] == casts]
    if len(casts) != 1 or not casts[0].endswith(".half()") or len(held) != 1:
        return None
    [found] = held
    others = (node for each in constructor if each is not found for node in ast.walk(each))
    leaves = any(isinstance(node, ast.Raise | ast.Assert) for node in others)
    return found if ASKS_DEVICE.search(ast.unparse(found.test)) and not leaves else None


def _casts(statements: Sequence[ast.stmt], field: str) -> Iterator[str]:
    """The expressions that may cast a field, or put into it what has been cast, or may be."""
    for node in (node for each in statements for node in ast.walk(each)):
        if isinstance(node, ast.Call):
            text, given = ast.unparse(node), [*node.args, *(each.value for each in node.keywords)]
            is_own = _method(node) != "" and text.startswith(f"{field}.")
            is_cast = is_own and (
                _method(node) in CASTS or any(word in text for word in SAYS_DTYPE)
            )
            if is_cast or any(ast.unparse(each) == field for each in given):
                yield text
        elif isinstance(node, ast.Assign) and any(ast.unparse(t) == field for t in node.targets):
            text = ast.unparse(node.value)
            if not text.startswith(field) and any(word in text for word in SAYS_DTYPE):
                yield text


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
