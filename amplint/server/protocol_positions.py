"""Places in a text: rows and characters here, lines and code units in an editor.

An editor counts lines from 0 and, within a line, code units of an encoding that it agrees on with
the server: of UTF-16 unless it says otherwise, where a character beyond U+FFFF has two.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from amplint.util.positions import Position, Span
from amplint.util.text import Text

Encoding = Literal["utf-8", "utf-16", "utf-32"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)


class EditorPlace(NamedTuple):
    """A place as editors count."""

    line: int
    character: int


class Range(NamedTuple):
    """A stretch of text as editors count; the end is exclusive."""

    start: EditorPlace
    end: EditorPlace


def units(text: str, encoding: Encoding) -> int:
    """How many code units a text has."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-16":
        return len(text) + sum(character > "\uffff" for character in text)
    return len(text.encode("utf-8", "surrogatepass"))


def characters(text: str, count: int, encoding: Encoding) -> int:
    """How many characters of the text the first code units are; one that is cut does not count."""
    if encoding == "utf-32" or text[:count].isascii():
        return min(count, len(text))
    size = 0
    for number, character in enumerate(text):
        size += units(character, encoding)
        if size > count:
            return number
    return len(text)


def place_of(text: Text, position: Position, encoding: Encoding) -> EditorPlace:
    """The place of a position."""
    row, column = position
    return EditorPlace(row - 1, units(text.line(row)[: column - 1], encoding))


def range_of(text: Text, span: Span, encoding: Encoding) -> Range:
    """The range of a span."""
    return Range(place_of(text, span.start, encoding), place_of(text, span.end, encoding))


def range_between(text: Text, start: int, end: int, encoding: Encoding) -> Range:
    """The range between two offsets."""
    return range_of(text, Span(text.position(start), text.position(end)), encoding)


def offset_of(text: Text, place: EditorPlace, encoding: Encoding) -> int:
    """The offset of a place. One behind the end of its line means that end, as the protocol has
    it, and one behind the last line means the end of the text."""
    row = place.line + 1
    return text.start(row) + characters(text.line(row), place.character, encoding)
