"""The texts of the code around a place, and of the code that a call runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint import CalledTexts, FunctionTexts, View
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Evidence, Source


def called_texts(call: View | cst.Call, src: Source | None = None) -> Sequence[str]:
    """The texts of the functions of the project that a call runs, a few calls deep.

    `src`: the file of a LibCST node; a View knows its own.
    """
    if isinstance(call, View):
        return call.ask(CalledTexts) or ()
    return (src.ask(CalledTexts, call) if src is not None else None) or ()


def text_around(evidence: Evidence, at: View | Source) -> str:
    """The text of the innermost function in which evidence stands, in whatever file."""
    return at.fact(FunctionTexts).around(evidence.place)
