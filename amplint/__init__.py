"""The names that an author of rules uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.finding import Edit, Finding, Fix, Group, Position, Related, Safety, Span
from amplint.rule import (
    Differs,
    Dtype,
    Raises,
    Rule,
    Same,
    Syncs,
    Unrun,
    Warns,
    Witness,
)

if TYPE_CHECKING:
    from amplint.source import Source

__version__ = "0.1.0"

__all__ = [
    "Differs",
    "Dtype",
    "Edit",
    "Finding",
    "Fix",
    "Group",
    "Position",
    "Raises",
    "Related",
    "Rule",
    "Safety",
    "Same",
    "Source",
    "Span",
    "Syncs",
    "Unrun",
    "Warns",
    "Witness",
]


def __getattr__(name: str) -> object:
    # Lazy, because it brings LibCST along, which `amplint --help` does not need.
    if name == "Source":
        from amplint.source import Source  # noqa: PLC0415

        return Source
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
