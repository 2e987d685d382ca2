"""The second run of a test, under a mode of `--under`: plain data, and remarks for a reader.

Nothing here needs torch.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from amplint.findings.finding import Finding
from amplint.rule.rule import Rule
from amplint.util.text import Text
from amplint.util.wording import counted
from amplint_verify.observing.findings import findings_of, first_line
from amplint_verify.recording.observation import (
    Observation,
    RunOutcome,
    from_json,
    to_json,
)
from amplint_verify.recording.sightings import Act, DigitLoss

MOST = 20  # lines of one kind
# What half makes of numbers. The protocol of a scaler is the caller's, and the first run shows it.
OF_HALF = frozenset(
    {
        Act.BEYOND,
        Act.LOST_ANGLES,
        Act.MERGED_POSITIONS,
        Act.MIXED_WHERE,
        Act.OVERFLOW,
        Act.ROUNDED_INTEGERS,
        Act.VANISHING,
    }
)
# A kernel that the CPU lacks says nothing of CUDA: ATen/Dispatch.h has this text for both.
NO_KERNEL = re.compile(r"not implemented for '(Half|BFloat16)'")


class Ending(Enum):
    """The end of the second run of a test that passes without the mode."""

    PASSED = "passed"
    COMPARISON = "comparison"  # nearly every numerical test compares with float32
    ERROR = "error"
    NO_KERNEL = "no-kernel"
    AS_IT_IS = "as-it-is"  # there was none


@dataclass(frozen=True)
class SecondRun:
    """The second run of a test.

    Args:
        test: as pytest names it.
        ending: of the test.
        observation: of it, with what the first run had not shown.
        remarks: on numbers, beside the sightings.
        reason: what a test uses that runs as it is.
        losses: of digits.
    """

    test: str
    ending: Ending
    observation: Observation
    remarks: tuple[str, ...] = ()
    reason: str = ""
    losses: tuple[DigitLoss, ...] = ()


class TestRecord:
    """The record of what the tests have shown.

    Args:
        mode: under which those run again that pass; "" if none does.
    """

    __test__ = False  # for pytest

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.observations: list[Observation] = []
        self.second_runs: list[SecondRun] = []

    def add(self, observation: Observation) -> None:
        """Keep what one test has shown, without what no report needs."""
        self.observations.append(
            replace(observation, waits={}, counters={}, to_device=0, to_host=0)
        )

    def to_json(self) -> str:
        return json.dumps(to_json([self.observations, self.second_runs]))

    def extend(self, text: str) -> None:
        """Add the record of another process."""
        observations, second_runs = json.loads(text)
        self.observations += map(Observation.from_json, observations)
        self.second_runs += (from_json(SecondRun, each) for each in second_runs)


def findings_under(
    mode: str, runs: Iterable[SecondRun], rules: Sequence[Rule], texts: Mapping[str, Text]
) -> Iterator[Finding]:
    """The mistakes that second runs have shown, each once, with the tests that show it."""
    tests: dict[tuple[str, str, int], list[str]] = {}
    firsts: dict[tuple[str, str, int], Finding] = {}
    for run in runs:
        for each in findings_of(run.observation, rules, texts):
            place = each.code, each.path, each.span.start.row
            firsts.setdefault(place, each)
            if run.test not in tests.setdefault(place, []):
                tests[place].append(run.test)
    for place, finding in firsts.items():
        message = f"{finding.message}, under {mode} in {named(tests[place])}"
        yield replace(finding, message=message)


def named(tests: Sequence[str]) -> str:
    """Ex) tests/test_net.py::test_loss and 2 more tests"""
    more = len(tests) - 1
    return f"{tests[0]} and {counted(more, 'more test')}" if more else tests[0]


def errors_of(runs: Iterable[SecondRun], findings: Iterable[Finding]) -> list[SecondRun]:
    """The runs that ended by an error which no finding explains."""
    rows = {f"{each.path}:{each.span.start.row}" for each in findings}
    return [run for run in runs if run.ending is Ending.ERROR and run.observation.place not in rows]


def losses_of(
    mode: str, runs: Iterable[SecondRun], findings: Iterable[Finding]
) -> Iterator[tuple[str, list[str]]]:
    """The lines that lose digits beside those of findings, each once, and the tests of each."""
    rows = {(each.path, each.span.start.row) for each in findings}
    by_place: dict[tuple[str, str, int], dict[str, DigitLoss]] = {}
    for run in runs:
        for each in run.losses:
            if (each.path, each.row) not in rows:
                losses = by_place.setdefault((each.op, each.path, each.row), {})
                losses[run.test] = max(each, losses.get(run.test, each), key=error_of)
    for (op, path, row), losses in by_place.items():
        worst = max(losses.values(), key=error_of)
        errors = f"the error is {worst.error:.0%}, that of its operands below {worst.bound:.1%}"
        yield f"loses its digits under {mode}: `{op}` at {path}:{row}: {errors}", [*losses]


def error_of(loss: DigitLoss) -> float:
    return loss.error


def lines(mode: str, runs: Sequence[SecondRun], findings: Iterable[Finding]) -> Iterator[str]:
    """Remarks on the second runs."""
    by_text: dict[str, list[str]] = {}
    for run in errors_of(runs, findings):
        error = run.observation
        where = f" at {error.place}" if error.place else ""
        text = f"fails only under {mode}: {error.error}{where}: {first_line(error.text)}"
        by_text.setdefault(text, []).append(run.test)
    by_text.update(losses_of(mode, runs, findings))
    for run in runs:
        for remark in run.remarks:
            by_text.setdefault(f"only under {mode}: {remark}", []).append(run.test)
    texts = [f"{text}, in {named(tests)}" for text, tests in by_text.items()]
    yield from texts[:MOST]
    if texts[MOST:]:
        yield f"and {counted(len(texts) - MOST, 'more line')} of this kind"
    yield from counts(mode, runs)


def counts(mode: str, runs: Sequence[SecondRun]) -> Iterator[str]:
    """How many tests there were of each kind; a comparison that failed counts for itself alone."""
    endings = Counter(run.ending for run in runs)
    again = endings.total() - endings[Ending.AS_IT_IS]
    yield f"ran {counted(again, 'test')} again under {mode}"
    failed = [run for run in runs if run.ending is Ending.COMPARISON]
    if failed:
        beside = [run.test for run in failed if run.remarks or run.observation.sightings]
        also = f"; beside what is reported, in {named(beside)}" if beside else ""
        tests = counted(len(failed), "test")
        yield f"a comparison failed in {tests} under {mode}, which is not reported{also}"
    if endings[Ending.NO_KERNEL]:
        tests = counted(endings[Ending.NO_KERNEL], "test")
        yield f"{tests} could not be judged under {mode}: the CPU has no kernel for it"
    reasons = Counter(run.reason for run in runs if run.ending is Ending.AS_IT_IS)
    for reason, count in sorted(reasons.items()):
        yield f"{counted(count, 'test')} did not run again, because of {reason}"


def ending_of(observation: Observation) -> Ending:
    """The ending of a second run. An assertion that no line of the project makes is a test's."""
    if observation.outcome is RunOutcome.OK:
        return Ending.PASSED
    if NO_KERNEL.search(observation.text):
        return Ending.NO_KERNEL
    by_test = observation.error in ("AssertionError", "Failed") and not observation.place
    return Ending.COMPARISON if by_test else Ending.ERROR
