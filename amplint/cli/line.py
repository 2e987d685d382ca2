"""`amplint explain --at FILE:LINE`: the line that is meant, and what is known of it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from amplint.cli.options import NOT_CONFIGURED, make_request
from amplint.output import inspection_text as page
from amplint.output.formats import path_from
from amplint.project.discover import absolute, relative
from amplint.project.notebooks import SUFFIX
from amplint.project.reading import read
from amplint.rule.rule import Rule
from amplint.run.cache import NAME, Cache
from amplint.run.inspection import inspect, row_in
from amplint.util.errors import Failure

PLACE = re.compile(
    r"""
    (?P<file>.+?) (?: :cell\ (?P<cell>\d+) )?
    (?P<numbers>(?::\d+){1,3})
    """,
    re.VERBOSE | re.DOTALL,
)


def explain(place: str, rule: Rule | None, every: bool) -> None:
    """Print what is known of a line, and why a rule, or all or the nearest rules, are silent there.

    Raises Failure for a place that is none.
    """
    file, *numbers = split(place)
    request, _ = make_request((file,), None, False, NOT_CONFIGURED, True)
    root = request.selection.root
    request = replace(request, cache=Cache(root / NAME))  # as it is: nothing in it is swept
    path = relative(absolute(file), str(root))
    reading = read(request.selection, request.overlays)
    if path not in reading.paths:
        raise Failure(f"{file}: not a file that amplint reads")
    row = row_in(reading.text(path), *numbers)
    if row is None:
        raise Failure(f"{place}: the file has no such line")
    inspection = inspect(request, reading, path, row, [rule] if rule is not None else [])
    readable = partial(path_from, Path.cwd(), root)
    click.echo(page.render(inspection, reading, readable, every or rule is not None), nl=False)


def split(place: str) -> tuple[str, int] | tuple[str, int, int]:
    """The file, then the cell and the line, or the line. A place of a report is taken as it is
    printed there: its column says nothing of the line. Raises click.UsageError."""
    match = PLACE.fullmatch(place)
    if match is None:
        raise click.UsageError(f"--at {place!r} is not of the form FILE:LINE")
    file, cell = match["file"], match["cell"]
    numbers = match["numbers"][1:].split(":")
    while len(numbers) > 1 and cell is None and os.path.exists(f"{file}:{numbers[0]}"):  # noqa: PTH110  (never raises)
        file = f"{file}:{numbers.pop(0)}"
    if cell is not None:
        numbers.insert(0, cell)
    is_notebook = file.endswith(SUFFIX)
    if is_notebook and len(numbers) == 1:
        raise click.UsageError(
            f"--at {place!r} names no cell: write {file}:CELL:LINE, as a report does"
        )
    if len(numbers) > 2 + is_notebook or (cell is not None and not is_notebook):
        raise click.UsageError(f"--at {place!r} is not of the form FILE:LINE")
    return (file, int(numbers[0]), int(numbers[1])) if is_notebook else (file, int(numbers[0]))
