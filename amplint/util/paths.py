"""Paths as amplint writes them: with forward slashes, on Windows too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

Answer = TypeVar("Answer")


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


def inherited(
    directory: str, answers: dict[str, Answer], own: Callable[[str], Answer | None], top: Answer
) -> Answer:
    """The answer of the nearest directory upward that has one of its own.

    Args:
        directory: the one that is asked about.
        answers: the answers so far; those of the directories on the way are added.
        own: returns the answer of one directory, None where it has none.
        top: the answer where none of them has one.
    """
    passed: list[str] = []
    answer = top
    for each in upward(directory):
        if each in answers:
            answer = answers[each]
            break
        passed.append(each)
        own_answer = own(each)
        if own_answer is not None:
            answer = own_answer
            break
    answers.update(dict.fromkeys(passed, answer))
    return answer


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
