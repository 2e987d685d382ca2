"""Paths as amplint writes them: with forward slashes, on Windows too."""

from __future__ import annotations

import os
from collections.abc import Iterator


def slashes(path: str) -> str:
    return path.replace(os.sep, "/")


def lies_in(path: str, directory: str) -> bool:
    """Whether a path, with forward slashes as the directory, is the directory or lies below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def parent_of(directory: str) -> str | None:
    """The directory above; None for the root of a file system."""
    parent = slashes(os.path.dirname(directory))  # noqa: PTH120  (hundreds are asked for)
    return None if parent == directory else parent


def upward(directory: str) -> Iterator[str]:
    """The directory and all above it, the nearest first."""
    above: str | None = directory
    while above is not None:
        yield above
        above = parent_of(above)


def join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def seen_from(directory: str | os.PathLike[str], path: str | os.PathLike[str]) -> str:
    """A path as it is written in a directory; in full where no way leads there, as from one drive
    of Windows to another."""
    try:
        return slashes(os.path.relpath(path, directory))
    except ValueError:
        return slashes(os.path.abspath(path))  # noqa: PTH100  (links are kept)


def without_drive(path: str) -> str:
    """A full path from the root of its drive; any other path as it is."""
    drive, below = os.path.splitdrive(path)
    return below.lstrip("/") if drive else path
