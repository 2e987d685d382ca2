"""Code that is there for another version of torch, and must stay as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from amplint.source import Source

# What a test of the version, or of whether a name is there, says.
ASKS_VERSION = re.compile(r"version|hasattr\(|getattr\(|\bparse\(", re.IGNORECASE)
MISSING_NAME = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"})


def is_fallback(node: cst.CSTNode, src: Source) -> bool:
    """Whether the node runs only on a torch that lacks a name, or has it.

    Ex) try: torch.amp.GradScaler("cuda") except AttributeError: <node>
    """
    for ancestor in src.ancestors(node):
        if isinstance(ancestor, cst.ExceptHandler):
            if ancestor.type is None or MISSING_NAME & set(
                re.findall(r"\w+", src.text(ancestor.type))
            ):
                return True
        elif isinstance(ancestor, cst.If | cst.IfExp) and ASKS_VERSION.search(
            src.text(ancestor.test)
        ):
            return True
    return False
