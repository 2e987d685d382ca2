"""Verify the fixes of a user's project, and write those that are good."""

from __future__ import annotations

import importlib.util
import json
import os
import posixpath
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from amplint.adoption import baseline
from amplint.adoption.baseline import Known
from amplint.fix.project_fixes import FixOutcome, write_project
from amplint.output import console
from amplint.project.reading import text_of
from amplint.run.request import Request
from amplint.util.errors import Failure
from amplint_verify import HOW_TO_GET_TORCH, torch_range
from amplint_verify.backends import choice
from amplint_verify.backends.choice import AUTO, Backend
from amplint_verify.compare import lab
from amplint_verify.compare.bench import Bench, BenchPoint, Subject
from amplint_verify.compare.lab import Lab
from amplint_verify.report import findings as report
from amplint_verify.report import page
from amplint_verify.report.findings import ReportMaterial
from amplint_verify.runs.drivers import StartKind, UserProgram
from amplint_verify.runs.module_inputs import call_of, input_of
from amplint_verify.runs.run import running


@dataclass(frozen=True)
class Options:
    """How to verify.

    Args:
        program: what to run.
        backends: on which.
        unsafe: whether unsafe fixes are tried too.
        seconds: of wall time that a run may take.
        memory: bytes that a run may use.
        sizes: of the batches to measure the good fixes with; None for not to measure.
    """

    program: UserProgram
    backends: Sequence[Backend]
    unsafe: bool
    seconds: float
    memory: int
    sizes: tuple[int, ...] | None = None


def verified(request: Request, options: Options) -> ReportMaterial:
    """Run the program of a project with and without its fixes; nothing of the project is written.

    Raises OSError if the project cannot be copied.
    """
    project = request.selection

    def encode(path: str, text: str) -> bytes:
        return text_of(path, request.selection.root, request.overlays).encode(text)

    with running() as runner, tempfile.TemporaryDirectory(prefix="amplint-") as directory:
        laboratory = Lab(
            root=project.root,
            files=project.files,
            encode=encode,
            program=options.program,
            backends=options.backends,
            directory=Path(directory),
            run=runner.run,
            seconds=options.seconds,
            memory=options.memory,
        )
        result = lab.verify(request, options.unsafe, laboratory)
        points = tuple(measured(laboratory, result.texts, options.sizes))
    return ReportMaterial(result, options.backends, str(options.program), laboratory.linked, points)


def measured(
    laboratory: Lab, fixed: lab.Texts, sizes: tuple[int, ...] | None
) -> Iterator[BenchPoint]:
    """The worth of the good fixes, if the user asks for it and there are any."""
    if sizes is None or not fixed:
        return

    def copy(of_fixed: bool, place: Path) -> None:
        laboratory.copy(fixed if of_fixed else {}, place)

    subject = Subject(str(laboratory.program), laboratory.program, laboratory.root, copy)
    yield from Bench(
        backends=laboratory.backends,
        sizes=sizes,
        directory=laboratory.directory,
        run=laboratory.run,
        seconds=laboratory.seconds,
        memory=laboratory.memory,
    ).points(subject)


def as_fixed(content: ReportMaterial) -> FixOutcome:
    """The good fixes as `amplint fix` writes them."""
    verified = content.verified
    applied = tuple(each.finding for each in verified.judged if each.judgement.good)
    return FixOutcome(
        first=verified.first,
        outcome=verified.outcome,
        before={path: verified.first.texts[path] for path in verified.texts},
        after=verified.texts,
        applied=applied,
        total=len(applied) + len(verified.outcome.findings),
        rest=len(verified.outcome.findings),
    )


def options(
    request: Request,
    *,
    unsafe: bool,
    entry: str | None,
    inputs: str | None,
    script: str | None,
    pytest: str | None,
    backend: Sequence[str],
    dtype: str | None,
    steps: int | None,
    timeout: float,
    memory: float,
    arguments: Sequence[str] = (),
    sizes: tuple[int, ...] | None = None,
    module: str | None = None,
    tensors: Sequence[str] = (),
    under: str | None = None,
) -> Options:
    """The request that the options of the command line make. Raises click's usage errors."""
    if sum(each is not None for each in (entry, script, pytest, module)) != 1:
        kinds = "--entry, --script and --pytest; `observe` has --module, too"
        raise click.UsageError(f"say what to run, with one of {kinds}")
    if module is None and tensors:
        raise click.UsageError("--input needs --module")
    if under is not None and module is None and pytest is None:
        raise click.UsageError("--under needs --pytest or --module: these show who calls what")
    if under is not None and pytest is not None and backend:
        raise click.UsageError("--backend cannot be combined with --under and --pytest")
    if inputs is not None and entry is None:
        raise click.UsageError("--inputs needs --entry")
    if steps is not None and pytest is not None:
        raise click.UsageError("--steps cannot be combined with --pytest: tests end by themselves")
    if sizes is not None and pytest is not None:
        raise click.UsageError(
            "--bench cannot be combined with --pytest: name an --entry or a --script"
        )
    for name in filter(None, (entry, inputs, module and name_of_module(module, tensors))):
        if not all(part.isidentifier() for part in name.replace(":", ".", 1).split(".")):
            raise click.UsageError(f"{name!r} is not of the form package.module:function")
        if ":" not in name:
            raise click.UsageError(f"{name!r} names no function: package.module:function")
    if importlib.util.find_spec("torch") is None:
        raise Failure(f"running a program needs torch: {HOW_TO_GET_TORCH}")
    kind, name = StartKind.ENTRY, entry or ""
    if script is not None:
        kind = StartKind.SCRIPT
        file, *first = shlex.split(script) or [""]
        name, arguments = within(request, file), [*first, *arguments]
    elif pytest is not None:
        kind, arguments = StartKind.PYTEST, [*shlex.split(pytest), *arguments]
    elif module is not None:
        kind, name, arguments = StartKind.MODULE, module, tensors
    program = UserProgram(
        kind=kind,
        name=name,
        inputs=inputs or "",
        arguments=tuple(arguments),
        roots=loose_directories(request),
        steps=steps,
        dtype=DTYPES[dtype] if dtype else "",
        under=under or "",
    )
    return Options(program, where(backend), unsafe, timeout, round(memory * 2**30), sizes)


def name_of_module(module: str, tensors: Sequence[str]) -> str:
    """The name, without arguments, in the value of `--module`. Raises click's usage errors."""
    try:
        for text in tensors:
            input_of(text)
        return call_of(module)[0]
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def loose_directories(request: Request) -> tuple[str, ...]:
    """The directories of reported files that are no packages: Ex) of `examples/mnist/train.py`"""
    directories = {posixpath.dirname(path) for path in request.selection.reported} - {""}
    packages = {
        posixpath.dirname(path) for path in request.selection.files if "__init__.py" in path
    }
    return tuple(sorted(directories - packages))


DTYPES = {"fp16": "float16", "bf16": "bfloat16"}


def within(request: Request, file: str) -> str:
    """The path of a script relative to the project's root."""
    path, root = Path(os.path.realpath(file)), Path(os.path.realpath(request.selection.root))
    if not path.is_file():
        raise click.UsageError(f"there is no script {file!r}")
    if not path.is_relative_to(root):
        raise click.UsageError(f"the script {file!r} is not in {root}, the project")
    return path.relative_to(root).as_posix()


def where(names: Sequence[str]) -> tuple[Backend, ...]:
    """The back ends of these names. Raises `Failure` for one that this machine has not."""
    by_name = {each.name: each for name in names or (AUTO,) for each in choice.backends_of(name)}
    for name in by_name:
        reason = choice.missing(name)
        if reason is not None:
            raise Failure(f"the back end {name} is not available here: {reason}")
    return tuple(by_name.values())


# ------------------------------------------------------------------------------- commands


def verify(request: Request, options: Options, format_: str, directory: Path | None) -> int:
    """Print the verdicts, and write them to a directory if there is one."""
    if directory is not None:  # before minutes of running
        page.make(directory)
    content = told_and_verified(request, options)
    click.echo(
        json.dumps(report.as_json(content), indent=2) if format_ == "json" else report.text(content)
    )
    if directory is not None:
        report.write(content, directory)
    return tell(content.verified.outcome.problems) or content.status


def fix(request: Request, options: Options, known_findings: Known) -> int:
    """Write the good fixes; what is left, beside known findings, is reported and decides the exit
    status."""
    content = told_and_verified(request, options)
    click.echo(report.text(content), err=True)
    fixed, problems = write_project(request, as_fixed(content), options.unsafe)
    if fixed.after:
        known_findings, outcome = baseline.keep_in_step(fixed.first, fixed.outcome, known_findings)
        fixed = replace(fixed, outcome=outcome)
    fixed = replace(fixed, outcome=baseline.without_known(fixed.outcome, known_findings, request))
    console.show(fixed.outcome, request)
    click.echo(f"fixed {console.counts(fixed)}" if fixed.after else "nothing was fixed", err=True)
    return tell(problems) or fixed.outcome.status


def told_and_verified(request: Request, options: Options) -> ReportMaterial:
    """Verify, after saying what will be run.

    Raises click's exceptions for what a user has to mend first; then nothing, or only the original
    program, was run.
    """
    if request.selection.problems:
        raise Failure("; ".join(request.selection.problems))
    click.echo(announcement(request, options), err=True)
    try:
        return verified(request, options)
    except OSError as error:
        raise Failure(f"the project cannot be copied: {error}") from error
    except lab.NotStartedError as error:
        raise Failure(str(error)) from error


def tell(problems: Sequence[str]) -> int:
    """2 if there are problems, which are printed, and else 0."""
    console.tell(problems)
    return console.FAILED if problems else 0


def announcement(request: Request, options: Options) -> str:
    """A description of the run to come, for the user to read first."""
    where = "; ".join(f"{backend.name} ({backend.title})" for backend in options.backends)
    return (
        f"amplint: runs `{options.program}` in copies of {request.selection.root}, before and "
        f"after the fixes, on {where}\n{warning(options)}"
    )


def warning(options: Options) -> str:
    """The line that says what it means to run a program, and one on a torch that was not tried."""
    rights = (
        f"this runs your code with your user rights; a run may take {options.seconds:g} s "
        f"and {options.memory / 2**30:g} GiB, and is not a sandbox"
    )
    untried = torch_range.remark(torch_range.installed())
    return "\n".join(f"amplint: {line}" for line in (rights, untried) if line)
