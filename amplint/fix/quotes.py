"""Write the strings of fixes in the quotes that a file has."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from amplint.findings.finding import Edit
from amplint.util.text import Text

# Ex) "cuda:0", and a line with a comment, whose words stay
WRITTEN = re.compile(r'^[ \t]*#.*|"(?P<word>[\w.:]*)"', re.MULTILINE)
PLAIN = re.compile(r"""[a-zA-Z]*(["'])(?!\1\1)[^"'\\]*\1""")
IN_STRING = re.compile(r"""\b[fFrRtT]{1,2}'""")
LEAST, MOSTLY = 3, 0.9  # strings, and their part of all, that show a style


def in_quotes(text: Text, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits of a file, with single quotes around what they write if nearly all of its strings
    have them."""
    edits = tuple(edits)
    if not any('"' in edit.text for edit in edits) or not _has_single_quotes(text.text):
        return edits
    return tuple(_requoted(text, edit) for edit in edits)


def _has_single_quotes(text: str) -> bool:
    quotes: Counter[str] = Counter()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            plain = PLAIN.fullmatch(token.string) if token.type == tokenize.STRING else None
            if plain:  # not a docstring, and no string whose quotes keep off those within
                quotes[plain.group(1)] += 1
    except (tokenize.TokenError, SyntaxError):
        return False
    return quotes["'"] >= LEAST and quotes["'"] >= MOSTLY * quotes.total()


def _requoted(text: Text, edit: Edit) -> Edit:
    """The edit with other quotes around strings that its lines did not hold before.

    None are changed on a line with an f-string in single quotes, which may hold the edit: before
    Python 3.12 it cannot hold the same quotes.
    """
    first, last = (text.position(offset).row for offset in (edit.start, edit.end))
    lines = [text.line(row) for row in range(first, last + 1)]
    if any(IN_STRING.search(line) for line in lines):
        return edit

    def single(match: re.Match[str]) -> str:
        word = match["word"]
        stays = word is None or any(match.group() in line for line in lines)
        return match.group() if stays else f"'{word}'"

    return replace(edit, text=WRITTEN.sub(single, edit.text))
