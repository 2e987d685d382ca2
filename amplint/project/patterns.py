"""Patterns as in .gitignore, so that none takes long over a name.

`pathspec` makes a regular expression of each. One with many stars, such as `*a*a*a*a*a*b`, tries
all ways to divide a name among them: a repository with one such line and a file of a long name
would hang. Here each star but the last takes the first place that fits, which is as good as any
other one, since the next star takes what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count

import pathspec

STAR = r"\[\^/\]\*"
ONE = r"(?:\\[^/]|\[\^/\](?!\*)|\[(?!\^/\])\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\](){}|*+?$^/.])"
STARS = re.compile(rf"(?:{STAR})+(?P<then>{ONE}+?)(?={STAR})")
LEVELS = r"\(\?:/\.\+\)\?/"  # of `/**/`
DEEP = re.compile(rf"{LEVELS}(?P<then>(?:(?!{LEVELS}).)+)(?={LEVELS})")


def spec(lines: Iterable[str]) -> pathspec.GitIgnoreSpec:
    """The patterns of these lines; a line that is none means nothing, as to git."""
    patterns = (one for line in lines if (pattern := parsed(line)) for one in pattern.patterns)
    return pathspec.GitIgnoreSpec(
        type(one)(re.compile(quick(one.regex.pattern)), one.include)
        if one.regex is not None and needs_care(one.regex.pattern)
        else one
        for one in patterns
    )


def is_pattern(line: str) -> bool:
    """Whether a line is a pattern, or says by itself that it is none: empty, or a comment."""
    pattern = parsed(line)
    if pattern is None:
        return False
    says_so = not line.strip() or line.startswith("#")
    return says_so or any(one.regex is not None for one in pattern.patterns)


def parsed(line: str) -> pathspec.GitIgnoreSpec | None:
    """The pattern of a line; None where `pathspec` refuses it, as with `a\\` and `[z-a]`. (Of a
    bracket without its end it makes a pattern without an expression.)"""
    try:
        return pathspec.GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return None


def needs_care(expression: str) -> bool:
    """Whether there are several stars among which a name can be divided."""
    return expression.count("[^/]*") > 1 or expression.count("(?:/.+)?/") > 1


def quick(expression: str) -> str:
    """The expression of a pattern, where stars try no second place."""
    numbers = count()

    def first(name: str, before: str, then: str) -> str:
        # Python 3.10 has no atomic groups; what a lookahead has found is not tried anew either.
        group = f"{name}{next(numbers)}"
        return f"(?=(?P<{group}>{before}{then}))(?P={group})"

    expression = STARS.sub(lambda match: first("star", "[^/]*?", match["then"]), expression)
    return DEEP.sub(lambda match: first("deep", "(?:/.+?)??/", match["then"] + "(?=/)"), expression)
