"""Escape untrusted text for a terminal, a log or a report.

File names and messages come from the code under analysis: a file may be called anything that the
system allows, and a message quotes code.
"""

from __future__ import annotations

import unicodedata

# Embeddings, overrides and isolates, and the marks of a direction.
BIDIRECTIONAL = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
COMMAND = "::"  # begins a line that GitHub Actions acts upon, whatever printed it
OLD_COMMAND = "##["  # the same, wherever it stands in a line


def printable(text: str) -> str:
    """The text as a line of a terminal or of a log, without control characters and with commands of
    GitHub Actions taken apart."""
    text = without_controls(text)
    if text.lstrip().startswith(COMMAND):
        text = text.replace(COMMAND, ": :", 1)
    return taken_apart(text)


def without_controls(text: str) -> str:
    """The text with a mark in the place of every control character: source may hold escapes."""
    if text.isprintable():
        return text
    return "".join("\N{REPLACEMENT CHARACTER}" if is_control(c) else c for c in text)


def lines_without_controls(text: str) -> str:
    """The text, of several lines perhaps, with a mark in the place of every control character but
    the ends of lines."""
    return "\n".join(map(without_controls, text.split("\n")))


def taken_apart(text: str) -> str:
    """The text without what GitHub Actions acts upon wherever it stands in a line."""
    return text.replace(OLD_COMMAND, "## [")


def taken_apart_in_json(text: str) -> str:
    """JSON without what GitHub Actions acts upon. It reads as before: that stands in strings
    alone."""
    return text.replace(OLD_COMMAND, OLD_COMMAND.replace("[", "\\u005b"))


def printable_lines(text: str) -> str:
    """The text as lines of a terminal or of a log, without control characters and with commands of
    GitHub Actions taken apart."""
    return "\n".join(map(printable, text.split("\n")))


def is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in BIDIRECTIONAL


def place(path: str, row: int, column: int) -> str:
    """A place as it is written at the beginning of a line: `src/train.py:3:14`."""
    begins = path.lstrip().startswith(COMMAND)
    return f"{printable(f'./{path}' if begins else path)}:{row}:{column}"
