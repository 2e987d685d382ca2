"""The command line. Exit status: 0 clean, 1 findings, 2 amplint could not do its work, 130 Ctrl-C.

`verify` has a status of its own, 3: nothing was found, and nothing was shown.
"""

# The commands import what they need when they run, so that `amplint --help` waits for no LibCST.
# ruff: noqa: PLC0415

from __future__ import annotations

import errno
import gc
import os
import shlex
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from amplint import __version__
from amplint.cli import completion
from amplint.cli.adoption_options import adoption_of, adoption_options, baseline_options
from amplint.cli.options import (
    PROGRAM,
    ProgramCommand,
    behind,
    color_option,
    format_option,
    make_request,
    outputs_of,
    program_options,
    refuse_with,
    report_options,
    settings_options,
    unsafe_option,
)
from amplint.output.console import (
    CLEAN,
    FAILED,
    FINDINGS,
    INTERRUPTED,
    STDIN,
    Output,
    show,
    tell,
    tell_notices,
)
from amplint.util.errors import Failure, how_to_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give back the exit status: 0 to 3, or that of an interruption."""
    open_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal of another encoding shows \u2026 for …
            stream.reconfigure(errors="backslashreplace")
    try:
        status = cli.main(arguments, prog_name="amplint", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else CLEAN
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        with nullcontext() if context is None else context.scope(cleanup=False):
            tell([error.format_message()])
        if context is not None:
            click.echo(f"amplint: see `{context.command_path} --help`", err=True)
    except (click.Abort, KeyboardInterrupt) as error:
        # Where click sees it first, it is the cause. It may say which files are written.
        tell_notices([": ".join(filter(None, ("interrupted", str(error.__cause__ or error))))])
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not error.code:  # of a shell that completes a line
            return CLEAN
        # The reader has gone. (Where click sees that first, it exits by itself, with 1.) Python
        # would complain once more when it flushes at exit.
        drop_output()
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITABLE:
            return failed(arguments)
        drop_output()
        tell([f"the output cannot be written: {error.strerror}"])
    except Exception:
        return failed(arguments)
    return FAILED


# Of writing to a stream, that is: a full disk, a quota, a limit on the size of a file.
UNWRITABLE = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))


def open_streams() -> None:
    """Let what is written to a stream that the shell has closed (`>&-`) go nowhere. The first file
    that is opened would have the number of that stream."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            stream = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(stream, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115


def drop_output() -> None:
    """Let what is left to be flushed go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def failed(arguments: Sequence[str] | None) -> int:
    """Report a fault in amplint."""
    traceback.print_exc()
    command = ["amplint", *(sys.argv[1:] if arguments is None else arguments)]
    click.echo(f"amplint: {how_to_report(shlex.join(command))}", err=True)
    return FAILED


# The number of new objects before Python looks for cyclic garbage among them, of which there is
# little in trees and findings: with its own 700, that took 0.3 of 6 s of a fix of s3prl.
YOUNG = 10_000


def entry() -> int:
    """The exit status of a run of amplint, for a process that ends with it.

    Python searches all that is left for cyclic garbage before it ends: 1.4 s after a run over timm.
    """
    gc.set_threshold(YOUNG)
    status = main()
    gc.freeze()
    # A run that was ended may still work, in a thread that nobody waits for, and start processes.
    if any(thread.name.startswith("amplint") for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)
    return status


# The commands with modules of their own, which have their names.
ELSEWHERE = ("baseline", "init", "observe", "server", "verify")


class Commands(click.Group):
    """The commands of this module, and those whose modules are imported when asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"amplint.cli.{cmd_name}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except Failure as error:  # here, where it is known whether it has a color
            error.show()
            return FAILED


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,  # else click raises the help as an error: "amplint: error: Usage:"
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.version_option(
    __version__, "-V", "--version", package_name="amplint", message="amplint %(version)s"
)
@color_option
@click.pass_context
def cli(context: click.Context) -> int:
    """Find and fix mistakes with devices, dtypes and autocast in PyTorch training code.

    Exit status: 0 nothing found, 1 findings, 2 amplint could not do its work.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        return FAILED
    return CLEAN


@cli.command()
@settings_options
@adoption_options
@report_options
@click.option(
    "--fix/--no-fix",
    "write",
    help="Apply the safe fixes and report the remaining findings: `fix --apply`.",
)
@click.option("--diff", is_flag=True, help="Print the safe fixes as a diff; write nothing.")
@unsafe_option
@click.option("--watch", is_flag=True, help="Check again when a file changes; stop with Ctrl-C.")
@click.option("--quiet", "-q", is_flag=True, help="Print only findings and errors.")
@click.option(
    "--statistics", is_flag=True, help="Print the number of findings of each rule instead."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum number of processes. Default: one for each processor.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after SECONDS with status 2, and report nothing.",
)
def check(
    formats: list[Output],
    output_file: Path | None,
    sort: str | None,
    write: bool,
    diff: bool,
    unsafe: bool,
    watch: bool,
    quiet: bool,
    statistics: bool,
    jobs: int | None,
    timeout: float | None,
    **arguments: Any,
) -> int:
    """Report the mistakes in files and directories.

    Without PATHS, the current directory is checked; with `-`, standard input. The whole project
    around the paths is analysed, so the findings in a file do not depend on which files are named.

    With --fix, the findings that remain after the safe fixes decide the exit status. With --diff,
    the status is 1 if there is a diff, else 0.
    """
    from amplint.cli.time_limit import time_limit
    from amplint.util import progress

    outputs = outputs_of(formats, output_file, statistics)
    adoption = adoption_of(arguments)
    limits = {"--add-ignores": adoption.add_ignores, "--timeout": timeout}
    reports = {"--format": formats, "--output-file": output_file, "--statistics": statistics}
    from_stdin = STDIN in arguments["paths"]
    if write or diff:
        refuse_with("--fix and --diff", {**adoption.revisions, **limits})
        if diff or from_stdin:  # what goes to standard output is no report
            refuse_with("--diff" if diff else "--fix and `-`", reports)
    if watch:
        others = {"--fix": write, "--diff": diff, "--show-settings": adoption.show_settings}
        refuse_with("--watch", {**others, **limits, **reports, "`-`": from_stdin})
        from amplint.cli import watching

        return watching.RepeatedCheck(adoption, arguments, jobs, quiet, sort).run()
    request, text = make_request(**arguments)
    if adoption.show_settings:
        from amplint.cli import settings

        return settings.show(request)
    if write or diff:
        from amplint.cli import fixing

        how = fixing.Fixing(not diff, unsafe, quiet, "--fix", outputs, sort)
        baselines = adoption.baselines(request)
        result = fixing.make(replace(request, jobs=jobs), text, baselines, how)
        if not diff:
            return adoption.status(result.outcome)
        if result.outcome.problems:
            return FAILED
        return FINDINGS if result.would_change and not adoption.exit_zero else CLEAN
    with time_limit(timeout), progress.terminal_progress(sys.stderr, is_on=not quiet) as display:
        request = replace(request, progress=display, jobs=jobs)
        outcome = adoption.run(request)
    show(outcome, request, outputs, quiet, sort, paths=arguments["paths"])
    return adoption.status(outcome)


@cli.command(cls=ProgramCommand)
@settings_options
@baseline_options
@click.option("--apply", "write", is_flag=True, help="Write the fixes to the files.")
@unsafe_option
@click.option(
    "--verify",
    is_flag=True,
    help="Run a program before and after the fixes, and apply the verified ones.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print only findings and errors.")
@program_options
def fix(
    write: bool, unsafe: bool, verify: bool, no_baseline: bool, quiet: bool, **arguments: Any
) -> int:
    """Show the safe fixes as a diff, or --apply them.

    The findings that remain after the fixes are reported, and decide the exit status. Without
    --apply nothing is written, and the status is 1 if there is anything to fix. --apply --verify
    runs the program named by --entry, --script or --pytest, with your user rights; see
    `amplint verify --help`.
    """
    from amplint.adoption import baseline
    from amplint.cli import fixing

    program = {name: arguments.pop(name) for name in PROGRAM}
    if verify and not write:
        raise click.UsageError("--verify needs --apply; to see verdicts, use `amplint verify`")
    if not verify and any(program[name] for name in ("entry", "script", "pytest")):
        raise click.UsageError("--entry, --script and --pytest need --verify")
    request, text = make_request(**arguments)
    baselines = {} if no_baseline else baseline.of_run(request)
    if verify:
        from amplint_verify import projects

        options = projects.options(request, unsafe=unsafe, arguments=behind(), **program)
        return projects.fix(request, options, baselines)
    # A text from standard input is nobody's file: its fixed form is what is asked for.
    writes = write or text is not None
    how = fixing.Fixing(writes, unsafe, quiet, "--apply")
    result = fixing.make(request, text, baselines, how)
    return result.outcome.status or (FINDINGS if result.would_change else CLEAN)


@cli.command()
@click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATHS]...")
def clean(paths: tuple[str, ...]) -> int:
    """Delete the cache of `check` and `fix`.

    This is the directory .amplint_cache in the root of the project that PATHS (default: the current
    directory) belong to. Files that a killed `fix` has left are deleted too.
    """
    from amplint.project import discover
    from amplint.run import cache
    from amplint.util import replacing

    for root in sorted({discover.root_of(path) for path in paths or (".",)}):
        directory = root / cache.NAME
        try:
            deleted = cache.Cache(directory).clean()
        except OSError as error:
            raise Failure(f"{directory}: cannot be deleted: {error.strerror or error}") from error
        message = f"deleted {directory}" if deleted else f"there is no {cache.NAME} in {root}"
        click.echo(message, err=True)
        if count := replacing.delete(replacing.left_below(root)):
            click.echo(
                f"deleted {count} file{'s' * (count != 1)} left by a fix that was killed", err=True
            )
    return CLEAN


@cli.command()
@click.argument("rule", required=False, shell_complete=completion.rules)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Print the pages of all rules; with --at, why each of them is silent.",
)
@format_option("text", "json", "markdown", default=None, help="The format of rule pages.")
@click.option(
    "--model", metavar="NAME", help="Print the model of a framework, by its name or FILE."
)
@click.option("--model-schema", is_flag=True, help="Print the JSON Schema of models.")
@click.option("--settings-schema", is_flag=True, help="Print the JSON Schema of the settings.")
@click.option(
    "--at",
    "place",
    metavar="FILE:LINE",
    help="Print what amplint knows about a line, and why rules are silent there. In a notebook: "
    "FILE:CELL:LINE. A place copied from a report works too.",
)
@color_option
def explain(
    rule: str | None,
    every: bool,
    format_: str | None,
    model: str | None,
    model_schema: bool,
    settings_schema: bool,
    place: str | None,
) -> int:
    """Explain a rule, a framework, a line or a word.

    RULE is a code or a name, or a word of the reports, such as `hot`. With --at, only this rule is
    explained; without RULE, those that report something, and the nearest of the others.
    """
    if every:
        refuse_with("--all", {"RULE": rule})
    if format_ is not None or (every and place is None):
        schemas = {"--model-schema": model_schema, "--settings-schema": settings_schema}
        others = {"--at": place, "--model": model, **schemas}
        refuse_with("--format" if format_ is not None else "--all", others)
    if model_schema:
        from amplint.frameworks.model_text import schema

        click.echo(schema())
        return CLEAN
    if settings_schema:
        from amplint.project.config import schema_of_settings

        click.echo(schema_of_settings(), nl=False)
        return CLEAN
    if model is not None:
        from amplint.frameworks.model_reading import ModelError
        from amplint.frameworks.model_text import text_of
        from amplint.util.escaping import lines_without_controls

        try:
            click.echo(lines_without_controls(text_of(model)))
        except ModelError as error:
            raise Failure(str(error)) from error
        return CLEAN
    from amplint.knowledge.glossary import GLOSSARY
    from amplint.output import rule_list
    from amplint.rule import registry

    if rule is None and place is None and not every:
        raise click.UsageError("Missing argument 'RULE', or --all, or --at, or --model.")
    word = rule.lower() if rule is not None else ""
    if word in GLOSSARY and place is None and format_ is None:
        click.echo(click.wrap_text(f"{word}: {GLOSSARY[word]}", 80))
        return CLEAN
    all_rules = registry.all_rules()
    try:
        match = registry.find(rule, all_rules) if rule is not None else None
    except registry.UnknownRuleError as error:
        raise Failure(str(error)) from error
    if place is not None:
        from amplint.cli import line

        line.explain(place, match, every)
        return CLEAN
    if match is None:
        click.echo(rule_list.pages(all_rules, format_ or "text"))
    else:
        click.echo(rule_list.page(match, format_ or "text"))
    return CLEAN


@cli.command()
@format_option("text", "json", default="text")
def rules(format_: str) -> int:
    """List all rules."""
    from amplint.output import rule_list
    from amplint.rule import registry

    listed = registry.all_rules()
    click.echo(rule_list.pages(listed, "json") if format_ == "json" else rule_list.lines(listed))
    return CLEAN


@cli.command()
@click.argument("code")
@click.argument("name")
@click.option(
    "--package", metavar="PACKAGE", help="Create a package of rules, with this rule in it."
)
def new(code: str, name: str, package: str | None) -> int:
    """Create a rule with its bad and its good example.

    Run it in a checkout of amplint, e.g. `amplint new AMP199 my-pattern`, or in a package of rules.
    `amplint new --package acme-rules ACM101 my-pattern` creates such a package.
    """
    from amplint.cli import new_rule
    from amplint.rule import registry

    try:
        all_rules = registry.all_rules()
        if package is not None:
            files = new_rule.create_package(Path.cwd(), package, code, name, all_rules)
        else:
            files = new_rule.create(Path.cwd(), code, name, all_rules)
    except new_rule.ScaffoldError as error:
        raise Failure(str(error)) from error
    for file in files:
        click.echo(f"wrote {file}")
    return CLEAN
