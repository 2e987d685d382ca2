"""Run a user's program once, and report what it has shown."""

from __future__ import annotations

import ast
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from amplint.project.observations import ObservedFunction
from amplint.run import engine
from amplint.run.request import Outcome, Request
from amplint.util.text import Text
from amplint.util.wording import counted
from amplint_verify.compare.lab import TARGET, NotStartedError
from amplint_verify.observing import saving
from amplint_verify.observing.findings import findings_of, first_line, is_refusal
from amplint_verify.observing.second_run import TestRecord, errors_of, findings_under, lines
from amplint_verify.observing.selection import selected
from amplint_verify.observing.unreached import asked_of, unreached
from amplint_verify.projects import Options
from amplint_verify.recording.observation import Observation, RunOutcome, to_json
from amplint_verify.runs import launcher
from amplint_verify.runs.drivers import StartKind, UnstartedError
from amplint_verify.runs.mirrors import mirror
from amplint_verify.runs.run import Runner, running
from amplint_verify.runs.spec import Spec

LAST = 8  # lines of what a program printed that are shown
AGAIN = "amplint_verify.observing.suite_child:run"
FIRST = ("cuda", "sim", "policy", "cpu")  # the back end that shows most comes first


@dataclass(frozen=True)
class ObservedRun:
    """The run of a program, and what is to be reported.

    Args:
        outcome: the findings, as `check` has them.
        observation: of the run on the back end that shows most, of those that could run it.
        functions: what the runs have shown of functions, if that is to be saved.
        has_errors: whether tests fail under a mode alone, which no finding explains.
    """

    outcome: Outcome
    observation: Observation
    functions: Mapping[str, ObservedFunction] = field(default_factory=dict)
    has_errors: bool = False


@dataclass(frozen=True)
class ExtraAnswers:
    """Answers that a run is to give beside what it shows.

    Args:
        rows: of which to say whether they ran, by file.
        timeline: whether the events of a step are written down.
        values: whether what functions are given, and what expressions give, is written down.
    """

    rows: Mapping[str, tuple[int, ...]]
    timeline: bool
    values: bool


def observed(
    request: Request, options: Options, has_page: bool = False, saves: bool = False
) -> ObservedRun:
    """Run the program in a copy of the project.

    Args:
        request: the project.
        options: the program, and how to run it.
        has_page: whether a page shows a step.
        saves: whether what the run shows of functions is to be saved.

    Raises OSError if the project cannot be copied, NotStartedError if there is no such program.
    """
    static = engine.run(request)
    if options.program.under and options.program.kind is StartKind.PYTEST:
        return observed_under(request, options, static)
    rules, texts = request.rules, static.all_texts
    questions = asked_of(static.findings, texts, request.selection.reported)
    answers = ExtraAnswers(questions.rows, has_page, saves)
    with running() as runner:
        names = sorted((backend.name for backend in options.backends), key=FIRST.index)
        runs = [run_on(name, runner, request, options, answers) for name in names]
    main = next((run for run in runs if run.outcome is not RunOutcome.NOT_SIMULABLE), runs[-1])
    if main.error == UnstartedError.__name__:
        raise NotStartedError(main.text)
    issues = chain.from_iterable(findings_of(run, rules, texts) for run in runs)
    findings = selected(issues, request, static)
    is_explained = any(map(is_refusal, findings))
    outcome = replace(
        static,
        findings=findings,
        problems=(*static.problems, *problems(main, is_explained, texts)),
        notices=(
            *ended_early(main, runs),
            *static.notices,
            *notices(main, [run for run in runs if run is not main]),
            *float16_unseen(runs, texts),
            *unreached(questions, runs),
        ),
        key="",
    )
    telling = [run for run in runs if run.backend != "cpu"] if saves else ()
    return ObservedRun(outcome, main, saving.observed(telling, str(options.program), texts))


def observed_under(request: Request, options: Options, static: Outcome) -> ObservedRun:
    """Run the tests, and run them again under a mode: with the CPU's kernels, or on a GPU."""
    mode = options.program.under
    questions = asked_of(static.findings, static.all_texts, request.selection.reported)
    with running() as runner, copied(request) as place:
        spec = Spec(
            root=place,
            target=AGAIN,
            backend="cpu",
            args=(to_json(options.program), str(request.selection.root), mode, options.seconds),
            seconds=options.seconds,
            memory=options.memory,
            asked=questions.rows,
            record=False,
        )
        run = runner.once(spec)
    if run.error == UnstartedError.__name__:
        raise NotStartedError(run.text)
    record = TestRecord(mode)
    for leaf in run.result:
        record.extend(ast.literal_eval(leaf.text))
    rules, texts = request.rules, static.all_texts
    issues = chain.from_iterable(findings_of(each, rules, texts) for each in record.observations)
    under = findings_under(mode, record.second_runs, rules, texts)
    findings = selected(chain(issues, under), request, static)
    outcome = replace(
        static,
        findings=findings,
        problems=(*static.problems, *problems(run, False, texts)),
        notices=(
            *static.notices,
            *lines(mode, record.second_runs, findings),
            *unreached(questions, [run]),
        ),
        key="",
    )
    has_errors = bool(errors_of(record.second_runs, findings))
    return ObservedRun(outcome, run, has_errors=has_errors)


@contextmanager
def copied(request: Request) -> Iterator[str]:
    """A copy of the project."""
    project = request.selection
    with tempfile.TemporaryDirectory(prefix="amplint-") as directory:
        place = Path(directory) / "tree"
        mirror(project.root, place, project.files)
        yield str(place)


def run_on(
    backend: str, runner: Runner, request: Request, options: Options, answers: ExtraAnswers
) -> Observation:
    """The run on a back end.

    A value that `sim` does not know is taken for False, or 0, first: then no gradient is infinite,
    and the scaler makes its steps. Where the program stops at such a value (`if not
    torch.isfinite(loss): raise`), it is taken for True, or 1.
    """
    observation = run_with(False, backend, runner, request, options, answers)
    if observation.outcome is RunOutcome.OK or not observation.guesses:
        return observation
    other = run_with(True, backend, runner, request, options, answers)
    return other if other.outcome is RunOutcome.OK else observation


def run_with(
    guess: bool,
    backend: str,
    runner: Runner,
    request: Request,
    options: Options,
    answers: ExtraAnswers,
) -> Observation:
    """One run in a copy of the project, with what a value is taken for that nobody knows."""
    with copied(request) as place:
        spec = Spec(
            root=place,
            target=TARGET,
            backend=backend,
            args=(to_json(options.program), str(request.selection.root), "{device}"),
            seconds=options.seconds,
            memory=options.memory,
            guess=guess,
            watched=True,
            asked=answers.rows,
            timeline=answers.timeline,
            profiled=answers.values,
        )
        return runner.once(spec)


def problems(
    observation: Observation, is_explained: bool, texts: Mapping[str, Text]
) -> Iterator[str]:
    """The reason why the program came to no end, unless a finding says so."""
    if observation.outcome is RunOutcome.OK or is_explained:
        return
    missing = launcher.missing(observation, line_at(observation, texts), os.environ)
    if missing is not None:
        yield missing
        return
    where = f" at {observation.place}" if observation.place else ""
    text = first_line(observation.text) or observation.error
    until = f"; what was seen until then ({counted(observation.steps, 'step')}) is reported"
    yield {
        RunOutcome.TIMEOUT: f"the program was stopped: {text}{until}",
        RunOutcome.NOT_SIMULABLE: f"the program cannot be simulated{where}: {text}",
        RunOutcome.KILLED: f"the program was killed by {observation.error}",
        RunOutcome.NO_RESULT: f"the program ended without a result: {text}",
    }.get(
        observation.outcome,
        f"the program raised {observation.error}{where}: {text}{until}",
    )


def line_at(observation: Observation, texts: Mapping[str, Text]) -> str:
    """The line at which the run ended by an error; "" if it is none of the project's."""
    path, _, row = observation.place.rpartition(":")
    return texts[path].line(int(row)) if path in texts else ""


def ended_early(main: Observation, runs: Sequence[Observation]) -> Iterator[str]:
    """Remarks on the runs that came to no end: what the others saw, and what was printed last.

    A problem says why the main one ended.
    """
    others = [
        f"; {run.backend} saw all {counted(run.steps, 'step')}"
        for run in runs
        if run.outcome is RunOutcome.OK
    ]
    for run in runs:
        if run.outcome is not RunOutcome.OK:
            why = "" if run is main else f": {first_line(run.text) or run.error}"
            if others or why:
                after = f"after {counted(run.steps, 'step')}"
                yield f"on {run.backend} the program ended early, {after}{why}{''.join(others)}"
            if lines := run.printed.splitlines()[-LAST:]:
                yield "\n    ".join((f"on {run.backend} the program printed last:", *lines))


def float16_unseen(runs: Sequence[Observation], texts: Mapping[str, Text]) -> Iterator[str]:
    """A remark on a program that asks whether there is bfloat16: another GPU may have none."""
    dtypes = {dtype for run in runs for dtype in run.regions}
    asks = any("is_bf16_supported" in text.text for text in texts.values())
    if asks and "bfloat16" in dtypes and "float16" not in dtypes:
        yield "this run used bfloat16 only: float16 was not seen"


def notices(observation: Observation, others: Sequence[Observation]) -> Iterator[str]:
    """Remarks on the run, and on those on other back ends."""
    yield f"saw {counted(observation.steps, 'step')} of training on {observation.backend}"
    for each in (observation, *others):
        if each.skipped:
            steps = counted(each.skipped, "step")
            yield (
                f"on {each.backend} the scaler skipped {steps}, because gradients were not finite: "
                "this is normal if it is rare"
            )
    if observation.guesses:
        yield (
            f"without a GPU, {counted(observation.guesses, 'value')} were taken as 0 or False, "
            "so a branch may have been missed"
        )
    if observation.steps < 2:
        yield "mistakes that count only in every step need at least two steps to be seen"
    yield from observation.notes
