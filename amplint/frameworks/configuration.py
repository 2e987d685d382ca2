"""Precisions in configuration files: Python files of assignments, and JSON.

Both are anybody's text: they are parsed and never run, and what is no configuration says nothing.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from amplint.frameworks.models import ANY, BOOLEANS, Models, written
from amplint.frameworks.schema import Setting

JSON = ".json"
MOST_CHARACTERS = 65_536  # of a file: those that come with mmdet have up to 7,000
MOST_FILES = 200  # that are parsed, of each project
INHERITED = "_base_."  # `_base_.optim_wrapper.type = ...` changes what a file inherits (mmengine)
UNWRITTEN = {ANY, *BOOLEANS}  # values that do not stand in a file as a model has them
Span = tuple[int, int, int, int]
Row = tuple[str, Setting]  # behind the name of its framework


class StatedPrecision(NamedTuple):
    """A precision in a configuration file.

    Args:
        framework: the one that is asked for it.
        dtype: of the region that it opens; "" where it opens none.
        path: of the file.
        span: the value in it, as `ast` counts; None in JSON.
    """

    framework: str
    dtype: str
    path: str
    span: Span | None = None


class ConfiguredValue(NamedTuple):
    """A value in a configuration file: a constant, or the last name of what it is."""

    written: str
    span: Span | None = None


def stated_precisions(models: Models, texts: Mapping[str, str]) -> tuple[StatedPrecision, ...]:
    """The precisions that configuration files ask of the frameworks which the project names.

    Args:
        models: have the rows of settings.
        texts: of all files of the project, and of the JSON files in it, by path.
    """
    # Most projects have no file that a row could mean, which is seen before anything is parsed.
    fitting: dict[str, list[Row]] = {}
    for path in sorted(texts):
        rows = [each for each in models.settings if may_hold(each[1], path, texts[path])]
        if rows:
            fitting[path] = rows
    frameworks = {framework for rows in fitting.values() for framework, _ in rows}
    named = {framework for framework in frameworks if models.is_named(framework, texts.values())}
    precisions: list[StatedPrecision] = []
    for path in [*fitting][:MOST_FILES]:
        rows = [each for each in fitting[path] if each[0] in named]
        document = read(path, texts[path]) if rows else None
        if document is not None:
            precisions += in_document(rows, document, path)
    return tuple(precisions)


def may_hold(row: Setting, path: str, text: str) -> bool:
    """Whether a file is one of which a row may speak: it holds the words."""
    if path.endswith(JSON) != (row.format == "json") or len(text) > MOST_CHARACTERS:
        return False
    first, *inner = row.key.split(".")
    if first not in text or not all(part in text for part in inner):
        return False
    begins = (first, f"{INHERITED}{first}")
    if row.format == "python" and not any(
        text.startswith(each) or f"\n{each}" in text for each in begins
    ):
        return False
    values = {*row.values, *row.casts}
    return not values.isdisjoint(UNWRITTEN) or any(value in text for value in values)


def in_document(
    rows: Iterable[Row], document: ConfigurationFile, path: str
) -> Iterator[StatedPrecision]:
    """Those of one file: of each framework, the first row that knows its value counts."""
    heard = set()
    for framework, row in rows:
        value = document.value(row.key)
        if framework in heard or value is None:
            continue
        if any(not fits(text, document.value(key)) for key, text in row.also.items()):
            continue
        dtype = dtype_of(row, value)
        if dtype is not None:
            heard.add(framework)
            yield StatedPrecision(framework, dtype, path, value.span)


def dtype_of(row: Setting, value: ConfiguredValue) -> str | None:
    """The dtype of the region that a value opens, "" for a cast; None where the row has it not."""
    for text, dtype in row.values.items():
        if fits(text, value):
            return dtype
    return "" if any(fits(text, value) for text in row.casts) else None


def fits(text: str, value: ConfiguredValue | None) -> bool:
    return value is not None and text in (value.written, ANY)


class ConfigurationFile:
    """A configuration file.

    Args:
        values: what stands in it at the top, by its name; by a dotted one what is set in another
            value.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def value(self, key: str) -> ConfiguredValue | None:
        """The value of a key, `a.b` for `b` of `a`; None where it has none, None included."""
        value: object = self._values
        for part in (key,) if key in self._values else key.split("."):
            value = item(value, part)
        if isinstance(value, ast.expr):
            word = last_word(value)
            span = value.lineno, value.col_offset, value.end_lineno or 0, value.end_col_offset or 0
            return ConfiguredValue(word, span) if word is not None else None
        return ConfiguredValue(written(value)) if value is not None and value is not False else None


def item(of: object, name: str) -> object:
    """The value of a name in a mapping: one of JSON, a display, or a call of `dict`."""
    if isinstance(of, Mapping):
        return of.get(name)
    if isinstance(of, ast.Dict):
        pairs = zip(of.keys, of.values, strict=True)
        return next((v for k, v in pairs if isinstance(k, ast.Constant) and k.value == name), None)
    if isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "dict":
        return next((each.value for each in of.keywords if each.arg == name), None)
    return None


def last_word(value: ast.expr) -> str | None:
    """A constant as a model has it, or the last name of a dotted one. Ex) AmpOptimWrapper"""
    if isinstance(value, ast.Constant):
        is_none = value.value is None or value.value is False
        return None if is_none else written(value.value)
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else type(value).__name__


def read(path: str, text: str) -> ConfigurationFile | None:
    """A configuration file; None for what is none."""
    try:
        if path.endswith(JSON):
            values = json.loads(text)
            return ConfigurationFile(values) if isinstance(values, dict) else None
        return ConfigurationFile(bound(assigned(ast.parse(text))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def bound(assignments: Iterable[tuple[str, ast.expr]]) -> dict[str, ast.expr]:
    """The values that are left after some assignments: what was set in the value of a name goes
    with it."""
    values: dict[str, ast.expr] = {}
    within: dict[str, set[str]] = {}  # by name: what was set in its value
    for name, value in assignments:
        first = name.partition(".")[0]
        if first != name:
            within.setdefault(first, set()).add(name)
        for inner in within.pop(name, ()):
            del values[inner]
        values[name] = value
    return values


def assigned(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names, dotted ones too, that a module binds to values, one after the other."""
    for statement in module.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                name = dotted(target)
                if name is not None:
                    yield name.removeprefix(INHERITED), statement.value


def dotted(target: ast.expr) -> str | None:
    """Ex) optim_wrapper.type"""
    parts: list[str] = []
    while isinstance(target, ast.Attribute):
        parts.append(target.attr)
        target = target.value
    return ".".join([target.id, *reversed(parts)]) if isinstance(target, ast.Name) else None
