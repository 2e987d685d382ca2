"""Reports of a run, for readers and for machines."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amplint.findings.finding import Finding, Safety
from amplint.output import FORMATS as FORMATS
from amplint.project.notebooks import SUFFIX
from amplint.rule.rule import Rule
from amplint.util import escaping
from amplint.util.escaping import printable
from amplint.util.paths import seen_from
from amplint.util.positions import Position, Span
from amplint.util.text import Part, Text

if TYPE_CHECKING:
    from amplint.output.html_page import Section
    from amplint.run.request import Outcome

APPLIED = {Safety.SAFE: "safe", Safety.UNSAFE: "unsafe", Safety.SUGGEST: "suggestion"}
NO_TEXT = Text("")


@dataclass(frozen=True)
class Report:
    """An outcome and what is needed to show it.

    Args:
        outcome: what came of the run.
        rules: all rules, for their descriptions.
        directory: where the reader stands; paths are shown from there.
        with_summary: whether text ends with a line of counts.
        columns: those of the terminal, for text; None where it is written for none.
        lead: makes what a page of HTML has above the findings; None for nothing.
    """

    outcome: Outcome
    rules: Sequence[Rule]
    directory: Path
    with_summary: bool = True
    columns: int | None = None
    lead: Callable[[Report], Section] | None = None

    def path(self, path: str) -> str:
        """A root-relative path as the reader would write it."""
        return path_from(self.directory, self.outcome.root, path)

    def text(self, path: str) -> Text:
        """The text of a notebook; an empty one for other files, whose places need no text."""
        return self.outcome.all_texts.get(path, NO_TEXT) if path.endswith(SUFFIX) else NO_TEXT

    def part(self, path: str, position: Position) -> Part:
        """The part of a file, a cell of a notebook, that a position stands in."""
        return self.text(path).part(position.row)

    def place(self, path: str, position: Position) -> str:
        """A place, to be written at the beginning of a line: "train.py:12:5",
        "train.ipynb:cell 3:12:5"."""
        part = self.part(path, position)
        return escaping.place(part.of(self.path(path)), *part.place(position))

    def source(self, finding: Finding) -> tuple[Text, Span]:
        """The text that a finding is shown in, a file or a cell, and where it stands there.

        The text is empty where the file could not be read.
        """
        part = self.outcome.texts.get(finding.path, NO_TEXT).part(finding.span.start.row)
        return part.text, Span(part.place(finding.span.start), part.place(finding.span.end))

    def path_below(self, path: str) -> str:
        """The path for a service that knows the repository: from where amplint was started if the
        file is below, else from the root of the project."""
        relative = self.path(path)
        outside = relative.startswith("../") or os.path.isabs(relative)  # noqa: PTH117  (a string)
        return path if outside else relative

    def chain(self, finding: Finding) -> list[str]:
        """A line for each place that a finding rests on."""
        return [
            f"{self.place(related.path, related.span.start)}: {printable(related.message)}"
            for related in finding.related
        ]


def advice(finding: Finding) -> str:
    """The line on what to do: the fix of a finding, or the help of its rule; empty without both."""
    if finding.fix is not None:
        return f"fix: {printable(finding.fix.title)} ({APPLIED[finding.fix.safety]})"
    return f"help: {printable(finding.help)}" if finding.help else ""


STDIN = "-"  # the path of text from standard input that has no file name


def path_from(directory: Path, root: Path, path: str) -> str:
    """A root-relative path as seen from another directory, with forward slashes."""
    if path == STDIN:
        return path
    return seen_from(directory, root / path)


def render(name: str, report: Report) -> str:
    """The report in one of `FORMATS`, or of `STATISTICS`.

    Text may hold terminal styles, which `click.echo` strips.
    """
    return renderer(name)(report)


def renderer(name: str) -> Callable[[Report], str]:
    """The function that writes this format."""
    module = importlib.import_module(f"amplint.output.formats.{name.replace('-', '_')}")
    write: Callable[[Report], str] = module.render
    return write
