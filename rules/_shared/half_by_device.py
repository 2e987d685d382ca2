"""Modules that a constructor casts to half on one kind of device alone."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from amplint import ProjectText
from amplint.knowledge.vocabulary import ASKS_DEVICE

from .classes import constructor_around

if TYPE_CHECKING:
    from amplint import View

# A cast of a field, or a call that is given it and may cast it.
CAST = r"{0}(\.| =).*(half|float|double|dtype|type\(|apply\()|[(,] ?{0}[,)]"


def half_by_device(module: View) -> ast.If | None:
    """The `if` that asks for the device and holds the only cast of a module, to half, where that is
    a field of an object.

    Ex) if self.device == "cuda": self.model = self.model.half()
    """
    cls, constructor = module.source.class_around(module.cst), constructor_around(module)
    if cls is None or module.fact(ProjectText).is_stored_from_outside(module.method):
        return None
    field = CAST.format(re.escape(module.text))
    casts = [line.strip() for line in ast.unparse(cls).splitlines() if re.search(field, line)]
    if len(casts) != 1 or not casts[0].endswith(".half()"):
        return None
    needs_it = re.search(r"\b(raise|assert)\b", "\n".join(map(ast.unparse, constructor)))
    tests = (each for each in constructor if isinstance(each, ast.If) and not each.orelse)
    asking = (each for each in tests if ASKS_DEVICE.search(ast.unparse(each.test)))
    holding = (each for each in asking if casts[0] in map(ast.unparse, each.body))
    return next(holding, None) if needs_it is None else None
