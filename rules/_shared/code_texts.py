"""The texts of the code around a place, and of the code that a call runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import FunctionTexts

if TYPE_CHECKING:
    from amplint import Evidence, View


def text_around(evidence: Evidence, at: View) -> str:
    """The text of the innermost function in which evidence stands, in whatever file."""
    return at.fact(FunctionTexts).around(evidence.place)
