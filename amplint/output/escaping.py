"""Names and messages as a line of a terminal or of a log: nothing in them is acted upon.

Both come from the code under analysis: a file may be called anything that the system allows, and a
message quotes code.
"""

from __future__ import annotations

import unicodedata

BIDIRECTIONAL = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
COMMAND = "::"  # begins a line that GitHub Actions acts upon, whatever printed it


def printable(text: str) -> str:
    """The text with a mark in the place of every control character: source may hold escapes."""
    if text.isprintable():
        return text
    return "".join("\N{REPLACEMENT CHARACTER}" if is_control(c) else c for c in text)


def printable_lines(text: str) -> str:
    """The same of a text that may have several lines."""
    return "\n".join(map(printable, text.split("\n")))


def is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in BIDIRECTIONAL


def place(path: str, row: int, column: int) -> str:
    """A place as it is written at the beginning of a line: `src/train.py:3:14`."""
    shown = printable(path)
    if shown.lstrip().startswith(COMMAND):
        shown = f"./{shown}"
    return f"{shown}:{row}:{column}"
