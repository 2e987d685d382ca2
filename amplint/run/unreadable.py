"""Files that could not be indexed: by Python's fault, or by amplint's."""

from __future__ import annotations

import platform

from amplint.claim import selectors
from amplint.claim.finding import Cost, Finding
from amplint.cst.newer_syntax import Newer, newer_syntax
from amplint.rule.of_engine import UNPARSABLE
from amplint.run.seen import Seen
from amplint.util.errors import describe
from amplint.util.positions import Position, Span
from amplint.util.text import SAVE_AS_UTF8, why_python_refuses


def why_unread(
    path: str, text: str, error: Exception, lowest: tuple[str, str] | None = None
) -> Seen:
    """The result for a file that could not be indexed: by Python's fault, or by amplint's.

    Args:
        lowest: see `Task.lowest_python`.
    """
    refusal = why_python_refuses(text)
    if refusal is None:
        return Seen(problems=(f"{path}: amplint cannot read it: {describe(error)}",))
    newer = newer_syntax(text)
    remedy = SAVE_AS_UTF8 if "\0" in text else ""
    finding = unparsable(path, *refusal, newer=newer, lowest=lowest, remedy=remedy)
    return Seen(findings=(finding,))


PYTHON = f"Python {'.'.join(platform.python_version_tuple()[:2])}"


def unparsable(
    path: str,
    at: Position,
    reason: str,
    what: str = "file",
    newer: Newer | None = None,
    lowest: tuple[str, str] | None = None,
    remedy: str = "",
) -> Finding:
    """The finding of what Python cannot read.

    Args:
        newer: the syntax in it that the running Python does not read.
        lowest: see `Task.lowest_python`.
        remedy: what to do, where it is not the syntax that is wrong.
    """
    message, advice = f"{PYTHON} cannot read this {what}: {reason}", remedy or UNPARSABLE.help
    if newer is not None:
        needs = f"{newer.what} needs {version_of(newer)}"
        message = f"this {what} is not checked: amplint runs on {PYTHON}, and {needs}"
        advice = f"run amplint with {advised(newer, lowest)}"
    return Finding(
        code=UNPARSABLE.code,
        name=UNPARSABLE.name,
        group=UNPARSABLE.group,
        path=path,
        span=Span(at, at),
        message=message,
        help=advice,
        cost=Cost.RUN,
        url=UNPARSABLE.url,
    )


def advised(newer: Newer, lowest: tuple[str, str] | None) -> str:
    """The Pythons to run amplint with: those that the project allows, if that is said."""
    if lowest is None or selectors.version(lowest[0])[:2] <= newer.python:
        return f"{version_of(newer)} or later"
    return f"Python {lowest[0]} or later, which {lowest[1]} asks for"


def version_of(newer: Newer) -> str:
    """The first Python that reads it. Ex) Python 3.14"""
    return f"Python {'.'.join(map(str, newer.python))}"
