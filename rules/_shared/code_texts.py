"""The texts of the code around a place, and of the code that a call runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import FunctionTexts, View

if TYPE_CHECKING:
    from amplint import Evidence, Source


def text_around(evidence: Evidence, at: View | Source) -> str:
    """The text of the innermost function in which evidence stands, in whatever file."""
    return at.fact(FunctionTexts).around(evidence.place)
