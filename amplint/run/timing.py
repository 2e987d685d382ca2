"""The time of a run: measured with `--timing`, and printed on standard error.

All but the time on the clock are seconds of a processor, so that they can be added up over the
processes that share the work, and say the same on a busy machine.
"""

from __future__ import annotations

import functools
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ParamSpec

from amplint.analyses.limits import LIMITS, Limited
from amplint.util.wording import counted

if TYPE_CHECKING:
    from amplint.claim.finding import Finding
    from amplint.cst.segments import Units
    from amplint.rule.rule import Rule
    from amplint.source import Source

Shown = ParamSpec("Shown")  # what a check is shown

MOST = 10  # rules and files that are named

clock = time.thread_time  # of the thread that judges: another one may draw a bar meanwhile


@dataclass(frozen=True)
class Judging:
    """The cost of judging one file.

    Args:
        path: the file.
        seconds: to parse what can matter, and to show it to the rules.
        units: how many the file has, if it holds a candidate; else none is cut.
        parsed: how many of them went through LibCST.
        whole: whether the whole file had to, for some unit could not be paired with its `ast`.
        rules: by code and name of each rule that was shown anything: the seconds, and the units.
        is_known: whether the findings of an earlier run hold, so that no rule was shown anything.
    """

    path: str
    seconds: float
    units: int
    parsed: int
    whole: bool
    rules: Mapping[str, tuple[float, int]]
    is_known: bool = False


@dataclass(frozen=True)
class Measured:
    """The cost of analysing one part of a project.

    Args:
        index, link: seconds.
        files: how many were indexed.
        parsed: how many of them were parsed, for the cache had no record of them.
        functions: how many these have.
        evaluated: how many of them inference was led to.
        judged: the files that were judged.
        changed: how many files had changed since the run from whose outcome inference went on; None
            where it began anew.
    """

    index: float
    link: float
    files: int
    parsed: int
    functions: int
    evaluated: int
    judged: tuple[Judging, ...]
    changed: int | None = None


@dataclass
class Timing:
    """The measurements of a run, filled in as it goes.

    Args:
        begun: what the clock on the wall showed.
        read: the seconds it took to read all files.
        files: how many these are.
        parts: what was measured of each part; None for one that was in the cache, none at all
            where the whole run was.
        limited: the functions that reached a limit of the analysis.
    """

    begun: float = field(default_factory=time.perf_counter)
    read: float = 0.0
    files: int = 0
    parts: list[Measured | None] = field(default_factory=list)
    limited: Limited = field(default_factory=dict)


class Stopwatch:
    """Measures while one file is judged, in the process that does it.

    `is_known` is set where the findings of an earlier run hold.
    """

    def __init__(self, path: str) -> None:
        self.is_known = False
        self._path = path
        self._begun = clock()
        self._seconds: dict[str, float] = defaultdict(float)
        self._shown: Counter[str] = Counter()
        self._labels: dict[str, str] = {}
        self._units: Units | None = None

    def over(self, rules: Collection[Rule], source: Source) -> list[Rule]:
        """The rules that judge a file, with checks that are timed."""
        self._units = source.layout.units
        self._labels = {rule.code: label(rule) for rule in rules}
        return [self._with_clock(rule) for rule in rules]

    def note(self, codes: Iterable[str]) -> None:
        """Note that a unit is shown to the rules of these codes."""
        self._shown.update(self._labels[code] for code in codes)

    def judging(self) -> Judging:
        """The measurements until now."""
        units = self._units
        return Judging(
            self._path,
            clock() - self._begun,
            len(units.units) if units is not None else 0,
            units.parsed if units is not None else 0,
            units is not None and units.parsed_whole,
            {rule: (self._seconds[rule], number) for rule, number in self._shown.items()},
            self.is_known,
        )

    def _with_clock(self, rule: Rule) -> Rule:
        measured = functools.partial(self._measured, label(rule))
        checks = [replace(check, judge=measured(check.judge)) for check in rule.checks]
        return replace(rule, checks=checks)

    def _measured(
        self, rule: str, check: Callable[Shown, Iterator[Finding]]
    ) -> Callable[Shown, Iterator[Finding]]:
        @functools.wraps(check)
        def measured(*shown: Shown.args, **named: Shown.kwargs) -> Iterator[Finding]:
            begun = clock()
            try:
                yield from check(*shown, **named)
            finally:
                self._seconds[rule] += clock() - begun

        return measured


def label(rule: Rule) -> str:
    return f"{rule.code} {rule.name}"


# ------------------------------------------------------------------------------ what is shown


def until_now(timing: Timing) -> tuple[float, float]:
    """The seconds on the clock, and those of processors."""
    return time.perf_counter() - timing.begun, processor_time()


def processor_time() -> float:
    """The seconds that processors have worked for this process, and for those that it has seen
    end."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def render(
    timing: Timing, elapsed: float, processor: float, shown: Callable[[str], str] = str
) -> str:
    """The lines that `--timing` prints.

    Args:
        timing: what was measured.
        elapsed: on the clock, from the beginning to the end.
        processor: the seconds of a processor that all of it took.
        shown: how a path is written for the reader.
    """
    parts = [part for part in timing.parts if part is not None]
    if not parts:
        first = f"{elapsed:.2f} s elapsed; everything was in the cache, nothing was analysed"
        return "\n".join([first, *at_limits(timing, shown)])
    judged = [judging for part in parts for judging in part.judged]
    slowest = sorted(judged, key=lambda one: (-one.seconds, one.path))[:MOST]
    lines = [f"{elapsed:.2f} s elapsed, {processor:.2f} s of processor time:"]
    lines += table(stages(timing, parts, judged, processor))
    if len(timing.parts) > 1:
        lines.append(f"{len(parts)} of {len(timing.parts)} parts analysed, the others are cached")
    lines += ["slowest rules (the first to ask for a fact pays for it):", *table(by_rule(judged))]
    lines += ["slowest files to judge:", *table((one.seconds, shown(one.path)) for one in slowest)]
    whole = [f"  {shown(one.path)}" for one in judged if one.whole]
    if whole:
        lines += ["parsed as whole files, because a unit and its ast disagreed:", *whole]
    return "\n".join([*lines, *at_limits(timing, shown)])


def at_limits(timing: Timing, shown: Callable[[str], str]) -> list[str]:
    """The functions that reached a limit."""
    lines = []
    for limit, functions in timing.limited.items():
        ids = (function.split("::", maxsplit=1) for function in functions)
        lines.append(f"functions {LIMITS[limit]}:")
        lines += [f"  {shown(path)}: {name or 'the module'}" for path, name in ids]
    return lines


def stages(
    timing: Timing, parts: Sequence[Measured], judged: Sequence[Judging], processor: float
) -> list[tuple[float, str]]:
    """The cost of each stage of a run, and how much it had to do."""
    files = counted(sum(part.files for part in parts), "file")
    functions = counted(sum(part.functions for part in parts), "function")
    anew = sum(part.parsed for part in parts)
    evaluated = sum(part.evaluated for part in parts)
    units = counted(sum(one.units for one in judged), "unit")
    parsed = sum(one.parsed for one in judged)
    known = sum(one.is_known for one in judged)
    others = f"; in {counted(known, 'file')} more, nothing has changed" if known else ""
    judging = sum(one.seconds for one in judged)
    rules = sum(seconds for one in judged for seconds, _ in one.rules.values())
    rows = [
        (timing.read, f"read {counted(timing.files, 'file')}"),
        (sum(part.index for part in parts), f"index {files}, {anew:,} of them parsed"),
        (
            sum(part.link for part in parts),
            f"link: {functions}, {evaluated:,} of them {how(parts)}",
        ),
        (
            judging - rules,
            f"judge: {units} in files with candidates, {parsed:,} through LibCST{others}",
        ),
        (rules, "judge: what the rules do"),
    ]
    rest = processor - sum(seconds for seconds, _ in rows)
    return [*rows, (max(rest, 0.0), "start, cache, report")]


def how(parts: Sequence[Measured]) -> str:
    """Whether inference began anew, or with what the cache knows of an earlier run."""
    kept = [part.changed for part in parts if part.changed is not None]
    if not kept:
        return "evaluated"
    return f"known; only what {counted(sum(kept), 'changed file')} can affect is evaluated"


def by_rule(judged: Iterable[Judging]) -> list[tuple[float, str]]:
    """The cost of the slowest rules, and how much they were shown."""
    seconds: dict[str, float] = defaultdict(float)
    units: Counter[str] = Counter()
    for judging in judged:
        for rule, (taken, number) in judging.rules.items():
            seconds[rule] += taken
            units[rule] += number
    slowest = sorted(seconds, key=lambda rule: (-seconds[rule], rule))[:MOST]
    return [(seconds[rule], f"{rule}, {counted(units[rule], 'unit')}") for rule in slowest]


def table(rows: Iterable[tuple[float, str]]) -> list[str]:
    return [f"  {seconds:8.3f}  {what}" for seconds, what in rows]
