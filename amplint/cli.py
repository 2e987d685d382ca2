"""The command line. Exit status: 0 clean, 1 findings, 2 amplint could not do its work.

`verify` has a status of its own, 3: nothing was found, and nothing was shown.
"""

# The commands import what they need when they run, so that `amplint --help` waits for no LibCST.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from amplint import __version__

if TYPE_CHECKING:
    from amplint.engine import Outcome, Request
    from amplint.fixing import FixOutcome
    from amplint.text import Text

CLEAN, FINDINGS, FAILED = 0, 1, 2
STDIN = "-"
FORMATS = ("text", "concise", "json", "sarif", "github")
BEHIND = "amplint.behind"
WHERE = ("auto", "cuda", "sim", "policy", "cpu")
PROGRAM = (
    "entry", "inputs", "script", "pytest", "backend", "dtype", "steps", "timeout", "memory",
)  # fmt: skip

Command = TypeVar("Command", bound=Callable[..., int])


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
        click.echo("amplint: this is a bug in amplint; nothing was written", err=True)
    return FAILED


class Commands(click.Group):
    """The commands of this module, and `verify`, whose module is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "verify"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "verify":
            return super().get_command(ctx, cmd_name)
        from amplint.verify.command import verify

        return verify


class Running(click.Command):
    """A command that runs a program: what stands behind `--` goes to that script, or to pytest.

    An option that takes all of them would need quotes, and click takes no value for `--pytest`
    that begins with a dash.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            if any(arg.startswith(("--script", "--pytest")) for arg in args[:at]):
                ctx.meta[BEHIND] = args[at + 1 :]
                args = args[:at]
        return super().parse_args(ctx, args)


def behind() -> list[str]:
    """What stands behind `--` of the command that runs."""
    return list(click.get_current_context().meta.get(BEHIND, ()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="amplint", message="amplint %(version)s")
def cli() -> None:
    """Find and fix mistakes with devices, dtypes and autocast in PyTorch training code.

    Exit status: 0 nothing found, 1 findings, 2 amplint could not do its work.
    """


def comma_separated(_: click.Context, __: click.Parameter, values: Iterable[str]) -> list[str]:
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def pattern_with_codes(
    _: click.Context, parameter: click.Parameter, values: Iterable[str]
) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for value in values:
        pattern, colon, codes = value.rpartition(":")
        if not colon or not pattern or not codes:
            raise click.BadParameter(
                f"{value!r} is not of the form PATTERN:CODE,CODE", param=parameter
            )
        table.setdefault(pattern, []).extend(comma_separated(_, parameter, [codes]))
    return table


def settings_options(command: Command) -> Command:
    """The arguments that `check` and `fix` share."""
    many: dict[str, Any] = {"multiple": True, "callback": comma_separated}
    decorators = [
        click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATHS]..."),
        click.option("--select", metavar="CODES", help="Report these and no others.", **many),
        click.option("--ignore", metavar="CODES", help="Do not report these.", **many),
        click.option("--extend-select", metavar="CODES", help="Report these too.", **many),
        click.option(
            "--exclude", metavar="PATTERNS", help="Leave out files, as in .gitignore.", **many
        ),
        click.option(
            "--per-file-ignores",
            metavar="PATTERN:CODES",
            multiple=True,
            callback=pattern_with_codes,
            help="Do not report these in files that match.",
        ),
        click.option(
            "--target-torch", metavar="VERSION", help='The lowest torch to support, e.g. "2.4".'
        ),
        click.option(
            "--config",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Take [tool.amplint] from this file, not from the nearest pyproject.toml.",
        ),
        click.option(
            "--force-exclude",
            is_flag=True,
            help="Leave out excluded and ignored files even if they are named.",
        ),
        click.option(
            "--stdin-filename",
            metavar="PATH",
            help="With `-` as the path: the file that standard input stands for.",
        ),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def program_options(command: Command) -> Command:
    """What `verify` and `fix --verify` run, and how. `projects.options` reads them."""
    decorators = [
        click.option("--entry", metavar="MODULE:FUNCTION", help="Run this function."),
        click.option(
            "--inputs",
            metavar="MODULE:FUNCTION",
            help="Call the entry with what this one returns: a tuple, a dict, or one argument.",
        ),
        click.option(
            "--script",
            metavar="FILE",
            help="Run this script, with what stands behind `--` as its arguments.",
        ),
        click.option(
            "--pytest",
            metavar="[FILE]",
            is_flag=False,
            flag_value="",
            help="Run the tests, with what stands behind `--` as further arguments of pytest.",
        ),
        click.option(
            "--backend",
            type=click.Choice(WHERE),
            multiple=True,
            help="Where to run; auto is a GPU if there is one, else sim and policy.",
        ),
        click.option(
            "--dtype",
            type=click.Choice(["fp16", "bf16"]),
            help="What autocast casts to where the program does not say.",
        ),
        click.option(
            "--steps",
            type=click.IntRange(min=1),
            metavar="N",
            help="End a run after so many steps of optimizers.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=120,
            show_default=True,
            metavar="SECONDS",
            help="End a run after so long.",
        ),
        click.option(
            "--memory",
            type=click.FloatRange(min=0, min_open=True),
            default=8,
            show_default=True,
            metavar="GIB",
            help="What a run may take beyond torch itself.",
        ),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


@cli.command()
@settings_options
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--quiet", "-q", is_flag=True, help="Print findings and errors, nothing else.")
def check(format_: str, quiet: bool, **given: Any) -> int:
    """Report the mistakes in files and directories.

    Without PATHS, what is here; with `-`, standard input. The project around the paths is analysed
    too, so that what is found in a file does not depend on which others are named.
    """
    from amplint import engine

    request, _ = make_request(**given)
    outcome = engine.run(request)
    show(outcome, request, format_, quiet)
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
    from amplint import fixing

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
    fixed = fixing.fix_project(request, unsafe)
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
@click.argument("rule")
def explain(rule: str) -> int:
    """Print the page of a rule, given its code or name."""
    from amplint import registry

    try:
        found = registry.find(rule, rules_or_fail())
    except registry.UnknownRuleError as error:
        raise click.ClickException(str(error)) from error
    default = "on by default" if found.group.default else "off by default"
    since = f"since amplint {found.since}"
    needs = f", for torch {found.torch} and later" if found.torch else ""
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

    known = rules_or_fail()
    if format_ == "json":
        entries = [
            {
                "code": rule.code,
                "name": rule.name,
                "group": rule.group.value,
                "default": rule.group.default,
                "since": rule.since,
                "torch": rule.torch,
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
    from amplint import scaffold

    try:
        files = scaffold.create(Path.cwd(), code, name, rules_or_fail())
    except scaffold.ScaffoldError as error:
        raise click.ClickException(str(error)) from error
    for file in files:
        click.echo(f"wrote {file}")
    return CLEAN


# ------------------------------------------------------------------------------------- requests


class Failure(click.ClickException):
    """Something that ends the command with status 2 and a sentence."""

    exit_code = FAILED

    def show(self, file: Any = None) -> None:
        click.echo(f"amplint: {self.message}", err=True, file=file)


def rules_or_fail() -> tuple[Any, ...]:
    from amplint import registry

    try:
        return registry.all_rules()
    except registry.RegistryError as error:
        raise Failure(str(error)) from error


def make_request(
    paths: Sequence[str],
    stdin_filename: str | None,
    force_exclude: bool,
    config: Path | None,
    **options: Any,
) -> tuple[Request, Text | None]:
    """The request that the command line makes, and the text if it came from standard input."""
    from amplint import discover
    from amplint.config import ConfigError, load
    from amplint.engine import Request

    known = rules_or_fail()
    given = {key.replace("_", "-"): value for key, value in options.items() if value}
    from_stdin = STDIN in paths
    if from_stdin and len(paths) > 1:
        raise click.UsageError("`-` stands alone: standard input is one file")
    if stdin_filename is not None and not from_stdin:
        raise click.UsageError("--stdin-filename goes with `-` as the path")
    if from_stdin:
        paths = (stdin_filename,) if stdin_filename else ()
    else:
        paths = paths or (".",)
    try:
        settings = load(starting_point(paths), known, given, config)
    except ConfigError as error:
        raise Failure(str(error)) from error
    if not from_stdin:
        return Request(discover.project(paths, settings, force_exclude), settings, known), None

    text = text_of_stdin(stdin_filename)
    if stdin_filename is None:
        project = discover.lone_text(STDIN)
    else:
        project = discover.project(paths, settings, force_exclude, text_is_given=True)
    overlays = dict.fromkeys(project.reported, text.text)
    return Request(project, settings, known, overlays), text


def starting_point(paths: Sequence[str]) -> Path:
    """The directory from which the configuration is looked for."""
    first = Path(paths[0]) if paths else Path.cwd()
    return first if os.path.isdir(first) else first.parent  # noqa: PTH112  (never raises)


def text_of_stdin(name: str | None) -> Text:
    from amplint.text import Text, UndecodableError

    try:
        return Text.decode(sys.stdin.buffer.read())
    except UndecodableError as error:
        place = f"{name or 'standard input'}:{error.row}:{error.column}"
        raise Failure(f"{place}: {error.reason}") from error


# ------------------------------------------------------------------------------------- output


def show(outcome: Outcome, request: Request, format_: str = "text", quiet: bool = False) -> None:
    """Findings on standard output, amplint's own troubles on standard error."""
    from amplint.report import Report, render

    report = Report(outcome, request.rules, Path.cwd(), with_summary=not quiet)
    text = render(format_, report)
    if text:
        click.echo(text)
    if not quiet:
        for notice in outcome.notices:
            click.echo(f"amplint: {notice}", err=True)
    tell(outcome.problems)


def preview(fixed: FixOutcome, request: Request) -> int:
    """Show what would be written, and count what would be left."""
    from amplint.report import diff, path_from

    for path, text in fixed.after.items():
        shown = path_from(Path.cwd(), request.project.root, path)
        click.echo(diff.unified(shown, fixed.before[path].text, text), nl=False)
    left = len(fixed.outcome.findings)
    verdict = f"would fix {counts(fixed)}; --apply writes" if fixed.after else "nothing to fix"
    click.echo(f"{verdict}; {left} left, see `amplint check`" if left else verdict, err=True)
    tell(fixed.outcome.problems)
    return fixed.outcome.status or (FINDINGS if fixed.after else CLEAN)


def write_to_stdout(fixed: FixOutcome, text: Text, request: Request) -> int:
    """Give back the text of standard input with the fixes in it, and report on standard error."""
    from amplint.report import Report, render

    (path,) = request.project.reported or (STDIN,)
    sys.stdout.buffer.write(text.encode(fixed.after.get(path, text.text)))
    sys.stdout.flush()
    click.echo(render("text", Report(fixed.outcome, request.rules, Path.cwd())), err=True)
    tell(fixed.outcome.problems)
    return fixed.outcome.status


def counts(fixed: FixOutcome) -> str:
    findings, files = len(fixed.applied), len(fixed.after)
    return f"{findings} finding{'s' * (findings != 1)} in {files} file{'s' * (files != 1)}"


def tell(problems: Iterable[str]) -> None:
    for problem in problems:
        click.echo(f"amplint: {click.style('error', fg='red')}: {problem}", err=True)
