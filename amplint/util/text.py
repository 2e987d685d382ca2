"""A file's bytes as decoded text, and back: encoding, byte order mark, line ends, positions.

Of a notebook, a `Text` is the module that its cells make, and knows its way back to them: see
`project/notebooks.py`.

`Text.text` has every character of the file but the byte order mark, so that an edit by offset
leaves all else as it was. Lines end at \\n, \\r\\n and \\r only, as for Python itself;
`str.splitlines` would also split at form feeds and at U+2028.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from amplint.util.positions import Position, Span

if TYPE_CHECKING:
    from amplint.util.positions import Place

# Dense code takes a kilobyte of memory for each of its characters while it is analysed. The longest
# module of the packages that amplint is tried on has 1.4 million.
MOST_CHARACTERS = 4_000_000
SAVE_AS_UTF8 = "save it as UTF-8"
DEEPEST = 3_000  # levels of a tree: what Python 3.11 builds at the usual recursion limit
LINE_END = re.compile(r"\r\n|\r|\n")
# Comments and strings of several lines; other strings are named only to be passed over. What an
# f-string or a t-string holds is code, and so it is kept whatever its quotes are.
NOISE = re.compile(
    r"""
    \#[^\r\n]*
  | (?<![ft])(?<![ft]r)(?:'''(?:[^\\']|\\.|'(?!''))*'''|\"""(?:[^\\"]|\\.|"(?!""))*\""")
  | (?P<kept>'''(?:[^\\']|\\.|'(?!''))*'''|\"""(?:[^\\"]|\\.|"(?!""))*\"""
      | '(?:[^'\\\r\n]|\\.)*'|"(?:[^"\\\r\n]|\\.)*")
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
VISIBLE = re.compile(r"[^\r\n]")


BRACKETS_AND_ENDS = re.compile(r"([()\[\]{}\n])")
OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")


class UndecodableError(Exception):
    """The bytes are not text in the encoding that the file declares; row and column from 1.

    `remedy`: what to do; empty where it is as for wrong syntax.
    """

    remedy = SAVE_AS_UTF8

    def __init__(self, row: int, column: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.column = column
        self.reason = reason


class TooLargeError(UndecodableError):
    """There is more text than amplint analyses."""

    remedy = ""

    def __init__(self) -> None:
        super().__init__(1, 1, f"it has more than {MOST_CHARACTERS:,} characters")


class UnencodableError(Exception):
    """The text cannot be written in the file's encoding without loss."""


def parse(text: str) -> ast.Module:
    """The tree that `ast.parse` makes of a text; raises what that does.

    Raises:
        RecursionError: of Python 3.10 too, which alone takes what is nested without a bound.
    """
    module = ast.parse(text)
    if sys.version_info < (3, 11) and len(text) > DEEPEST:
        level: list[ast.AST] = [module]
        for _ in range(DEEPEST):
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if level:
            raise RecursionError("nested too deeply")
    return module


def why_python_refuses(text: str) -> tuple[Position, str] | None:
    """Where and why `ast` does not take the text; None if it does."""
    nul = text.find("\0")
    if nul >= 0:
        return Text(text).position(nul), "a NUL byte"
    try:
        parse(text)
    except SyntaxError as error:
        row, column = error.lineno or 1, max(error.offset or 1, 1)
        return Position(row, min(column, len(Text(text).line(row)) + 1)), error.msg
    except (RecursionError, MemoryError):
        return Position(1, 1), "an expression is nested too deeply"
    except ValueError as error:
        return Position(1, 1), str(error)
    return None


def code_of(text: str) -> str:
    """The text with blanks for comments and strings of several lines, every place unchanged.

    Docstrings are full of words such as "to" and "with", which rules wait for: of the
    units of timm 1.0.22 that would be parsed, a third would be for their prose alone.
    """

    def blank(noise: re.Match[str]) -> str:
        return noise.group() if noise.lastgroup else VISIBLE.sub(" ", noise.group())

    return NOISE.sub(blank, text)


def has_line(text: str, pattern: str, words: Iterable[str] = ()) -> bool:
    """Whether the regular expression matches a line of the code in a text.

    Args:
        words: one of these stands in each line that matches. Most patterns begin with no letter
            that could be searched for, so that to try every line took 5 % of a run on timm.
    """

    def is_in(text: str) -> bool:
        lines = iter(LINE_END.split(text))
        if words:
            lines = (line for line in lines if any(word in line for word in words))
        return any(map(re.compile(pattern).search, lines))

    if words and not any(word in text for word in words):
        return False
    return is_in(text) and is_in(code_of(text))


def code_says(text: str, part: str, pattern: re.Pattern[str] | None = None) -> bool:
    """Whether code in a text holds a part, and a pattern is found in it. What a comment or a
    docstring says decides nothing, so that nothing depends on these."""

    def is_in(text: str) -> bool:
        return part in text and (pattern is None or pattern.search(text) is not None)

    return is_in(text) and is_in(code_of(text))  # most texts have no such part at all


def without_comments(text: str) -> str:
    """The text with blanks for comments, every place unchanged."""

    def blank(noise: re.Match[str]) -> str:
        content = noise.group()
        return " " * len(content) if content.startswith("#") else content

    return NOISE.sub(blank, text)


def in_long_lines(text: str) -> str:
    """Code with a space for each line end inside of brackets, so that a line has a whole test."""
    depth, parts = 0, []
    for part in BRACKETS_AND_ENDS.split(text):
        depth += (part in OPENING) - (part in CLOSING)
        parts.append(" " if part == "\n" and depth > 0 else part)
    return "".join(parts)


def long_strings(text: str) -> list[str]:
    """The strings of several lines in a text, as they are written."""
    strings = (noise.group() for noise in NOISE.finditer(text))
    return [each for each in strings if not each.startswith("#") and LINE_END.search(each)]


@dataclass(frozen=True)
class Text:
    """Decoded text that remembers how to become the file's bytes again.

    Args:
        text: the text, byte order mark stripped, line ends kept.
        encoding: the codec, "utf-8-sig" where the file begins with a byte order mark.
        exact: whether encoding `text` returns the file's bytes; a few codecs (utf-7,
            iso-2022-jp) know several spellings of one text.
    """

    text: str
    encoding: str = "utf-8"
    exact: bool = True

    @classmethod
    def read(cls, path: Path) -> Text:
        """The text of a file. Raises OSError and UndecodableError."""
        return cls.decode(path.read_bytes())

    @classmethod
    def decode(cls, data: bytes) -> Text:
        """The text of a file's bytes, by its byte order mark or PEP 263 cookie, else UTF-8."""
        encoding = _declared_encoding(data)
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            raise _undecodable(data, error.start, encoding, error.reason) from None
        except (LookupError, UnicodeError) as error:  # "rot13" is no text encoding; "undefined"
            raise UndecodableError(1, 1, str(error)) from None
        exact = encoding in ("utf-8", "utf-8-sig") or _encode(text, encoding) == data
        return cls(text, encoding, exact)

    def encode(self, new_text: str) -> bytes:
        """Another text as bytes of this file: same encoding, same byte order mark."""
        if not self.exact:
            raise UnencodableError(f"{self.encoding} would not give back the bytes of the file")
        data = _encode(self.written(new_text), self.encoding)
        if data is None:
            raise UnencodableError(f"the new text cannot be written in {self.encoding}")
        return data

    # -- where the file holds more than this text, as a notebook does

    def written(self, new_text: str) -> str:
        """The content of the file with `new_text` in the place of this text. Raises
        UnencodableError."""
        return new_text

    def changes(self, path: str, new_text: str) -> list[tuple[str, str, str]]:
        """The parts of the file that `new_text` changes: their names, and before and after."""
        return [(path, self.text, new_text)]

    def changed_bytes(self, path: str, new_text: str) -> list[tuple[str, bytes, bytes]]:
        """The parts of the file that `new_text` changes: their names, and their bytes before and
        after."""
        return [(path, self.encode(self.text), self.encode(new_text))]

    def part(self, _row: int) -> Part:
        """The part of the file that a row stands in, with rows of its own."""
        return Part(self)

    def in_file(self, position: Position) -> Position:
        """Where the character at a position stands in the file as it is on disk."""
        return position

    @property
    def refused(self) -> tuple[tuple[Position, str], ...]:
        """The parts of the file that are no Python, and left out: where, and why."""
        return ()

    @property
    def left_out(self) -> str:
        """The rest of the file: nothing of this text, but it may use the names of it."""
        return ""

    # -- rows and offsets

    @property
    def rows(self) -> int:
        """How many lines there are; text that ends with a line end has an empty last one."""
        return len(self._starts)

    @cached_property
    def newline(self) -> str:
        """The line end to use for inserted lines: the first one in the text."""
        match = LINE_END.search(self.text)
        return match.group() if match else "\n"

    def start(self, row: int) -> int:
        """The offset where a line begins; the end of the text for rows beyond it."""
        return self._starts[row - 1] if row <= len(self._starts) else len(self.text)

    def line(self, row: int) -> str:
        """A line without its end; empty for rows outside of the text."""
        if not 1 <= row <= len(self._starts):
            return ""
        return self.text[self.start(row) : self.start(row + 1)].rstrip("\r\n")

    def position(self, offset: int) -> Position:
        """Where the character at an offset stands."""
        row = bisect_right(self._starts, offset)
        return Position(row, offset - self._starts[row - 1] + 1)

    def offset(self, row: int, utf8_column: int) -> int:
        """The offset of a place in the coordinates of `ast`: row from 1, column in UTF-8 bytes."""
        start = self.start(row)
        if self._ascii:
            return start + utf8_column
        # The line's first `utf8_column` characters are no fewer bytes than that, so they do.
        prefix = self.text[start : start + utf8_column]
        if prefix.isascii():
            return start + utf8_column
        head = prefix.encode("utf-8", "surrogatepass")[:utf8_column]
        return start + len(head.decode("utf-8", "ignore"))

    @cached_property
    def _ascii(self) -> bool:
        return self.text.isascii()

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in LINE_END.finditer(self.text))]


def span_in(text: Text | None, place: Place) -> Span:
    """Where a place stands in the text of its file, in characters."""
    if text is None:
        text = Text("")
    start = text.position(text.offset(place.row, place.column))
    end = text.position(text.offset(place.end_row, place.end_column))
    return Span(start, max(start, end))


@dataclass(frozen=True)
class Part:
    """A stretch of a file as it is reported: a cell of a notebook, or all there is.

    Args:
        text: what stands in it.
        above: how many rows of the file's `Text` are above it.
        cell: the number of the cell, from 1; None in a file that is no notebook.
    """

    text: Text
    above: int = 0
    cell: int | None = None

    def place(self, position: Position) -> Position:
        """A position of the file's `Text`, counted from the top of this part."""
        return Position(position.row - self.above, position.column)

    def of(self, path: str) -> str:
        """The part's name: "train.py", "train.ipynb:cell 3"."""
        return path if self.cell is None else f"{path}:cell {self.cell}"


def _declared_encoding(data: bytes) -> str:
    # The interpreter ends lines at a lone \r too before it looks for the cookie; left to itself,
    # `detect_encoding` would see a whole old-Mac file as one line.
    lines = iter(data.splitlines(keepends=True))
    try:
        return tokenize.detect_encoding(lambda: next(lines, b""))[0]
    except SyntaxError as error:
        reason = str(error)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(b"".join(data.splitlines(keepends=True)[:2])):
            raise _undecodable(data, error.start, "utf-8", error.reason) from None
    raise UndecodableError(1, 1, reason)


def _undecodable(data: bytes, start: int, encoding: str, reason: str) -> UndecodableError:
    try:
        before = Text(data[:start].decode(encoding, "replace"))
    except UnicodeError:  # "idna" and "punycode" replace nothing
        before = Text(data[:start].decode("ascii", "replace"))
    row, column = before.position(len(before.text))
    byte = f" (byte 0x{data[start]:02x})" if start < len(data) else ""
    return UndecodableError(row, column, f"not valid {encoding}{byte}: {reason}")


def _encode(text: str, encoding: str) -> bytes | None:
    try:
        return text.encode(encoding)
    except (LookupError, UnicodeError):
        return None
