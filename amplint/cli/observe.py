"""The command `amplint observe`. Nothing here needs torch until there is something to run."""

# The command imports what it needs when it runs, so that it can say what to install.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplint.cli.adoption_options import baseline_options
from amplint.cli.options import (
    PROGRAM,
    ProgramCommand,
    behind,
    make_request,
    outputs_of,
    program_options,
    report_options,
    settings_options,
)
from amplint.output.console import Output
from amplint.util.errors import Failure
from amplint.util.paths import seen_from
from amplint_verify import HOW_TO_GET_TORCH

if TYPE_CHECKING:
    from amplint.run.request import Outcome, Request
    from amplint_verify.observing.project import ObservedRun


@click.command(cls=ProgramCommand)
@settings_options
@baseline_options
@program_options
@click.option(
    "--module",
    metavar="MODULE:CLASS",
    help="Build this module, or call what returns one, with literal arguments if it takes any.",
)
@click.option(
    "--input",
    "tensors",
    multiple=True,
    metavar="[NAME=]DTYPE[SIZES]",
    help="With --module: a random tensor to call it with; 'int64[2,16]<100' is of numbers below "
    "100. Or a literal. Can be repeated.",
)
@report_options
@click.option(
    "--save",
    is_flag=True,
    help="Save what the run has shown in .amplint/observations.json; `check` uses it.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print only findings and errors.")
def observe(
    formats: list[Output],
    output_file: Path | None,
    sort: str | None,
    save: bool,
    quiet: bool,
    no_baseline: bool,
    **arguments: Any,
) -> int:
    """Run a program once, and report the mistakes that it shows.

    \b
    PATHS with one of
      --entry    a function: package.module:function
      --script   a script and its arguments: --script train.py --epochs 1
      --pytest   the tests: --pytest -k small
      --module   a module: --module 'models:Net(width=8)' --input 'float32[2,3,64,64]'

    Without a GPU, tensors without values stand in for CUDA tensors: PyTorch's own CUDA autocast
    decides the dtype of each result. The program runs with your user rights, in a copy of the
    project. Nothing is written to your files.

    Exit status: like that of `check`; also 2 if the program does not finish.
    """
    program = {name: arguments.pop(name) for name in (*PROGRAM, "module", "tensors", "under")}
    outputs = outputs_of(formats, output_file, statistics=False)
    if importlib.util.find_spec("torch") is None:
        raise Failure(f"observe needs torch: {HOW_TO_GET_TORCH}")
    from amplint.adoption import baseline
    from amplint.output import console
    from amplint_verify import projects
    from amplint_verify.compare.lab import NotStartedError
    from amplint_verify.observing import project, timeline_page

    request, text = make_request(**arguments)
    if text is not None:
        raise click.UsageError("standard input is not a project that can be run")
    options = projects.options(request, unsafe=False, arguments=behind(), **program)
    if request.selection.problems:
        raise Failure("; ".join(request.selection.problems))
    baselines = {} if no_baseline else baseline.of_run(request)
    if not quiet:
        announcement = f"amplint: runs `{options.program}` in a copy of {request.selection.root}"
        click.echo(f"{announcement}\n{projects.warning(options)}", err=True)
    try:
        has_page = any(output.format == "html" for output in outputs)
        if program["under"] and program["pytest"] is not None and (has_page or save):
            raise click.UsageError("--under with --pytest shows no step, and saves nothing")
        run = project.observed(request, options, has_page, save)
    except OSError as error:
        raise Failure(f"the project cannot be copied: {error}") from error
    except NotStartedError as error:
        raise Failure(str(error)) from error
    outcome = baseline.only_new(run.outcome, baselines)
    if save:
        outcome = saved(outcome, request, run)
    lead = timeline_page.lead(run.observation)
    console.show(outcome, request, outputs, quiet, sort, lead=lead)
    return outcome.status or (console.FINDINGS if run.has_errors else console.CLEAN)


def saved(outcome: Outcome, request: Request, run: ObservedRun) -> Outcome:
    """The outcome, with a remark on the files that were written, or why they were not."""
    from amplint.project.observations import FILE, UnusableError
    from amplint.util.wording import counted
    from amplint_verify.observing import saving

    if not run.functions:
        return replace(outcome, notices=(*outcome.notices, "the run showed nothing to save"))
    try:
        files = saving.save(request, run.functions, outcome.all_texts)
    except (OSError, UnusableError) as error:
        return replace(outcome, problems=(*outcome.problems, f"{FILE} was not written: {error}"))
    of = f"what was seen of {counted(len(run.functions), 'function')}"
    names = " and ".join(seen_from(".", each) for each in files)
    return replace(outcome, notices=(*outcome.notices, f"{of} is in {names}"))
