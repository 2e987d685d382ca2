"""Places in files: as users count, and as `ast` does."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """A place in decoded text: both 1-based, the column counted in characters."""

    row: int
    column: int


class Span(NamedTuple):
    """A stretch of decoded text; `end` is exclusive."""

    start: Position
    end: Position


class Place(NamedTuple):
    """A node's place in a file, as `ast` counts: rows from 1, columns in UTF-8 bytes from 0."""

    path: str
    row: int
    column: int
    end_row: int
    end_column: int
