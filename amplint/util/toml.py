"""TOML: of the standard library from Python 3.11 on, and of tomli before."""

from __future__ import annotations

import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    # Installed below 3.11 alone, so that elsewhere mypy does not find it.
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

MOST_PARTS = 100  # of a key: what both libraries take for one is the square of it
STRING = re.compile(r"""\"(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
PART = re.compile(r"[ \t]*[\w-]+[ \t]*")


def loads(text: str) -> dict[str, Any]:
    """A document. Raises ValueError where it is not valid, and RecursionError where tables or keys
    are nested too deeply."""
    if any(has_long_key(line) for line in text.split("\n") if line.count(".") > MOST_PARTS):
        raise RecursionError
    document: dict[str, Any] = tomllib.loads(text)
    return document


def has_long_key(line: str) -> bool:
    """Whether a line has a key of too many parts; it may be a comment that looks like one."""
    run = 0
    for part in STRING.sub("x", line).split("."):
        run = run + 1 if PART.fullmatch(part) else 0
        if run > MOST_PARTS:
            return True
    return False
