"""Files that could not be indexed: by Python's fault, or by amplint's."""

from __future__ import annotations

import sys

from amplint.findings.finding import Cost, Finding
from amplint.rule.of_engine import UNPARSABLE
from amplint.run.file_result import FileResult
from amplint.util.errors import describe
from amplint.util.positions import Position, Span
from amplint.util.text import SAVE_AS_UTF8, why_python_refuses


def why_unread(path: str, text: str, error: Exception) -> FileResult:
    """The result for a file that could not be indexed: by Python's fault, or by amplint's."""
    refusal = why_python_refuses(text)
    if refusal is None:
        return FileResult(problems=(f"{path}: amplint cannot read it: {describe(error)}",))
    remedy = SAVE_AS_UTF8 if "\0" in text else ""
    return FileResult(findings=(unparsable(path, *refusal, remedy=remedy),))


PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"


def unparsable(
    path: str, at: Position, reason: str, what: str = "file", remedy: str = ""
) -> Finding:
    """The finding of what Python cannot read.

    Args:
        remedy: what to do, where it is not the syntax that is wrong.
    """
    return Finding(
        code=UNPARSABLE.code,
        name=UNPARSABLE.name,
        group=UNPARSABLE.group,
        path=path,
        span=Span(at, at),
        message=f"{PYTHON} cannot read this {what}: {reason}",
        help=remedy or UNPARSABLE.help,
        cost=Cost.RUN,
        url=UNPARSABLE.url,
    )
