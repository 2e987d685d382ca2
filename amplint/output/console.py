"""The output of commands, and their exit statuses."""

# Some modules are imported where they are needed: a command pays for what it uses.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amplint.output import STATISTICS
from amplint.util import errors
from amplint.util.errors import Failure
from amplint.util.escaping import printable_lines

if TYPE_CHECKING:
    from amplint.fix.project_fixes import FixOutcome
    from amplint.output.formats import Report
    from amplint.output.html_page import Section
    from amplint.run.request import Outcome, Request
    from amplint.util.text import Text

CLEAN, FINDINGS, FAILED = 0, 1, 2
INTERRUPTED = 130  # as shells say it of a process that Ctrl-C has ended
STDIN = "-"


@dataclass(frozen=True)
class Output:
    """A report that is asked for.

    Args:
        format: its format, or one of `STATISTICS`.
        file: where it goes; None for standard output.
    """

    format: str
    file: Path | None = None


TEXT = Output("text")


def show(
    outcome: Outcome,
    request: Request,
    outputs: Sequence[Output] = (TEXT,),
    quiet: bool = False,
    order: str | None = None,
    lead: Callable[[Report], Section] | None = None,
    paths: Sequence[str] | None = None,
) -> None:
    """Findings on standard output or in files, amplint's own troubles on standard error.

    Args:
        lead: as in `Report`.
        paths: those that the user has named to `check`, for what a text at a terminal says of what
            can be done next; None to say nothing of that.
    """
    from amplint.facts.limits import lines_on
    from amplint.output.formats import Report, render
    from amplint.output.ordering import default_order
    from amplint.run.public_functions import summary

    plain = Report(outcome, request.rules, Path.cwd(), with_summary=not quiet, lead=lead)
    for output in outputs:
        by = order or default_order(output.format)
        report = replace(plain, outcome=in_order(outcome, by))
        if output.file is not None:
            write(render(output.format, report), output.file)
        else:
            if text := render(output.format, replace(report, columns=columns())):
                click.echo(text)
            if output == TEXT and paths is not None and not quiet and sys.stdout.isatty():
                say_next(outcome, request, paths)
    if not quiet:
        tell_notices(outcome.notices)
        if any(map(is_counted, outputs)):  # what is counted may not be all that there is
            tell_notices(lines_on(outcome.limited))
            tell_notices(summary(outcome.findings, outcome.offered))
    tell(outcome.problems)


def in_order(outcome: Outcome, order: str) -> Outcome:
    from amplint.output.ordering import ordered

    return replace(outcome, findings=ordered(outcome.findings, order, outcome.texts))


def say_next(outcome: Outcome, request: Request, paths: Sequence[str]) -> None:
    """Print what can be done next, where there is something."""
    from amplint.output.next_steps import hint

    if text := hint(outcome, request, paths):
        click.echo(click.style(printable_lines(text), dim=True))


def is_counted(output: Output) -> bool:
    """Whether a report has counts in place of the findings."""
    return output.format in STATISTICS.values()


def write(text: str, file: Path) -> None:
    """Write a report, without terminal styles."""
    written = f"{click.unstyle(text)}\n" if text else ""
    try:
        file.write_bytes(written.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise Failure(f"{file}: cannot be written: {error.strerror or error}") from error


def colored() -> bool | None:
    """Whether the environment wants styles, or wants none; None to leave it to the terminal."""
    if os.environ.get("NO_COLOR"):  # https://no-color.org
        return False
    return True if os.environ.get("FORCE_COLOR") else None  # https://force-color.org


def styled() -> bool | None:
    """Whether styles are wanted, or not, by the options or the environment."""
    context = click.get_current_context(silent=True)
    return colored() if context is None else context.color


def columns() -> int | None:
    """The columns that the environment or the terminal has; None without either."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isdecimal() and int(setting):
        return int(setting)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def preview(fixed: FixOutcome, request: Request, quiet: bool, unsafe: bool, writes: str) -> None:
    """Show what would be written, and count what would be left.

    Args:
        writes: the option that has it written.
    """
    from amplint.output.formats import diff, path_from

    exact = not (sys.stdout.isatty() or styled())  # it may go to a file, for `git apply`
    for path, text in fixed.after.items():
        name = path_from(Path.cwd(), request.selection.root, path)
        before = fixed.before[path]
        for line in needs(fixed, path):
            click.echo(line)  # `git apply` and `patch` skip what stands before a diff
        if exact:
            for label, *parts in before.changed_bytes(name, text):
                click.echo(diff.patch(label, *parts), nl=False)
        else:
            for label, *texts in before.changes(name, text):
                click.echo(diff.for_terminal(label, *texts), nl=False)
    remaining = len(fixed.outcome.findings)
    if not quiet:
        would = f"would fix {counts(fixed)}; {writes} writes the fixes"
        verdict = would if fixed.after else nothing(fixed, unsafe)
        verdict += f"; {remaining} left, see `amplint check`" if remaining else ""
        click.echo(verdict + ("" if unsafe else of_unsafe(fixed)), err=True)
    tell(fixed.outcome.problems)


def write_to_stdout(fixed: FixOutcome, text: Text, request: Request, quiet: bool) -> None:
    """Give back the text of standard input with the fixes in it, and report on standard error."""
    from amplint.output.formats import Report, render

    (path,) = request.selection.reported or (STDIN,)
    sys.stdout.buffer.write(text.encode(fixed.after.get(path, text.text)))
    sys.stdout.flush()
    report = Report(fixed.outcome, request.rules, Path.cwd(), with_summary=not quiet)
    if output := render("text", report):
        click.echo(output, err=True)
    tell(fixed.outcome.problems)


def needs(fixed: FixOutcome, path: str) -> list[str]:
    """A line for each version of torch that the fixes of a file need, and may not have."""
    codes: dict[str, set[str]] = {}
    for one in fixed.applied:
        if one.path == path and one.fix is not None and one.fix.needs_torch is not None:
            codes.setdefault(one.fix.needs_torch, set()).add(one.code)
    return [f"# {', '.join(sorted(codes[each]))}: needs torch {each}" for each in sorted(codes)]


def counts(fixed: FixOutcome) -> str:
    """Ex) 3 findings in 2 files, which reveals 1 other"""
    findings, files = fixed.fixed, len(fixed.after)
    others = f", which reveals {fixed.new} other{'s' * (fixed.new != 1)}" if fixed.new else ""
    return f"{findings} finding{'s' * (findings != 1)} in {files} file{'s' * (files != 1)}{others}"


def nothing(fixed: FixOutcome, unsafe: bool, unwritten: Collection[str] = ()) -> str:
    """A verdict for when no file has changed: there may be fixes all the same.

    Args:
        fixed: the outcome.
        unsafe: whether fixes that may change results were asked for.
        unwritten: what was said of each file that could not be written.
    """
    from amplint.fix.applying import SAFE, UNSAFE, fixable

    if unwritten:
        return f"fixed nothing: {len(unwritten)} file{'s' * (len(unwritten) != 1)} not written"
    fixes = fixable(fixed.outcome.findings, UNSAFE if unsafe else SAFE)
    return "no fix can be made" if fixes else "nothing to fix"


def of_unsafe(fixed: FixOutcome) -> str:
    """Ex) ; --unsafe would fix 2 more (1 waits for `target-torch`)"""
    from amplint.findings.finding import Safety

    findings = fixed.outcome.findings
    unsafe = [one.fix for one in findings if one.fix and one.fix.safety is Safety.UNSAFE]
    waiting = sum(fix.needs_torch is not None for fix in unsafe)
    waits = f" ({waiting} wait{'s' * (waiting == 1)} for `target-torch`)" if waiting else ""
    return f"; --unsafe would fix {len(unsafe)} more{waits}" if unsafe else ""


def tell_notices(notices: Iterable[str]) -> None:
    for notice in notices:
        click.echo(f"amplint: {printable_lines(notice)}", err=True)


def tell(problems: Iterable[str]) -> None:
    for problem in problems:
        errors.tell(problem)
