"""The command `amplint verify`. Nothing here needs torch until there is something to run."""

# The command imports what it needs when it runs, so that it can say what to install.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from amplint.cli import PROGRAM, make_request, program_options, settings_options
from amplint.verify.backends import AUTO, BACKENDS


class Failure(click.ClickException):
    """Something that ends the command with status 2 and a sentence."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"amplint: {self.message}", err=True, file=file)


@click.command()
@settings_options
@click.option("--unsafe", is_flag=True, help="Verify also fixes that may change results.")
@program_options
@click.option(
    "--report",
    "directory",
    metavar="DIRECTORY",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write verify.json and verify.html there.",
)
@click.option("--rules", "rules", is_flag=True, help="Run the fixtures of the rules.")
@click.option("--self-test", "self_test", is_flag=True, help="Check the harness itself.")
@click.option(
    "--format", "format_", type=click.Choice(["text", "json", "markdown"]), default="text"
)
def verify(
    rules: bool,
    self_test: bool,
    unsafe: bool,
    directory: Path | None,
    format_: str,
    **given: Any,
) -> int:
    """Run programs before and after their fixes, and compare what both did.

    \b
    PATHS with one of  the fixes of your project, on copies of it
      --entry          a function: package.module:function
      --script         a script and its arguments: "train.py --epochs 1"
      --pytest         the tests
    --rules [CODES]    every rule's own example, bad and fixed, or that of the rules named
    --self-test        the back ends against PyTorch's own lists of autocast operations; also
                       together with --rules

    What is named is run with your rights. Nothing is written to your files.

    Exit status: 0 verified, 1 differs or crashes, 2 amplint could not do its work, 3 inconclusive
    or not executed.
    """
    program = {name: given.pop(name) for name in PROGRAM}
    named = any(program[name] is not None for name in ("entry", "script", "pytest"))
    if (rules or self_test) + named != 1:
        raise click.UsageError(
            "say what to run: --rules, --self-test, or one of --entry, --script and --pytest"
        )
    if importlib.util.find_spec("torch") is None:
        raise Failure("verify needs torch: pip install 'amplint[verify]'")
    if not named:
        codes = given["paths"] if rules else None
        return verify_harness(codes, self_test, backends_of(program["backend"]), format_)
    from amplint.verify import projects

    request, text = make_request(**given)
    if text is not None:
        raise click.UsageError("standard input is no project that could be run")
    options = projects.options(request, unsafe=unsafe, **program)
    return projects.verify(request, options, format_, directory)


def backends_of(names: Sequence[str]) -> tuple[Any, ...]:
    """The back ends that the options name; those that this machine has, if none is named."""
    from amplint.verify import backends

    if not names:
        return backends.available()
    for name in names:
        reason = backends.missing(name) if name != AUTO else None
        if reason:
            raise Failure(f"the back end {name} is not to be had here: {reason}")
    found = (backend.name for name in names for backend in backends.chosen(name))
    return tuple(BACKENDS[name] for name in dict.fromkeys(found))


def verify_harness(
    codes: Sequence[str] | None, self_test: bool, where: Sequence[Any], format_: str
) -> int:
    """Run what belongs to amplint itself, and print what was seen.

    Args:
        codes: of the rules to run; all if there are none; None for no rules.
        self_test: whether to hold the back ends against PyTorch's lists.
        where: the back ends.
        format_: "text", "json" or "markdown".
    """
    from amplint import registry
    from amplint.verify import harness, witnesses

    try:
        rules = () if codes is None else witnesses.chosen(codes)
    except registry.UnknownRuleError as error:
        raise Failure(str(error)) from error
    click.echo(f"amplint: {harness.announcement(rules, self_test, where)}", err=True)
    checked = harness.run(rules, self_test, where)
    formats = {"text": harness.as_text, "markdown": harness.as_markdown}
    if format_ == "json":
        click.echo(json.dumps(harness.as_json(checked), indent=1))
    else:
        click.echo(formats[format_](checked))
    return checked.status
