"""A notebook as a module, and edits of the module as edits of the notebook.

The module is the code cells, one after the other, each below a marker line such as `#~[3]`. What
only IPython understands is commented out, line by line, so that each row of a cell is one row of
the module, and each column the same. A cell in another language is left out; so is one that Python
refuses, which is reported.

To write a changed module, it is cut at its markers. Of the file, only the `source` of those cells
that differ is replaced: to parse the JSON and write it anew would change escapes and white space.

Ex) a cell with `%matplotlib inline`, `files = !ls` and `%time y = f(x)` becomes

    #~|%matplotlib inline
    files = get_ipython()#~|!ls
    0;    y = f(x)#~<%time

(`get_ipython` is a name that nothing binds, so its value is unknown.)
"""

from __future__ import annotations

import itertools
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

from amplint.util.lazy import lazy_pattern
from amplint.util.positions import Position
from amplint.util.text import (
    LINE_END,
    Part,
    Text,
    UndecodableError,
    UnencodableError,
    why_python_refuses,
)

SUFFIX = ".ipynb"
# The cell magics below which there is Python that runs where the other cells do.
PYTHON_BELOW = frozenset({"capture", "debug", "ipytest", "prun", "time", "timeit"})
CELL_MAGIC = lazy_pattern(r"\s*%%(\w*)")
OPTION = r"[ \t]+-(?:[nrp][ \t]*\d+|[tcqov])"
# Line magics that IPython takes without a `%`, where they are all of a cell.
BARE = lazy_pattern(
    r"\s*(?:pip|conda|mamba|uv|cd|ls|ll|pwd|cat|cp|mv|rm|mkdir|env|run|load_ext|matplotlib)"
    r"[ \t]+\S.*\s*"
)
# Tried where a statement may begin.
MAGIC = lazy_pattern(
    rf"""
    (?P<indent>[ \t]*)(?P<timed>%time(?:it)?(?:{OPTION})*[ \t]+)
    (?P<code>[^\s\-](?:[^\r\n]*[^\\\r\n])?)(?=[\r\n]|\Z)
  | (?P<before>[ \t]*|[\w.,*"'\[\]() \t]+=[ \t]*(?=[!%]))
    (?P<magic>
        [!%?,;/](?:[^\\\r\n]|\\(?:\r\n|.))*\\?
      | [\w.*\[\]]+\?\??[ \t]*(?=[\r\n]|\Z)
    )
    """,
    re.VERBOSE | re.DOTALL,
)
# What has to be known of the rest to see where the next statement begins.
PIECE = lazy_pattern(
    r"""
    \#[^\r\n]*
  | '''(?:[^\\]|\\.)*?''' | \"""(?:[^\\]|\\.)*?\"""
  | '(?:[^'\\\r\n]|\\.)*' | "(?:[^"\\\r\n]|\\.)*"
  | \\(?:\r\n|.)
  | (?P<open>[(\[{]) | (?P<close>[)\]}]) | (?P<end>\r\n|\r|\n)
    """,
    re.VERBOSE | re.DOTALL,
)
RUN = lazy_pattern(r"#(~+)")  # what may pass for a boundary
DECODER = json.JSONDecoder()
JSON_BLANK = lazy_pattern(r"[ \t\r\n]*")
JSON_CHARACTER = lazy_pattern(
    r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\.|[^\\]"
)


class NotANotebookError(UndecodableError):
    """The file is no notebook, or none that can be read."""

    remedy = ""


class JsonValue(NamedTuple):
    """A value in a JSON document, which stands at [start, end)."""

    value: Any
    start: int
    end: int


@dataclass(frozen=True)
class Cell:
    """A cell with Python in it.

    Args:
        number: which one it is of all cells, from 1.
        source: what it holds.
        start, end: where its source stands in the JSON document.
        strings: the strings of which that consists: itself, or one for each line.
        code: what stands for it in the module.
        refused: where and why Python does not read it; None if it does.
    """

    number: int
    source: str
    start: int
    end: int
    strings: tuple[JsonValue, ...]
    code: str
    refused: tuple[Position, str] | None = None

    @property
    def is_left_out(self) -> bool:
        """Whether nothing of the cell is in the module."""
        return self.code != self.source and not self.code.strip("\n")


@dataclass(frozen=True)
class Notebook(Text):
    """The module that a notebook makes.

    Args:
        document: the notebook as it is in the file.
        cells: those in the module.
        boundary: what no cell holds, and what markers and what is commented out begin with.
    """

    document: str = ""
    cells: tuple[Cell, ...] = ()
    boundary: str = ""

    def written(self, new_text: str) -> str:
        """The notebook with the source of those cells that are not as in this text."""
        pieces: list[str] = []
        done = 0
        for start, end, source in self.replacements(new_text):
            pieces += self.document[done:start], source
            done = end
        return "".join([*pieces, self.document[done:]])

    def replacements(self, new_text: str) -> Iterator[tuple[int, int, str]]:
        """The replacements in the JSON document, by cell: start, end, and what stands there then.

        Raises UnencodableError.
        """
        for cell, source in self.rewritten(new_text):
            yield cell.start, cell.end, as_json(source, cell, self.document)

    def rewritten(self, new_text: str) -> Iterator[tuple[Cell, str]]:
        """The cells that differ, and what they hold then. Raises UnencodableError."""
        for cell, code in zip(self.cells, self._codes(new_text), strict=True):
            if code == cell.code:
                continue
            source = undone(code, self.boundary)
            if self.boundary in source or cell.is_left_out:
                raise UnencodableError("the fix would change what only IPython can read")
            yield cell, source

    def changes(self, path: str, new_text: str) -> list[tuple[str, str, str]]:
        """The cells that differ, which are shown one by one: of the JSON around them, a single
        line may be a whole picture."""
        return [
            (f"{path}:cell {cell.number}", f"{cell.source}\n", f"{undone(code, self.boundary)}\n")
            for cell, code in zip(self.cells, self._codes(new_text), strict=True)
            if code != cell.code
        ]

    def changed_bytes(self, path: str, new_text: str) -> list[tuple[str, bytes, bytes]]:
        return [
            (name, as_utf_8(before), as_utf_8(after))
            for name, before, after in self.changes(path, new_text)
        ]

    def part(self, row: int) -> Part:
        """The cell that a row stands in."""
        index = bisect_right(self._marker_rows, row) - 1
        if index < 0:
            return Part(self)
        cell = self.cells[index]
        return Part(Text(cell.source), self._marker_rows[index], cell.number)

    def in_file(self, position: Position) -> Position:
        """Where the character at a position stands in the JSON document."""
        index = bisect_right(self._marker_rows, position.row) - 1
        if index < 0:
            return Position(1, 1)
        cell = self.cells[index]
        row = max(position.row - self._marker_rows[index], 1)
        offset = min(Text(cell.source).start(row) + position.column - 1, len(cell.source))
        at = cell.start
        for string in cell.strings:
            at = end_of_characters(self.document, string.start + 1, offset)
            if offset < len(string.value):
                break
            offset -= len(string.value)
        return self._file.position(at)

    @property
    def refused(self) -> tuple[tuple[Position, str], ...]:
        """The cells that Python does not read: where, and why."""
        return tuple(
            (
                Position(above + cell.refused[0].row, cell.refused[0].column),
                cell.refused[1],
            )
            for above, cell in zip(self._marker_rows, self.cells, strict=True)
            if cell.refused is not None
        )

    @property
    def left_out(self) -> str:
        """The cells that are not in the module, and the lines for IPython."""
        return "\n".join(
            cell.source
            if cell.is_left_out
            else "\n".join(
                line for line in LINE_END.split(cell.code) if f"{self.boundary}|" in line
            )
            for cell in self.cells
        )

    @cached_property
    def _file(self) -> Text:
        return Text(self.document)

    @cached_property
    def _marker_rows(self) -> list[int]:
        return [self.position(match.start()).row for match in self._markers(self.text)]

    def _markers(self, text: str) -> Iterator[re.Match[str]]:
        return re.finditer(rf"^{re.escape(self.boundary)}\[(\d+)\]\n", text, re.MULTILINE)

    def _codes(self, text: str) -> list[str]:
        """The cells of a changed module, without the line end that joins each to the next."""
        markers = list(self._markers(text))
        numbers = [int(match[1]) for match in markers]
        starts = [match.start() for match in markers]
        if numbers != [cell.number for cell in self.cells] or min(starts, default=len(text)) > 0:
            raise UnencodableError("the fix would span several cells")
        ends = [*starts, len(text)][1:]
        return [
            text[match.end() : end].removesuffix("\n")
            for match, end in zip(markers, ends, strict=True)
        ]


def as_utf_8(source: str) -> bytes:
    """The source of a cell; JSON may hold half a pair of surrogates, which UTF-8 lacks."""
    return source.encode("utf-8", "backslashreplace")


def notebook(file: Text) -> Notebook:
    """The module that a notebook makes.

    Args:
        file: the notebook as it is in the file: JSON.

    Raises NotANotebookError.
    """
    try:
        sources = list(python_sources(file))
    except RecursionError:
        raise NotANotebookError(1, 1, "it is nested too deeply") from None
    longest = max(
        (len(run) for _, source, _, _ in sources for run in RUN.findall(source)), default=0
    )
    boundary = "#~" + "~" * longest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parser's, about the code that is read
        cells = [
            Cell(number, source, value.start, value.end, strings, *as_python(source, boundary))
            for number, source, value, strings in sources
        ]
    text = "".join(f"{boundary}[{cell.number}]\n{cell.code}\n" for cell in cells)
    return Notebook(text, file.encoding, file.exact, file.text, tuple(cells), boundary)


# ------------------------------------------------------------------------------- from the JSON


def python_sources(file: Text) -> Iterator[tuple[int, str, JsonValue, tuple[JsonValue, ...]]]:
    """The number and the source of each cell that holds Python, with the place of the source and
    of its strings. Raises NotANotebookError."""
    document = file.text
    if not document.strip():
        return  # a notebook that was made and not yet saved
    top = decoded(file)
    if not isinstance(top, dict):
        raise NotANotebookError(1, 1, "it is not a JSON object")
    if "worksheets" in top or (isinstance(top.get("nbformat"), int) and top["nbformat"] < 4):
        raise NotANotebookError(1, 1, "its nbformat is 3 or less, and amplint needs 4")
    if not isinstance(top.get("cells"), list):
        raise NotANotebookError(1, 1, "it has no list of `cells`")
    if not is_python(top.get("metadata")):
        return
    cells = dict(members(document, past_blank(document, 0)))["cells"]
    for number, cell in enumerate(elements(document, cells.start), 1):
        if not isinstance(cell.value, dict):
            raise NotANotebookError(
                *file.position(cell.start), f"cell {number} is not a JSON object"
            )
        if cell.value.get("cell_type") != "code" or not is_python(cell.value.get("metadata")):
            continue
        source = dict(members(document, cell.start)).get("source")
        if source is None:
            raise NotANotebookError(*file.position(cell.start), f"cell {number} has no `source`")
        is_list = isinstance(source.value, list)
        strings = tuple(elements(document, source.start)) if is_list else (source,)
        if not all(isinstance(string.value, str) for string in strings):
            place = file.position(source.start)
            raise NotANotebookError(*place, f"the `source` of cell {number} is not text")
        yield number, "".join(string.value for string in strings), source, strings


def decoded(file: Text) -> Any:
    try:
        return DECODER.decode(file.text)
    except json.JSONDecodeError as error:
        raise NotANotebookError(*file.position(error.pos), f"it is not JSON: {error.msg}") from None
    except ValueError as error:  # a number of thousands of digits
        raise NotANotebookError(1, 1, str(error)) from None


def is_python(metadata: Any) -> bool:
    """Whether the metadata of a notebook, or of a cell, name no other language."""
    languages = (
        inner[key]
        for name, key in (
            ("language_info", "name"), ("kernelspec", "language"), ("vscode", "languageId"),
        )
        if isinstance(metadata, dict) and isinstance(inner := metadata.get(name), dict)
        if isinstance(inner.get(key), str)
    )  # fmt: skip
    return next(languages, "python").lower().startswith(("python", "ipython"))


def members(document: str, start: int) -> Iterator[tuple[str, JsonValue]]:
    """The members of the JSON object that begins at `start` of a document without mistakes."""
    at = past_blank(document, start + 1)
    while document[at] != "}":
        key, at = DECODER.raw_decode(document, at)
        at = past_blank(document, past_blank(document, at) + 1)
        value, end = DECODER.raw_decode(document, at)
        yield key, JsonValue(value, at, end)
        at = past_comma(document, end)


def elements(document: str, start: int) -> Iterator[JsonValue]:
    """The elements of the JSON array that begins at `start` of a document without mistakes."""
    at = past_blank(document, start + 1)
    while document[at] != "]":
        value, end = DECODER.raw_decode(document, at)
        yield JsonValue(value, at, end)
        at = past_comma(document, end)


def past_comma(document: str, at: int) -> int:
    at = past_blank(document, at)
    return past_blank(document, at + 1) if document[at] == "," else at


def past_blank(document: str, at: int) -> int:
    match = JSON_BLANK.match(document, at)
    assert match is not None  # it matches nothing, too
    return match.end()


def end_of_characters(document: str, start: int, count: int) -> int:
    """Where the first `count` characters of the string whose text begins at `start` end."""
    characters = itertools.islice(JSON_CHARACTER.finditer(document, start), count)
    return max((match.end() for match in characters), default=start)


# ------------------------------------------------------------------------------- into the JSON


def as_json(source: str, cell: Cell, document: str) -> str:
    """A new source of a cell, written as its old one is: as one string or as one for each line,
    with the same escapes and white space."""
    dumps = partial(json.dumps, ensure_ascii=document.isascii())
    strings = cell.strings
    if strings and strings[0].start == cell.start:
        return dumps(source)
    old = {string.value: document[string.start : string.end] for string in strings}
    lines = [old.get(line) or dumps(line) for line in source.splitlines(keepends=True)]
    if not lines or not strings:
        return f"[{', '.join(lines)}]"
    opening = document[cell.start : strings[0].start]
    if len(strings) > 1:
        separator = document[strings[0].end : strings[1].start]
    else:
        separator = f",{opening[1:] or ' '}"
    return opening + separator.join(lines) + document[strings[-1].end : cell.end]


# ------------------------------------------------------------------------------- IPython


def as_python(source: str, boundary: str) -> tuple[str, tuple[Position, str] | None]:
    """The code that stands for a cell in the module; where and why Python refuses it, if so."""
    empty = "\n" * len(LINE_END.findall(source))
    magic = CELL_MAGIC.match(source)
    if magic is not None and magic[1] not in PYTHON_BELOW:
        return empty, None
    code, refused = source, refusal(source, boundary)
    if refused is not None:
        code = f"{boundary}|{source}" if BARE.fullmatch(source) else commented(source, boundary)
        refused = refusal(code, boundary)
    return (code, None) if refused is None else (empty, refused)


def refusal(code: str, boundary: str) -> tuple[Position, str] | None:
    # Below a marker, as it will be: a byte order mark is no error at the beginning of a text.
    error = why_python_refuses(f"{boundary}\n{code}")
    if error is None:
        return None
    (row, column), reason = error
    return Position(max(row - 1, 1), column), reason


def commented(source: str, boundary: str) -> str:
    """The source of a cell, with comments in the place of what only IPython understands."""
    parts: list[str] = []
    at = done = depth = 0
    begins = True  # whether a statement may begin here
    while at < len(source):
        magic = MAGIC.match(source, at) if begins else None
        if magic is not None:
            parts += source[done:at], replacement(magic, boundary)
            at = done = magic.end()
            begins = False
        elif (piece := PIECE.search(source, at)) is None:
            break
        else:
            depth = max(depth + (piece["open"] is not None) - (piece["close"] is not None), 0)
            begins = piece["end"] is not None and depth == 0
            at = piece.end()
    return "".join([*parts, source[done:]])


def replacement(magic: re.Match[str], boundary: str) -> str:
    if magic["code"] is not None:
        code = f"0;{' ' * (len(magic['timed']) - 2)}{magic['code']}"
        if why_python_refuses(code) is None:
            return f"{magic['indent']}{code}{boundary}<{magic['timed']}"
        before, rest = magic["indent"], f"{magic['timed']}{magic['code']}"
    else:
        before, rest = magic["before"], magic["magic"]
    mark = f"{boundary}|"
    # Nothing has to stand at the margin; in a block, something has to.
    place = "get_ipython()" if before.strip() else "pass" if before else ""
    return f"{before}{place}{mark}" + LINE_END.sub(lambda end: end.group() + mark, rest)


def undone(code: str, boundary: str) -> str:
    """The source of a cell from the code that stands for it in the module."""
    begin = re.escape(boundary)
    code = re.sub(rf"0; *([^\r\n]*){begin}<([^\r\n]*)", r"\2\1", code)
    return re.sub(rf"(?:pass|get_ipython\(\))?{begin}\|", "", code)
