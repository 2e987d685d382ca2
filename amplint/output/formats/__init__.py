"""Reports of a run, for readers and for machines."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amplint.core.finding import Position
from amplint.core.rule import Rule
from amplint.core.text import Part, Text
from amplint.project.notebooks import SUFFIX

if TYPE_CHECKING:
    from amplint.run.request import Outcome

NO_TEXT = Text("")
FORMATS = ("text", "concise", "json", "sarif", "github")


@dataclass(frozen=True)
class Report:
    """An outcome and what is needed to show it.

    Args:
        outcome: what came of the run.
        rules: all rules, for their descriptions.
        directory: where the reader stands; paths are shown from there.
        with_summary: whether text ends with a line of counts.
    """

    outcome: Outcome
    rules: Sequence[Rule]
    directory: Path
    with_summary: bool = True

    def path(self, path: str) -> str:
        """A root-relative path as the reader would write it."""
        return path_from(self.directory, self.outcome.root, path)

    def text(self, path: str) -> Text:
        """The text of a notebook; an empty one for other files, whose places need no text."""
        return self.outcome.all_texts.get(path, NO_TEXT) if path.endswith(SUFFIX) else NO_TEXT

    def part(self, path: str, position: Position) -> Part:
        """The part of a file, a cell of a notebook, that a position stands in."""
        return self.text(path).part(position.row)

    def where(self, path: str, position: Position) -> str:
        """A position as people write it: "train.py:12:5", "train.ipynb:cell 3:12:5"."""
        part = self.part(path, position)
        row, column = part.place(position)
        return f"{part.of(self.path(path))}:{row}:{column}"


STDIN = "-"  # the path of text from standard input that has no file name


def path_from(directory: Path, root: Path, path: str) -> str:
    """A root-relative path as seen from another directory, with forward slashes."""
    if path == STDIN:
        return path
    return os.path.relpath(root / path, directory).replace(os.sep, "/")


def render(name: str, report: Report) -> str:
    """The report in one of `FORMATS`, or its "statistics".

    Text may hold terminal styles, which `click.echo` strips.
    """
    module = importlib.import_module(f"amplint.output.formats.{name}")
    write: Callable[[Report], str] = module.render
    return write(report)
