"""Reports of a run, for readers and for machines."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amplint.core.rule import Rule

if TYPE_CHECKING:
    from amplint.run.request import Outcome

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
