"""The command `amplint verify`. Nothing here needs torch until there is something to run."""

# The command imports what it needs when it runs, so that it can say what to install.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from amplint.cli.options import (
    PROGRAM,
    ProgramCommand,
    behind,
    format_option,
    make_request,
    program_options,
    settings_options,
)
from amplint.util.errors import Failure
from amplint_verify import HOW_TO_GET_TORCH
from amplint_verify.backends.choice import AUTO, BACKENDS
from amplint_verify.compare.verdict import MEANINGS

SIZES = (8, 16, 32)  # of batches
OF_A_PROGRAM = ("inputs", "backend", "dtype", "steps")  # options that say nothing without one


def numbers(_: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    """Ex) (8, 16) of "8,16"; () of None. Raises click's usage errors."""
    parts = text.split(",") if text is not None else []
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{text!r} is not of the form 8,16,32", param=parameter)
    return tuple(map(int, parts))


def definitions() -> str:
    """The verdicts for `--help`, one below the other."""
    return "\n\n".join(f"{each.words}: {each.text}" for each in MEANINGS.values())


@click.command(cls=ProgramCommand, epilog=f"Verdicts on fixes:\n\n{definitions()}")
@settings_options
@click.option("--unsafe", is_flag=True, help="Also verify fixes that may change results.")
@program_options
@click.option(
    "--report",
    "directory",
    metavar="DIRECTORY",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write verify.json and verify.html there.",
)
@click.option(
    "--bench", is_flag=True, help="Measure the benefit of the fixes: counts, times, memory."
)
@click.option(
    "--batch-sizes",
    metavar="N,N",
    callback=numbers,
    help="With --bench: the values for programs that take a batch_size. Default: 8,16,32.",
)
@click.option("--rules", "rules", is_flag=True, help="Run the fixtures of the rules.")
@click.option("--self-test", "self_test", is_flag=True, help="Check the harness itself.")
@format_option("text", "json", "markdown", default="text")
def verify(
    rules: bool,
    self_test: bool,
    unsafe: bool,
    directory: Path | None,
    bench: bool,
    batch_sizes: tuple[int, ...],
    format_: str,
    **arguments: Any,
) -> int:
    """Run programs before and after their fixes, and compare both.

    \b
    PATHS with one of  the fixes of your project, on copies of it
      --entry          a function: package.module:function
      --script         a script and its arguments: --script train.py --epochs 1
      --pytest         the tests: --pytest -k small
    --rules [CODES]    every rule's own example, bad and fixed, or those of the named rules
    --self-test        the back ends against PyTorch's own lists of autocast operations; also
                       together with --rules

    Without any of these it runs nothing, and says what it could verify in this project, and how.

    The program runs with your user rights. Nothing is written to your files.

    Exit status: 0 every fix is good, 1 one differs or crashes, 2 amplint could not do its work, 3
    one is inconclusive or not-executed.
    """
    program = {name: arguments.pop(name) for name in PROGRAM}
    named = any(program[name] is not None for name in ("entry", "script", "pytest"))
    has_torch = importlib.util.find_spec("torch") is not None
    task = rules or self_test or named or bench or batch_sizes or directory or format_ != "text"
    if not task and all(program[name] in (None, ()) for name in OF_A_PROGRAM):
        return print_offer(arguments, has_torch)
    if (rules or self_test) + named != 1:
        raise click.UsageError(
            "say what to run: --rules, --self-test, or one of --entry, --script and --pytest"
        )
    if not has_torch:
        raise Failure(f"verify needs torch: {HOW_TO_GET_TORCH}")
    if batch_sizes and not bench:
        raise click.UsageError("--batch-sizes needs --bench")
    if bench and not (rules or named):
        raise click.UsageError("--bench needs --rules, --entry or --script")
    sizes = (batch_sizes or SIZES) if bench else None
    if not named:
        codes = arguments["paths"] if rules else None
        where = backends_of(program["backend"])
        return verify_harness(codes, self_test, where, format_, directory, sizes)
    if format_ == "markdown":
        raise click.UsageError("--format markdown needs --rules")
    from amplint_verify import projects

    request, text = make_request(**arguments)
    if text is not None:
        raise click.UsageError("standard input is not a project that can be run")
    options = projects.options(request, unsafe=unsafe, sizes=sizes, arguments=behind(), **program)
    return projects.verify(request, options, format_, directory)


def print_offer(arguments: dict[str, Any], has_torch: bool) -> int:
    """Print what could be verified on this project."""
    from amplint.output import console
    from amplint.run import engine
    from amplint.run.linking import LiveLinker
    from amplint_verify import offer

    request, text = make_request(**arguments)
    if text is not None:
        raise click.UsageError("standard input is not a project that can be run")
    linker = LiveLinker()
    outcome = engine.run(replace(request, linker=linker))
    console.tell(outcome.problems)
    click.echo(offer.text(outcome, linker.inference, arguments["paths"], has_torch))
    return console.FAILED if outcome.problems else console.CLEAN


def backends_of(names: Sequence[str]) -> tuple[Any, ...]:
    """The back ends that the options name; those that this machine has, if none is named."""
    from amplint_verify.backends import choice

    if not names:
        return choice.available()
    for name in names:
        reason = choice.missing(name) if name != AUTO else None
        if reason:
            raise Failure(f"the back end {name} is not available here: {reason}")
    backend_names = (backend.name for name in names for backend in choice.backends_of(name))
    return tuple(BACKENDS[name] for name in dict.fromkeys(backend_names))


def verify_harness(
    codes: Sequence[str] | None,
    self_test: bool,
    where: Sequence[Any],
    format_: str,
    directory: Path | None,
    sizes: Sequence[int] | None,
) -> int:
    """Run what belongs to amplint itself, and print what was seen.

    Args:
        codes: of the rules to run; all if there are none; None for no rules.
        self_test: whether to hold the back ends against PyTorch's lists.
        where: the back ends.
        format_: "text", "json" or "markdown".
        directory: for a report; None for none.
        sizes: of batches to measure fixes with; None for not to measure: of the rules named, their
            examples; of all rules, also three training programs.
    """
    from amplint.rule import registry
    from amplint_verify import examples, harness, witnesses
    from amplint_verify.compare.bench import Subject
    from amplint_verify.report import page

    try:
        rules = () if codes is None else witnesses.rules_of(codes)
    except registry.UnknownRuleError as error:
        raise Failure(str(error)) from error
    click.echo(f"amplint: {harness.announcement(rules, self_test, where)}", err=True)

    def subjects(place: Path) -> Iterator[Subject]:
        if not codes:
            yield from examples.of_programs(place)
        yield from examples.of_rules(rules, place)

    if directory is not None:  # before minutes of running
        page.make(directory)
    bench_subjects = None if sizes is None else subjects
    checked = harness.run(rules, self_test, where, bench_subjects, sizes or ())
    formats = {"text": harness.as_text, "markdown": harness.as_markdown}
    if format_ == "json":
        click.echo(json.dumps(harness.as_json(checked), indent=1))
    else:
        click.echo(formats[format_](checked))
    if directory is not None:
        page.write(directory, harness.as_json(checked), harness.as_html(checked))
    return checked.status
