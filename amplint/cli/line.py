"""`amplint explain --at FILE:LINE`: the line that is meant, and what is known of it."""

from __future__ import annotations

import os

import click

from amplint.cli.options import NOT_CONFIGURED, make_request
from amplint.core.errors import Failure
from amplint.core.rule import Rule
from amplint.output import inspection as page
from amplint.project.discover import absolute, relative
from amplint.project.reading import read
from amplint.run.inspection import inspect, row_in


def explain(place: str, rule: Rule | None) -> None:
    """Print what is known of a line. Raises Failure for a place that is none."""
    file, *numbers = split(place)
    request, _ = make_request((file,), None, False, NOT_CONFIGURED, True)
    path = relative(absolute(file), str(request.project.root))
    reading = read(request.project, request.overlays)
    if path not in reading.paths:
        raise Failure(f"{file}: no file that amplint reads")
    text = reading.text(path)
    row = row_in(text, *numbers)
    if row is None:
        raise Failure(f"{place}: the file has no such line")
    seen = inspect(request, reading, path, row, [rule] if rule is not None else [])
    click.echo(page.render(seen, text), nl=False)


def split(place: str) -> tuple[str, int] | tuple[str, int, int]:
    """The file, then the cell and the line, or the line. Raises click.UsageError."""
    file, _, last = place.rpartition(":")
    before, _, cell = file.rpartition(":")
    if not last.isdecimal() or not file:
        raise click.UsageError(f"--at {place!r} is no FILE:LINE")
    if cell.isdecimal() and before and not os.path.exists(file):  # noqa: PTH110  (never raises)
        return before, int(cell), int(last)
    return file, int(last)
