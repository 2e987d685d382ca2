"""What callers may pass for a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from amplint import Source


def is_given(node: cst.CSTNode, src: Source) -> bool:
    """Whether a dotted name begins with a parameter, or a variable that was set to one: then
    callers that are not seen may have it be something else.

    Ex) amp.autocast of `def embed(x, amp): ...`, self.scaler_class, getattr(amp, "autocast")
    """
    while isinstance(node, cst.Attribute):
        node = node.value
    if isinstance(node, cst.Call):
        return any(is_given(arg.value, src) for arg in node.args)
    if not isinstance(node, cst.Name):
        return False
    origin = src.origin(node)
    named = isinstance(origin, cst.Name | cst.Attribute)
    return src.parameter(node) is not None or (
        named and origin is not node and origin is not None and is_given(origin, src)
    )
