"""The command line. Exit status: 0 clean, 1 findings, 2 amplint could not do its work.

`verify` has a status of its own, 3: nothing was found, and nothing was shown.
"""

# The commands import what they need when they run, so that `amplint --help` waits for no LibCST.
# ruff: noqa: PLC0415

from __future__ import annotations

import gc
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from amplint import __version__
from amplint.cli.options import (
    PROGRAM,
    Running,
    behind,
    make_request,
    program_options,
    settings_options,
)
from amplint.core.errors import how_to_report
from amplint.output.console import (
    CLEAN,
    FAILED,
    counts,
    preview,
    show,
    tell,
    tell_timing,
    write_to_stdout,
)

FORMATS = ("text", "concise", "json", "sarif", "github")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give back the exit status, 0 to 3 whatever happens."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal of another encoding shows \u2026 for …
            stream.reconfigure(errors="backslashreplace")
    try:
        status = cli.main(arguments, prog_name="amplint", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else CLEAN
    except click.ClickException as error:
        error.show()
    except (click.Abort, KeyboardInterrupt):
        click.echo("amplint: interrupted", err=True)
    except (BrokenPipeError, SystemExit):
        # The reader has gone. (Where click sees that first, it exits by itself, with 1.) Python
        # would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception:
        traceback.print_exc()
        command = ["amplint", *(sys.argv[1:] if arguments is None else arguments)]
        click.echo(f"amplint: {how_to_report(shlex.join(command))}; nothing was written", err=True)
    return FAILED


def entry() -> int:
    """The same for a process that ends with it.

    Python searches all that is left for cyclic garbage before it ends: 1.4 s after a run over timm.
    """
    status = main()
    gc.freeze()
    return status


class Commands(click.Group):
    """The commands of this module, and those whose modules are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "server", "verify"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "server":
            from amplint.cli.server import server

            return server
        if cmd_name == "verify":
            from amplint.cli.verify import verify

            return verify
        return super().get_command(ctx, cmd_name)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="amplint", message="amplint %(version)s")
def cli() -> None:
    """Find and fix mistakes with devices, dtypes and autocast in PyTorch training code.

    Exit status: 0 nothing found, 1 findings, 2 amplint could not do its work.
    """


@cli.command()
@settings_options
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--quiet", "-q", is_flag=True, help="Print findings and errors, nothing else.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead.")
@click.option("--timing", is_flag=True, help="Tell which rules and files have taken longest.")
def check(format_: str, quiet: bool, statistics: bool, timing: bool, **given: Any) -> int:
    """Report the mistakes in files and directories.

    Without PATHS, what is here; with `-`, standard input. The project around the paths is analysed
    too, so that what is found in a file does not depend on which others are named.
    """
    from amplint.core import progress
    from amplint.run import engine

    measured = None
    if timing:
        from amplint.run.timing import Timing

        measured = Timing()
    if statistics and format_ != "text":
        raise click.UsageError("--statistics goes with --format text")
    request, _ = make_request(**given)
    with progress.shown(sys.stderr, wanted=not quiet) as shown:
        outcome = engine.run(replace(request, timing=measured, progress=shown))
    show(outcome, request, "statistics" if statistics else format_, quiet)
    if measured is not None:
        tell_timing(measured, outcome.root)
    return outcome.status


@cli.command(cls=Running)
@settings_options
@click.option("--apply", "write", is_flag=True, help="Write the fixes to the files.")
@click.option("--unsafe", is_flag=True, help="Take also fixes that may change results.")
@click.option(
    "--verify", is_flag=True, help="Run a program before and after, and apply what is verified."
)
@program_options
def fix(write: bool, unsafe: bool, verify: bool, **given: Any) -> int:
    """Show the safe fixes as a diff, or --apply them.

    What is left after the fixes is reported and decides the exit status. Without --apply nothing
    is written, and the status is 1 if there is anything to fix. With --apply --verify, the program
    named by --entry, --script or --pytest is run, with your rights; see `amplint verify --help`.
    """
    from amplint.core import progress
    from amplint.output import fixing

    program = {name: given.pop(name) for name in PROGRAM}
    if verify and not write:
        raise click.UsageError("--verify goes with --apply; to see verdicts, use `amplint verify`")
    if not verify and any(program[name] for name in ("entry", "script", "pytest")):
        raise click.UsageError("what to run is for --verify")
    request, text = make_request(**given)
    if verify:
        from amplint.verify import projects

        options = projects.options(request, unsafe=unsafe, arguments=behind(), **program)
        return projects.fix(request, options)
    with progress.shown(sys.stderr) as shown:
        fixed = fixing.fix_project(replace(request, progress=shown), unsafe)
    if text is not None:
        return write_to_stdout(fixed, text, request)
    if not write:
        return preview(fixed, request)
    problems = fixing.write_project(request, fixed)
    show(fixed.outcome, request)
    tell(problems)
    click.echo(f"fixed {counts(fixed)}" if fixed.after else "nothing to fix", err=True)
    return FAILED if problems else fixed.outcome.status


@cli.command()
@click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATHS]...")
def clean(paths: tuple[str, ...]) -> int:
    """Delete what `check` and `fix` have kept of earlier runs.

    That is the directory .amplint_cache of the project around PATHS, or around where you are.
    """
    from amplint.project import discover
    from amplint.run import cache

    for root in sorted({discover.root_of(path) for path in paths or (".",)}):
        directory = root / cache.NAME
        if cache.Cache(directory).clean():
            click.echo(f"deleted {directory}", err=True)
        else:
            click.echo(f"there is no {cache.NAME} in {root}", err=True)
    return CLEAN


@cli.command()
@click.argument("rule")
def explain(rule: str) -> int:
    """Print the page of a rule, given its code or name."""
    from amplint.core import registry

    try:
        found = registry.find(rule, registry.all_rules())
    except registry.UnknownRuleError as error:
        raise click.ClickException(str(error)) from error
    default = "on by default" if found.group.default else "off by default"
    since = f"since amplint {found.since}"
    needs = f", for torch {found.torch} and later" if found.torch else ""
    needs += f", for a target-torch below {found.until}" if found.until else ""
    click.echo(click.style(f"{found.code} {found.name}", bold=True))
    click.echo(f"{found.group.value}, {default}, {since}{needs}\n")
    click.echo(found.doc.strip())
    if found.safe_if:
        click.echo("\nA safe fix rests on some of these, and names them:\n")
        for condition in found.safe_if:
            click.echo(f"- {condition}")
    return CLEAN


@cli.command()
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text")
def rules(format_: str) -> int:
    """List all rules."""
    import json

    from amplint.core import registry

    known = registry.all_rules()
    if format_ == "json":
        entries = [
            {
                "code": rule.code,
                "name": rule.name,
                "group": rule.group.value,
                "default": rule.group.default,
                "since": rule.since,
                "torch": rule.torch,
                "until": rule.until,
                "safe_if": list(rule.safe_if),
                "summary": rule.summary,
                "doc": rule.doc.strip(),
            }
            for rule in known
        ]
        click.echo(json.dumps(entries, indent=2))
        return CLEAN
    width = max(len(rule.name) for rule in known)
    for rule in known:
        group = rule.group.value if rule.group.default else f"{rule.group.value}, off"
        click.echo(f"{rule.code}  {rule.name:{width}}  {group:13}  {rule.summary}")
    return CLEAN


@cli.command()
@click.argument("code")
@click.argument("name")
def new(code: str, name: str) -> int:
    """Start a rule, its bad and its good program.

    To be run in a checkout of amplint, e.g. `amplint new AMP199 my-pattern`.
    """
    from amplint.cli import new_rule
    from amplint.core import registry

    try:
        files = new_rule.create(Path.cwd(), code, name, registry.all_rules())
    except new_rule.ScaffoldError as error:
        raise click.ClickException(str(error)) from error
    for file in files:
        click.echo(f"wrote {file}")
    return CLEAN
