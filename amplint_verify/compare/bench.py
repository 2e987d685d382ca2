"""The worth of fixes: exact counts first, and durations where a back end has any.

Waits, copies and bytes are counted, so that they are the same each time. Durations are claimed by
`ratios`, and peak memory is the allocator's, or, without a GPU, the bytes that tensors hold. What a
back end cannot measure stays empty, with the reason.
"""

from __future__ import annotations

import ast
import json
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from amplint_verify.backends.choice import Aspect, AspectShown, Backend
from amplint_verify.compare.ratios import Ratio, RatioClaim, claim, ratio
from amplint_verify.compare.verdicts import ending
from amplint_verify.recording.observation import Observation, RunOutcome, to_json
from amplint_verify.runs.drivers import StartKind, UserProgram
from amplint_verify.runs.spec import Spec

PRECISIONS = ("fp32", "fp16", "bf16")
AS_WRITTEN = "as written"
SIZE = "batch_size"  # the parameter of an entry that says how large a batch is
PAIRS = 40
MEASURE = "amplint_verify.runs.measure"


@dataclass(frozen=True)
class Counts:
    """Exact counts of one run.

    Args:
        steps: of optimizers, those included that a scaler left out.
        waits: how often the host stood still; None where the back end does not show it.
        to_device: bytes copied from host to device; None likewise.
        peak: the most bytes that tensors held; None where there are no gradients.
    """

    steps: int
    waits: int | None
    to_device: int | None
    peak: int | None


@dataclass(frozen=True)
class Times:
    """How long the program took, before and after.

    Args:
        before, after: seconds of wall time, the medians.
        measured: after to before.
        control: before to before.
        claim: what may be said.
        peak: bytes that the GPU's allocator handed out at most, before and after; None without.
    """

    before: float
    after: float
    measured: Ratio
    control: Ratio
    claim: RatioClaim
    peak: tuple[int, ...] | None


@dataclass(frozen=True)
class BenchPoint:
    """A program under one setting on one back end.

    Args:
        subject: which program.
        backend: by name.
        precision: what regions of autocast cast to: "fp16", "bf16", "fp32" for none of them on,
            or "as written".
        size: of a batch; None for what the program takes by itself.
        before, after: what both did; None if one did not run.
        times: None where the back end has none.
        missing: why something is not there that the back end could show.
    """

    subject: str
    backend: str
    precision: str
    size: int | None
    before: Counts | None = None
    after: Counts | None = None
    times: Times | None = None
    missing: str = ""


@dataclass(frozen=True)
class Subject:
    """Two versions of a program.

    Args:
        name: for the reader.
        program: how to run either.
        of: the tree that they are versions of, which is guarded.
        copy: writes one version to a directory that is not there yet: the fixed one or not.
        precisions: to measure it in.
    """

    name: str
    program: UserProgram
    of: Path
    copy: Callable[[bool, Path], None]
    precisions: Sequence[str] = PRECISIONS


@dataclass(frozen=True)
class Bench:
    """Where and how to measure.

    Args:
        backends: on which.
        sizes: of batches, for entries that take a `batch_size`.
        directory: for copies; they are removed.
        run: runs a spec.
        seconds, memory: limits of a run, as in `Spec`. Pairs end when half of the time is over.
    """

    backends: Sequence[Backend]
    sizes: Sequence[int]
    directory: Path
    run: Callable[[Spec], Observation]
    seconds: float
    memory: int

    def points(self, subject: Subject) -> Iterator[BenchPoint]:
        """All settings, on all back ends."""
        for backend in self.backends:
            sized = subject.program.kind is StartKind.ENTRY and self.takes_size(subject, backend)
            for size in self.sizes if sized else (None,):
                for precision in subject.precisions:
                    yield self.point(subject, backend, precision, size)

    def takes_size(self, subject: Subject, backend: Backend) -> bool:
        args = (to_json(subject.program), str(subject.of), SIZE)
        run = self.observe(subject, backend, "takes", args)
        return run.outcome is RunOutcome.OK and bool(value(run))

    def point(
        self, subject: Subject, backend: Backend, precision: str, size: int | None
    ) -> BenchPoint:
        """One setting. What goes wrong in it is reported in its `missing`."""
        keywords = {**subject.program.given, **({} if size is None else {SIZE: size})}
        variant = replace(subject, program=replace(subject.program, given=keywords))
        empty = BenchPoint(subject.name, backend.name, precision, size)
        args = (to_json(variant.program), str(subject.of), "{device}", precision)
        # Counts do not depend on what else runs, and a process for CUDA takes seconds to start.
        with ThreadPoolExecutor() as pool:
            counting = partial(self.observe, variant, backend, "count", args)
            runs = list(pool.map(counting, (False, True)))
        for run, name in zip(runs, ("the original", "the fixed program"), strict=True):
            if run.outcome is not RunOutcome.OK:
                return replace(empty, missing=f"{name} {ending(run)}")
        if precision in ("fp16", "bf16") and not all(value(run)["regions"] for run in runs):
            return replace(empty, missing="no region of autocast was on")
        before, after = (counts(run, backend) for run in runs)
        bench_point = replace(empty, before=before, after=after)
        if backend.shows[Aspect.TIME] is AspectShown.NO:
            return bench_point
        timed = self.observe(variant, backend, "durations", args)
        if timed.outcome is not RunOutcome.OK:
            return replace(bench_point, missing=f"no durations: a run {ending(timed)}")
        return replace(bench_point, times=times(value(timed)))

    def observe(
        self,
        subject: Subject,
        backend: Backend,
        what: str,
        args: tuple[Any, ...],
        fixed: bool = False,
    ) -> Observation:
        """Run a function of `measure` in a copy of one version, or of both for durations."""
        place = self.directory / f"{what}-{'after' if fixed else 'before'}"
        before, after = place / "before", place / "after"
        both = what == "durations"
        if both:
            program, of, device, precision = args
            args = (program, [str(before), str(after)], of, device, precision, PAIRS)
            args = (*args, self.seconds / 2)
        root = after if fixed else before
        try:
            subject.copy(fixed, root)
            if both:
                subject.copy(True, after)
            return self.run(
                Spec(
                    root=str(root),
                    target=f"{MEASURE}:{what}",
                    backend=backend.name,
                    args=args,
                    record=not both,
                    seconds=self.seconds,
                    memory=self.memory,
                )
            )
        finally:
            shutil.rmtree(place, ignore_errors=True)


def value(run: Observation) -> Any:
    """The result of a function of `measure`: JSON, in the text of its only leaf."""
    return json.loads(ast.literal_eval(run.result[0].text))


def counts(run: Observation, backend: Backend) -> Counts:
    """The counts of a run of `measure.count`, as far as the back end shows them."""
    waits = backend.shows[Aspect.WAITS] is not AspectShown.NO
    gradients = backend.shows[Aspect.GRADIENTS] is AspectShown.YES
    numbers = value(run)
    return Counts(
        steps=numbers["steps"],
        waits=run.blocking.total if waits else None,
        to_device=run.to_device if backend.shows[Aspect.DEVICES] is AspectShown.YES else None,
        peak=numbers["peak"] if gradients else None,
    )


def times(durations: Any) -> Times:
    """The ratio that the pairs of `measure.durations` show."""
    measured, control = ratio(durations["measured"]), ratio(durations["control"])
    return Times(
        before=statistics.median(first for first, _ in durations["measured"]),
        after=statistics.median(second for _, second in durations["measured"]),
        measured=measured,
        control=control,
        claim=claim(measured, control),
        peak=None if durations["peak"] is None else tuple(durations["peak"]),
    )


# ------------------------------------------------------------------------------- words


def text(points: Sequence[BenchPoint]) -> Iterator[str]:
    """Lines for a terminal: counts, and then what may be claimed of durations."""
    for point in points:
        yield f"{setting(point)}: {'; '.join(findings(point)) or 'nothing measured'}"


def setting(point: BenchPoint) -> str:
    """Ex) "train:main on sim, fp16, batches of 8" """
    size = "" if point.size is None else f", batches of {point.size}"
    return f"{point.subject} on {point.backend}, {point.precision}{size}"


def findings(point: BenchPoint) -> Iterator[str]:
    before, after = point.before, point.after
    if before is not None and after is not None:
        for name in ("waits", "to_device", "peak"):
            was, now = getattr(before, name), getattr(after, name)
            if was is not None:
                yield f"{NAMES[name]} {was} -> {now}"
    if point.times is not None:
        yield f"time {point.times.measured}, control {point.times.control}: " + (
            point.times.claim.value
        )
        if point.times.peak is not None:
            yield f"peak of the GPU's memory {' -> '.join(map(str, point.times.peak))}"
    if point.missing:
        yield point.missing


NAMES = {
    "waits": "waits of the host",
    "to_device": "bytes to the device",
    "peak": "most bytes in tensors",
}
