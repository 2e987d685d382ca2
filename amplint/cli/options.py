"""The arguments and options of the commands, and the request that they make."""

# Some modules are imported where they are needed: a command pays for what it uses.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from amplint.cli import completion
from amplint.output import FORMATS, STATISTICS
from amplint.output.console import STDIN, Output, colored
from amplint.project.modes import MODES
from amplint.util.errors import Failure

if TYPE_CHECKING:
    from amplint.project.discover import Selection
    from amplint.project.settings_hierarchy import SettingsHierarchy
    from amplint.run.request import Request
    from amplint.util.text import Text

BEHIND = "amplint.behind"
WHERE = ("auto", "cuda", "sim", "policy", "cpu")
PROGRAM = (
    "entry", "inputs", "script", "pytest", "backend", "dtype", "steps", "timeout", "memory",
)  # fmt: skip

Command = TypeVar("Command", bound=Callable[..., int])


UNDER = "--under"


class ProgramCommand(click.Command):
    """A command that runs a program, whose own arguments come last.

    `--script train.py --epochs 1` and `--pytest -k small` hand on all that follows, as Python does
    with the arguments of a script; with `--` in between, options may stand before it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, program = divide(args)
        ctx.meta[BEHIND] = program
        return super().parse_args(ctx, own)


def divide(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments of the command, and those of the script or of pytest that it runs."""
    named = [at for at, arg in enumerate(args) if arg.startswith(("--script", "--pytest"))]
    if not named:
        return list(args), []
    at = named[0]
    end = at + 2 if args[at] == "--script" else at + 1
    if "--" in args[end:]:
        end = args.index("--", end)
    own, rest = list(args[:end]), list(args[end:])
    if UNDER in rest and args[at].startswith("--pytest"):  # pytest has no option of that name
        place = rest.index(UNDER)
        own += rest[place : place + 2]
        del rest[place : place + 2]
    return own, rest[1:] if rest[:1] == ["--"] else rest


def behind() -> list[str]:
    """The arguments of the script, or of pytest, that the command runs."""
    return list(click.get_current_context().meta.get(BEHIND, ()))


def comma_separated(_: click.Context, __: click.Parameter, values: Iterable[str]) -> list[str]:
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def codes_to_report(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> list[str]:
    """Of a variable that is not set, nothing would be left to report, and the run would pass."""
    codes = comma_separated(context, parameter, values)
    if values and not codes:
        raise click.BadParameter("names no rule", param=parameter)
    return codes


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


@dataclass(frozen=True)
class Configured:
    """The values of `--config`.

    Args:
        file: the file whose settings hold for all files.
        settings: settings that were written there, by key, over those of files.
    """

    file: Path | None = None
    settings: Mapping[str, object] = field(default_factory=dict)


NOT_CONFIGURED = Configured()


def configuration(
    _: click.Context, parameter: click.Parameter, values: Iterable[str]
) -> Configured:
    """A value that is a file, or has no `=` in it, is a file; all else is TOML."""
    configured = NOT_CONFIGURED
    for value in values:
        if "=" in value and not os.path.exists(value):  # noqa: PTH110  (never raises)
            settings = {**configured.settings}
            for key, one in toml(value, parameter).items():
                before = settings.get(key)
                if isinstance(before, dict) and isinstance(one, dict):
                    one = {**before, **one}  # noqa: PLW2901  (tables of patterns, one after another)
                settings[key] = one
            configured = replace(configured, settings=settings)
        elif configured.file is not None:
            raise click.BadParameter("names two files", param=parameter)
        else:
            configured = replace(configured, file=Path(value))
    return configured


def toml(text: str, parameter: click.Parameter) -> dict[str, object]:
    from amplint.util.toml import loads

    try:
        return loads(text)
    except (ValueError, RecursionError) as error:
        message = f"{text!r} is neither a file nor a setting in TOML: {error}"
        raise click.BadParameter(f"{message}; put text in quotes", param=parameter) from error


def format_and_file(
    _: click.Context, parameter: click.Parameter, values: Iterable[str]
) -> list[Output]:
    """The reports that `--format` asks for; pylint and golangci-lint write them so, too."""
    outputs = []
    for value in values:
        name, colon, file = value.partition(":")
        if name not in FORMATS:
            choices = ", ".join(map(repr, FORMATS))
            raise click.BadParameter(f"{name!r} is not one of {choices}.", param=parameter)
        if colon and not file:
            raise click.BadParameter(f"{value!r} names no file after the colon.", param=parameter)
        outputs.append(Output(name, Path(file) if file else None))
    return outputs


def outputs_of(formats: Sequence[Output], file: Path | None, statistics: bool) -> list[Output]:
    """The reports of a run, of which one at most goes to standard output, or to `file`."""
    outputs = list(formats) or [Output("text")]
    if statistics:
        if any(output.format not in STATISTICS for output in outputs):
            raise click.UsageError(f"--statistics needs --format {' or '.join(STATISTICS)}")
        outputs = [Output(STATISTICS[output.format], output.file) for output in outputs]
    unnamed = [output for output in outputs if output.file is None]
    if len(unnamed) > 1:
        raise click.UsageError(
            "of several formats, all except one need a file: --format sarif:FILE"
        )
    if file is not None:
        if not unnamed:
            raise click.UsageError("--output-file needs a format without a file of its own")
        outputs = [output if output.file else Output(output.format, file) for output in outputs]
    files = [output.file for output in outputs if output.file is not None]
    for one in files:
        if files.count(one) > 1:
            raise click.UsageError(f"two reports would be written to {one}")
        if one.is_dir() or not one.parent.is_dir():
            raise click.UsageError(f"{one} is not a file that can be written")
    return outputs


def refuse_with(option: str, others: Mapping[str, object]) -> None:
    """Raises click.UsageError for an option that was given and does not go with another one."""
    for other, value in others.items():
        if value:
            raise click.UsageError(f"{other} cannot be combined with {option}")


def report_options(command: Command) -> Command:
    """The reports of `check`."""
    decorators = [
        click.option(
            "--format",
            "--output-format",
            "formats",
            metavar="FORMAT[:FILE]",
            multiple=True,
            callback=format_and_file,
            shell_complete=completion.formats,
            help=f"{', '.join(FORMATS)}; with a file, it can be repeated. Default: text.",
        ),
        click.option(
            "--output-file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Write the report there, not to standard output.",
        ),
        click.option(
            "--sort",
            type=click.Choice(["path", "rule", "cost"]),
            help="The order of findings; cost: the most expensive first. Default: path; of text, "
            "cost, and last, in a line each, what costs time only once.",
        ),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def format_option(
    *names: str, default: str | None, help: str | None = None
) -> Callable[[Command], Command]:
    """The form of a command that prints one thing alone, by both names of the option."""
    return click.option(
        "--format",
        "--output-format",
        "format_",
        type=click.Choice(names),
        default=default,
        show_default=True,
        help=help,
    )


def color_option(command: Command) -> Command:
    """`--color`, which may stand before the command or among its options."""
    option = click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        expose_value=False,
        is_eager=True,
        callback=choose_color,
        help="auto: depends on the terminal, NO_COLOR and FORCE_COLOR. Default: auto.",
    )
    return option(command)


def choose_color(context: click.Context, _: click.Parameter, when: str | None) -> None:
    root = context.find_root()
    if when is not None or context is root:
        root.color = {"always": True, "never": False}.get(when or "auto", colored())
        context.color = root.color


def unsafe_option(command: Command) -> Command:
    """The option of what makes fixes; ruff's name for it is known too."""
    option = click.option(
        "--unsafe",
        "--unsafe-fixes",
        "unsafe",
        is_flag=True,
        help="Include fixes that may change results.",
    )
    return option(command)


def settings_options(command: Command) -> Command:
    """The arguments that `check` and `fix` share."""
    many: dict[str, Any] = {"multiple": True, "callback": comma_separated}
    codes: dict[str, Any] = {**many, "shell_complete": completion.selectors}
    decorators = [
        click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATHS]..."),
        click.option(
            "--select",
            metavar="CODES",
            multiple=True,
            callback=codes_to_report,
            shell_complete=completion.selectors,
            help="Report only these.",
        ),
        click.option("--ignore", metavar="CODES", help="Do not report these.", **codes),
        click.option("--extend-select", metavar="CODES", help="Report these too.", **codes),
        click.option(
            "--extend-ignore",
            metavar="CODES",
            help="Do not report these either; --ignore replaces what the settings ignore.",
            **codes,
        ),
        click.option(
            "--preview/--no-preview", default=None, help="Also run rules that are in preview."
        ),
        click.option(
            "--exclude",
            metavar="PATTERNS",
            help="Exclude files; patterns as in .gitignore.",
            **many,
        ),
        click.option(
            "--extend-exclude",
            metavar="PATTERNS",
            help="Exclude these too; --exclude replaces what the settings exclude.",
            **many,
        ),
        click.option(
            "--roots", metavar="DIRECTORIES", help="Analyse these as separate projects.", **many
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
            "--assume-autocast",
            type=click.Choice(["auto", "true", "false"]),
            help="Whether modules and losses without a visible caller run under autocast; true: "
            "as --under, in the project's dtype. Default: if the project shows that it uses "
            "autocast.",
        ),
        click.option(
            UNDER,
            type=click.Choice([*MODES]),
            help="The precision in which callers run the public functions and modules.",
        ),
        click.option(
            "--config",
            metavar="FILE|KEY=VALUE",
            multiple=True,
            callback=configuration,
            shell_complete=click.Path().shell_complete,
            help="Use this file's settings for all files, or this setting, written as in a file: "
            "'ignore = [\"AMP101\"]'.",
        ),
        click.option(
            "--force-exclude",
            is_flag=True,
            help="Skip excluded and ignored files even if they are named.",
        ),
        click.option(
            "--no-cache",
            is_flag=True,
            help="Do not read or write the cache.",
        ),
        click.option(
            "--stdin-filename",
            metavar="PATH",
            help="With `-` as the path: the file that standard input stands for.",
        ),
        color_option,
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def program_options(command: Command) -> Command:
    """The program that `verify` and `fix --verify` run, and how; for `projects.options`."""
    decorators = [
        click.option("--entry", metavar="MODULE:FUNCTION", help="Run this function."),
        click.option(
            "--inputs",
            metavar="MODULE:FUNCTION",
            help="Call the entry with what this function returns: a tuple, a dict or one argument.",
        ),
        click.option(
            "--script",
            metavar="FILE",
            help="Run this script; the words after it are its arguments.",
        ),
        click.option(
            "--pytest",
            metavar="[FILE]",
            is_flag=False,
            flag_value="",
            help="Run the tests; the words after it are arguments of pytest.",
        ),
        click.option(
            "--backend",
            type=click.Choice(WHERE),
            multiple=True,
            help="The back end; auto: a GPU if there is one, else sim and policy.",
        ),
        click.option(
            "--dtype",
            type=click.Choice(["fp16", "bf16"]),
            help="The dtype of autocast where the program names none.",
        ),
        click.option(
            "--steps",
            type=click.IntRange(min=1),
            metavar="N",
            help="Stop a run after this many optimizer steps.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=120,
            show_default=True,
            metavar="SECONDS",
            help="Stop a run after SECONDS.",
        ),
        click.option(
            "--memory",
            type=click.FloatRange(min=0, min_open=True),
            default=8,
            show_default=True,
            metavar="GIB",
            help="Memory that a run may use beyond torch itself.",
        ),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def make_request(
    paths: Sequence[str],
    stdin_filename: str | None,
    force_exclude: bool,
    config: Configured,
    no_cache: bool,
    **options: Any,
) -> tuple[Request, Text | None]:
    """The request that the command line makes, and the text if it came from standard input."""
    from amplint.project import discover
    from amplint.rule import registry
    from amplint.run import cache
    from amplint.run.request import Request
    from amplint.util import replacing

    rules = registry.AllRules()
    from_stdin = STDIN in paths
    if from_stdin and len(paths) > 1:
        raise click.UsageError(
            "`-` cannot be combined with other paths: standard input is one file"
        )
    if stdin_filename is not None and not from_stdin:
        raise click.UsageError("--stdin-filename needs `-` as the path")
    if not from_stdin:
        project, settings = files_and_settings(paths, force_exclude, config, **options)
        store = None if no_cache else cache.Cache(project.root / cache.NAME)
        replacing.delete(project.leftovers)
        if store is not None:
            store.sweep()
        return Request(project, settings, rules, cache=store), None

    text = text_of_stdin(stdin_filename)
    paths = (stdin_filename,) if stdin_filename else ()
    settings = hierarchy(paths, config, options)
    if stdin_filename is None:
        project, store = discover.lone_text(STDIN), None
    else:
        project = discover.select(paths, settings, force_exclude, text_is_given=True)
        store = None if no_cache else cache.Cache(project.root / cache.NAME)
    overlays = dict.fromkeys(project.reported, text.written(text.text))
    return Request(project, settings, rules, overlays, store), text


def files_and_settings(
    paths: Sequence[str], force_exclude: bool, config: Configured, **options: Any
) -> tuple[Selection, SettingsHierarchy]:
    """The files that the paths name, with those around them, and the settings of each."""
    from amplint.project import discover

    paths = paths or (".",)
    settings = hierarchy(paths, config, options)
    project = discover.select(paths, settings, force_exclude)
    return replace(project, notices=(*project.notices, *settings.notices)), settings


def hierarchy(
    paths: Sequence[str], config: Configured, options: Mapping[str, Any]
) -> SettingsHierarchy:
    from amplint.project.settings_hierarchy import SettingsHierarchy

    settings = {
        key.replace("_", "-"): value
        for key, value in options.items()
        if value or value is False  # `--no-preview` over `preview = true`
    }
    return SettingsHierarchy(settings, config.file, starting_point(paths), config.settings)


def starting_point(paths: Sequence[str]) -> Path:
    """The directory that patterns are relative to where no project is."""
    first = Path(paths[0]).absolute() if paths else Path.cwd()
    return first if os.path.isdir(first) else first.parent  # noqa: PTH112  (never raises)


def text_of_stdin(name: str | None) -> Text:
    from amplint.project.reading import as_module
    from amplint.util.text import Text, UndecodableError

    try:
        return as_module(name or STDIN, Text.decode(sys.stdin.buffer.read()))
    except UndecodableError as error:
        place = f"{name or 'standard input'}:{error.row}:{error.column}"
        raise Failure(f"{place}: {error.reason}") from error
