"""Paths as amplint writes them: with forward slashes, on Windows too."""

from __future__ import annotations

import os


def slashes(path: str) -> str:
    return path.replace(os.sep, "/")


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
