"""The output of commands, and their exit statuses."""

# Some modules are imported where they are needed: a command pays for what it uses.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amplint.core import errors

if TYPE_CHECKING:
    from amplint.core.text import Text
    from amplint.output.fixing import FixOutcome
    from amplint.run.request import Outcome, Request
    from amplint.run.timing import Timing

CLEAN, FINDINGS, FAILED = 0, 1, 2
STDIN = "-"


def show(outcome: Outcome, request: Request, format_: str = "text", quiet: bool = False) -> None:
    """Findings on standard output, amplint's own troubles on standard error."""
    from amplint.output.formats import Report, render

    report = Report(outcome, request.rules, Path.cwd(), with_summary=not quiet)
    text = render(format_, report)
    if text:
        click.echo(text)
    if not quiet:
        tell_notices(outcome.notices)
    tell(outcome.problems)


def tell_timing(timing: Timing, root: Path) -> None:
    """Print the time that the run has taken on standard error, so that no format changes."""
    from amplint.output.formats import path_from
    from amplint.run.timing import render, until_now

    text = render(timing, *until_now(timing), lambda path: path_from(Path.cwd(), root, path))
    click.echo(f"amplint: {text}", err=True)


def preview(fixed: FixOutcome, request: Request, quiet: bool = False) -> int:
    """Show what would be written, and count what would be left."""
    from amplint.output.formats import diff, path_from

    for path, text in fixed.after.items():
        shown = path_from(Path.cwd(), request.project.root, path)
        click.echo(diff.unified(shown, fixed.before[path].text, text), nl=False)
    left = len(fixed.outcome.findings)
    verdict = f"would fix {counts(fixed)}; --apply writes" if fixed.after else "nothing to fix"
    if not quiet:
        click.echo(f"{verdict}; {left} left, see `amplint check`" if left else verdict, err=True)
    tell(fixed.outcome.problems)
    return fixed.outcome.status or (FINDINGS if fixed.after else CLEAN)


def write_to_stdout(fixed: FixOutcome, text: Text, request: Request, quiet: bool = False) -> int:
    """Give back the text of standard input with the fixes in it, and report on standard error."""
    from amplint.output.formats import Report, render

    (path,) = request.project.reported or (STDIN,)
    sys.stdout.buffer.write(text.encode(fixed.after.get(path, text.text)))
    sys.stdout.flush()
    report = Report(fixed.outcome, request.rules, Path.cwd(), with_summary=not quiet)
    if said := render("text", report):
        click.echo(said, err=True)
    tell(fixed.outcome.problems)
    return fixed.outcome.status


def counts(fixed: FixOutcome) -> str:
    """Ex) 3 findings in 2 files, which brings up 1 other"""
    findings, files = fixed.fixed, len(fixed.after)
    others = f", which brings up {fixed.new} other{'s' * (fixed.new != 1)}" if fixed.new else ""
    return f"{findings} finding{'s' * (findings != 1)} in {files} file{'s' * (files != 1)}{others}"


def tell_notices(notices: Iterable[str]) -> None:
    for notice in notices:
        click.echo(f"amplint: {notice}", err=True)


def tell(problems: Iterable[str]) -> None:
    for problem in problems:
        errors.tell(problem)
