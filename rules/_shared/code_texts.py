"""The texts of the code around a place, and of the code that a call runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint import CalledTexts, FunctionTexts
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Evidence, Source


def called_texts(call: cst.Call, src: Source) -> Sequence[str]:
    """The texts of the functions of the project that a call runs, a few calls deep."""
    return src.ask(CalledTexts, call) or ()


def text_around(evidence: Evidence, src: Source) -> str:
    """The text of the innermost function in which evidence stands, in whatever file."""
    return src.fact(FunctionTexts).around(evidence.place)
