"""The values of literals, which need no inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.util.lazy import LazyModule
from amplint.values.atoms import Host

if TYPE_CHECKING:
    import libcst as cst
else:
    cst = LazyModule("libcst")


def literal(node: cst.CSTNode) -> Host | None:
    """The value of a literal. Its node has no counterpart in `ast`."""
    if isinstance(node, cst.Integer):
        return Host("int", node.evaluated_value, True)
    if isinstance(node, cst.Float):
        return Host("float", node.evaluated_value, True)
    if isinstance(node, cst.SimpleString):
        text = node.evaluated_value
        return Host("str", text, True) if isinstance(text, str) else None
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        return Host("bool", node.value == "True", True)
    if isinstance(node, cst.Name) and node.value == "None":
        return Host("none", None, True)
    if isinstance(node, (cst.FormattedString, cst.ConcatenatedString)):
        return Host("str")
    return None
