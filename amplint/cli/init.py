"""The command `amplint init`."""

# The command imports what it needs when it runs, so that its help waits for nothing.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from textwrap import indent
from typing import TYPE_CHECKING

import click

from amplint.output.console import CLEAN, FAILED, FINDINGS, tell, tell_notices
from amplint.util.escaping import printable_lines

if TYPE_CHECKING:
    from amplint.cli.first_files import FileStep
    from amplint.cli.recipes import CloneSource


@click.command()
@click.argument("directory", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--yes", is_flag=True, help="Write all files without asking.")
@click.option(
    "--from",
    "address",
    metavar="ADDRESS@COMMIT",
    help="Where the hook and CI install amplint from. Default: where it was installed from.",
)
def init(directory: str, yes: bool, address: str | None) -> int:
    """Write the settings, the pre-commit hook and the check in CI.

    It asks before each. Existing text is never changed: amplint creates a file, or appends lines
    where this is certain to be right; otherwise it shows the lines. A second run changes nothing.

    Without a terminal and without --yes, nothing is written. Status 1: something is left to do.
    """
    from amplint.cli import first_files, own_source
    from amplint.cli.first_files import FileWay, label
    from amplint.project import discover

    source = own_source.find() if address is None else named(address)
    root = discover.root_of(directory)
    asks = not yes and sys.stdin.isatty()
    remaining, problems = 0, list[str]()
    for step in first_files.steps(root, source):
        click.echo(printable_lines(description(step, done=yes)))
        if step.way is FileWay.NOTHING:
            continue
        if step.way is FileWay.BY_HAND or not (yes or asks):
            remaining += 1
        elif yes or click.confirm(f"{step.way.value} {label(step.file)}?", True):
            problems += write(step)
    tell(problems)
    if remaining and not (yes or asks):
        tell_notices(["nothing was written: there is no terminal to ask on, and no --yes"])
    if problems:
        return FAILED
    if yes or asks:
        click.echo("next: `amplint check`; `amplint baseline` first, if there are many findings")
    return FINDINGS if remaining else CLEAN


def named(address: str) -> CloneSource:
    """The source that the user names. Raises click.UsageError."""
    from amplint.cli.own_source import cleaned
    from amplint.cli.recipes import CloneSource

    start, _, commit = address.rpartition("@")
    source = CloneSource(cleaned(start), commit)
    if not source.is_plain:
        raise click.UsageError(
            f"--from {address!r} is not an ADDRESS@COMMIT that others can clone: https, ssh or "
            "git, as in https://.../amplint@v1.0"
        )
    return source


def description(step: FileStep, done: bool) -> str:
    """The sentence on what is done to a file, and the lines."""
    from amplint.cli.first_files import FileWay, label

    file, lines = label(step.file), indent(step.text.strip("\n"), "    ")
    if step.way is FileWay.NOTHING:
        return f"{step.purpose}: nothing to do: {step.why}"
    if step.way is FileWay.BY_HAND:
        return f"{step.purpose}: add this to {file} by hand: {step.why}\n\n{lines}\n"
    doing = "" if done else "would "
    return f"{step.purpose}: {doing}{step.way.value} {file}\n\n{lines}\n"


def write(step: FileStep) -> list[str]:
    """Write a file; what is wrong, if anything is."""
    from amplint.cli.first_files import FileWay, label
    from amplint.util import files, replacing

    name = label(step.file)
    if files.leads_out(step.file, step.home):
        return [f"{name}: a link leads out of the project"]
    try:
        if step.way is FileWay.APPEND:
            target = step.file.resolve()
            replacement = replacing.Replacement(target, step.after, expected=step.before)
            try:
                replacement.prepare()
                replacement.move()
            finally:
                replacement.discard()
        else:
            step.file.parent.mkdir(parents=True, exist_ok=True)
            with step.file.open("xb") as stream:  # another process may have been faster
                stream.write(step.after)
    except replacing.ChangedOnDiskError:
        return [f"{name}: has changed meanwhile, and was not written"]
    except OSError as error:
        return [f"{name}: cannot be written: {error.strerror or error}"]
    return []
