"""The observations of a project: what runs of its programs have shown, for `check` to read.

`amplint observe --save` writes them; anybody may have. They are plain data of bounded size: dtypes,
devices and regions by function and place, each under the digest of the function's text, so that one
whose text has changed has lost its own. docs/observe.md describes the file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from amplint.util import files
from amplint.util.paths import join

DIRECTORY = ".amplint"
FILE = f"{DIRECTORY}/observations.json"
SCHEMA = 1
CALL = "call"
MOST_FUNCTIONS = 20_000
MOST_PLACES = 5_000  # of a function
LONGEST_RUN = 200  # characters of the name of a program that was run
# What a value is: of a tensor "dtype device dimensions", of a container of such a list or a dict of
# these, of anything else "other". It is judged when somebody asks for it.
Shape = Any


class ObservedFunction(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One function, as runs have shown it.

    Args:
        text: the digest of its text.
        runs: the programs that have run it.
        regions: the dtypes of the autocast regions that it was called in, "" for none.
        every_step: whether it was called in most steps of a training, with gradients on.
        parameters: what it was given, by name.
        expressions: what the expressions in it gave, by kind and place: the rows are counted from
            that of the function.
        rows: those that have called something, counted from that of the function.
    """

    text: str
    runs: list[str]
    regions: list[str] = []
    every_step: bool = False
    parameters: dict[str, list[Shape]] = {}
    expressions: dict[str, list[Shape]] = {}
    rows: list[int] = []

    @property
    def run(self) -> str:
        """The first of the programs, fit for a message."""
        text = "".join(c if c.isprintable() else " " for c in "".join(self.runs[:1]))
        return " ".join(text.split())[:LONGEST_RUN] or "a program"


class ObservationsFile(msgspec.Struct, forbid_unknown_fields=True):
    """The file: of which schema it is, and the functions by "path::qualified.name"."""

    schema: int
    functions: dict[str, ObservedFunction]


class UnusableError(ValueError):
    """A file that holds no observations. The text says why."""


def digest(rows: list[str], decorated: tuple[str, ...]) -> str:
    """The digest of a function.

    Args:
        rows: its text, without its decorators.
        decorated: these, as `FunctionFacts` has them.
    """
    text = "\n".join([*decorated, *(row.rstrip() for row in rows)])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def digest_of(functions: Mapping[str, ObservedFunction]) -> str:
    """The digest of observations; "" of none."""
    return hashlib.blake2b(written(functions), digest_size=8).hexdigest() if functions else ""


def place(kind: str, location: tuple[int, int, int, int], first: int) -> str:
    """The key of an expression, e.g. "operation 3:8-3:20".

    Of a call it is the end alone: for the start of one that goes over several rows Python has the
    row of the method's name.

    Args:
        kind: of the expression.
        location: the row and the column of its start and of its end, as `ast` counts.
        first: the row of its function.
    """
    row, column, end_row, end_column = location
    end = f"{end_row - first}:{end_column}"
    return f"{kind} {end}" if kind == CALL else f"{kind} {row - first}:{column}-{end}"


def read(directory: str) -> Mapping[str, ObservedFunction]:
    """The functions that were observed in a project; none where there is no such file.

    Raises UnusableError.
    """
    path = join(directory, FILE)
    if not os.path.lexists(path):
        return {}
    if files.leads_out(path, directory):
        raise UnusableError("it is a link that leads out of the project")
    try:
        content = files.read(path, files.MOST_OF_SETTINGS)
    except OSError as error:
        raise UnusableError(error.strerror or str(error)) from error
    return parsed(content)


def parsed(content: bytes) -> Mapping[str, ObservedFunction]:
    """The functions in the content of a file. Raises UnusableError."""
    if len(content) > files.MOST_OF_SETTINGS:
        raise UnusableError(str(files.too_large(files.MOST_OF_SETTINGS).strerror))
    try:
        document = msgspec.json.decode(content, type=ObservationsFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableError(str(error)) from error
    if document.schema != SCHEMA:
        raise UnusableError(f"its schema is {document.schema}, not {SCHEMA}")
    if len(document.functions) > MOST_FUNCTIONS:
        raise UnusableError(f"it has more than {MOST_FUNCTIONS:,} functions")
    for name, function in document.functions.items():
        places = len(function.parameters) + len(function.expressions) + len(function.rows)
        if places > MOST_PLACES:
            raise UnusableError(f"{name[:LONGEST_RUN]!r} has more than {MOST_PLACES:,} places")
    return document.functions


def written(functions: Mapping[str, ObservedFunction]) -> bytes:
    """The content of the file: sorted, so that a difference shows what has changed."""
    ordered = {name: functions[name] for name in sorted(functions)}
    content = msgspec.json.encode(ObservationsFile(SCHEMA, ordered), order="sorted")
    return msgspec.json.format(content, indent=1) + b"\n"
