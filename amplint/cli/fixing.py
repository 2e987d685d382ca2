"""The work of `fix`, `check --fix` and `check --diff`: show the fixes, or write them."""

# Some modules are imported where they are needed: a command pays for what it uses.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from amplint.output.console import (
    TEXT,
    Output,
    counts,
    nothing,
    of_unsafe,
    preview,
    show,
    tell_notices,
    write_to_stdout,
)

if TYPE_CHECKING:
    from amplint.adoption.baseline import Known
    from amplint.run.request import Outcome, Request
    from amplint.util.text import Text


@dataclass(frozen=True)
class Fixing:
    """The way in which fixes are made, and the output.

    Args:
        write: whether the files are changed; else the changes are printed.
        unsafe: whether fixes that may change results are made too.
        quiet: whether nothing but findings and errors is printed.
        writes: the option that has the changes written.
        outputs, order: the reports of what is left, as in `show`.
    """

    write: bool
    unsafe: bool
    quiet: bool
    writes: str
    outputs: Sequence[Output] = (TEXT,)
    order: str | None = None


@dataclass(frozen=True)
class Made:
    """The outcome of making fixes.

    Args:
        outcome: what is left to report, and what could not be done.
        would_change: whether there are changes that were printed and not made.
    """

    outcome: Outcome
    would_change: bool


def make(request: Request, text: Text | None, baselines: Known, how: Fixing) -> Made:
    """Make the fixes, or show them, and report what is left.

    Args:
        request: which files, and what is to be reported of them.
        text: what came from standard input, to which the fixed text goes.
        baselines: the known findings, which are not reported.
        how: see there.
    """
    from amplint.adoption import baseline
    from amplint.fix.project_fixes import fix_project, write_project
    from amplint.util import progress

    with progress.terminal_progress(sys.stderr, is_on=not how.quiet) as display:
        fixed = fix_project(replace(request, progress=display), how.unsafe)
    problems: tuple[str, ...] = ()
    if how.write and text is None:
        fixed, problems = write_project(request, fixed, how.unsafe)
        if fixed.after:
            baselines, outcome = baseline.keep_in_step(fixed.first, fixed.outcome, baselines)
            fixed = replace(fixed, outcome=outcome)
    outcome = baseline.without_known(fixed.outcome, baselines, request)
    outcome = replace(outcome, problems=(*outcome.problems, *problems))
    fixed = replace(fixed, outcome=outcome)
    if not how.quiet:
        tell_notices(fixed.withheld)
    if how.write and text is not None:
        write_to_stdout(fixed, text, request, how.quiet)
    elif not how.write:
        preview(fixed, request, how.quiet, how.unsafe, how.writes)
        return Made(outcome, would_change=bool(fixed.after))
    else:
        show(outcome, request, how.outputs, how.quiet, how.order)
        if not how.quiet:
            summary = f"fixed {counts(fixed)}"
            verdict = summary if fixed.after else nothing(fixed, how.unsafe, problems)
            click.echo(verdict + ("" if how.unsafe else of_unsafe(fixed)), err=True)
    return Made(outcome, would_change=False)
