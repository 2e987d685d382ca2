"""The line length that a project sets for its formatter or its linter."""

from __future__ import annotations

import configparser
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from amplint.util import files
from amplint.util.toml import loads

DEFAULT = 88  # of ruff and black
# In each file, the keys that may hold the length, the first one that is there counts.
TOML: Mapping[str, Sequence[Sequence[str]]] = {
    "ruff.toml": [("line-length",)],
    ".ruff.toml": [("line-length",)],
    "pyproject.toml": [
        ("tool", "ruff", "line-length"),
        ("tool", "black", "line-length"),
        ("tool", "flake8", "max-line-length"),
    ],
}
FORMATTERS = [("tool", "ruff"), ("tool", "black")]
INI: Mapping[str, Sequence[str]] = {
    ".flake8": ["flake8"],
    "setup.cfg": ["flake8", "pycodestyle"],
    "tox.ini": ["flake8", "pycodestyle"],
}
FEWEST = 20  # what is less is no line length that anybody works with


def line_length(directory: Path) -> int:
    """The line length of the nearest directory upward that sets one, else that of ruff."""
    return chosen_length(directory) or DEFAULT


def chosen_length(directory: Path) -> int | None:
    """The line length of the nearest directory upward that sets one, or has settings of a
    formatter, be they without a length; None if there is none."""
    for place in (directory, *directory.parents):
        for length in _lengths(place):
            if type(length) is int and length >= FEWEST:
                return length
    return None


def _lengths(directory: Path) -> Iterator[object]:
    formatted = False
    for name, keys in TOML.items():
        table = _toml(directory / name)
        yield from (_value(table, key) for key in keys)
        formatted |= any(isinstance(_value(table, key), Mapping) for key in FORMATTERS)
    for name, sections in INI.items():
        ini = _ini(directory / name)
        for section in sections:
            text = ini.get(section, "max-line-length", fallback="").strip() if ini else ""
            yield int(text) if text.isdecimal() else None
    if formatted:
        yield DEFAULT


def _toml(file: Path) -> Mapping[str, object]:
    try:
        table: Mapping[str, object] = loads(files.read_text(file))
    except (OSError, ValueError, RecursionError):  # some other tool's file, and not about amplint
        return {}
    return table


def _value(table: object, keys: Sequence[str]) -> object:
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table


def _ini(file: Path) -> configparser.RawConfigParser | None:
    try:
        text = files.read_text(file)
        parser = configparser.RawConfigParser()
        parser.read_string(text)
    except (OSError, ValueError, configparser.Error):
        return None
    return parser
