"""News of a run that is not done: for who shows findings as they come, or has to end the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from amplint.project.reading import Reading
from amplint.run.filtering import Filter
from amplint.run.seen import Seen


@dataclass(frozen=True)
class Begun:
    """All files are read.

    Args:
        reading: what is in them.
        filter: decides what is reported of them.
        undecoded: what is said of those that are no text, and of cells that are no Python.
    """

    reading: Reading
    filter: Filter
    undecoded: Mapping[str, Seen]


@dataclass(frozen=True)
class Divided:
    """The project is linked in this number of parts."""

    parts: int


@dataclass(frozen=True)
class Indexed:
    """A part is indexed: its first file, and those of its files that could not be read."""

    part: str
    unread: frozenset[str]


@dataclass(frozen=True)
class Judged:
    """All that the analysis says of a file is known."""

    path: str
    seen: Seen
