"""The report on the fixes of a project: as text, as JSON, as one HTML page."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from amplint import __version__
from amplint.output.formats.html_finding import code, diff, source
from amplint.output.html_page import escape, escape_lines, prose
from amplint.util.wording import counted
from amplint_verify.backends.choice import BACKENDS, Aspect, AspectShown, Backend
from amplint_verify.compare import bench
from amplint_verify.compare.bench import BenchPoint
from amplint_verify.compare.lab import JudgedFix, SourceStep, Verified
from amplint_verify.compare.verdict import BAD, MEANINGS, Verdict
from amplint_verify.compare.verdicts import GroundedVerdict
from amplint_verify.recording.observation import Observation, Occurrences, Wait, to_json
from amplint_verify.report import page
from amplint_verify.report.page import Bars

SCHEMA = 1
SHOWN = 3  # operations of a divergence

VERIFIED, DIFFERS, UNDECIDED = 0, 1, 3


@dataclass(frozen=True)
class ReportMaterial:
    """The material of a report.

    Args:
        verified: what was found.
        backends: on which the program ran.
        program: it, in words.
        linked: what the copies linked to.
        points: what was measured of the program before and after all the good fixes.
    """

    verified: Verified
    backends: Sequence[Backend]
    program: str
    linked: tuple[str, ...]
    points: tuple[BenchPoint, ...] = ()

    @property
    def status(self) -> int:
        """The exit status: 1 if a fix differs or crashes, 3 if one could not be decided, else 0."""
        judgements = [each.judgement for each in self.verified.judged]
        if any(each.verdict in BAD or each.undeclared for each in judgements):
            return DIFFERS
        return VERIFIED if all(each.good for each in judgements) else UNDECIDED


# ------------------------------------------------------------------------------- text


def text(report: ReportMaterial) -> str:
    """The verdicts for a terminal."""
    lines = []
    for reasons, fixes in groupby(report.verified.judged, lambda each: tuple(why(each))):
        lines += [*map(heading, fixes), *reasons]
    counts = [
        f"{count} {MEANINGS[verdict].words}"
        for verdict in Verdict
        if (count := sum(each.judgement.verdict is verdict for each in report.verified.judged))
    ]
    lines.append(", ".join(counts) if counts else "there is nothing to verify")
    if counts:
        lines += of_waits(report.verified.runs)
        lines += bench.text(report.points)
        lines += [f"not checked: {each}" for each in unchecked(report)]
        lines += [f"note: {each}" for each in notes(report)]
    return "\n".join(lines)


def heading(judged: JudgedFix) -> str:
    """Ex) "train.py:3:5: AMP501 exact (safe fix: Create the tensor on the device)" """
    finding = judged.finding
    assert finding.fix is not None
    return (
        f"{row_of(judged)}:{finding.span.start.column}: {finding.code} {titled(judged.judgement)} "
        f"({finding.fix.safety.value} fix: {finding.fix.title})"
    )


def row_of(judged: JudgedFix) -> str:
    """Ex) "train.py:3", "train.ipynb:cell 2:3" """
    finding, part = judged.finding, judged.part
    return f"{part.of(finding.path)}:{part.place(finding.span.start).row}"


def why(judged: JudgedFix) -> Iterator[str]:
    """The lines below the heading of a fix."""
    yield from reasons(judged)
    if is_explained(judged):
        for name, (before, after) in judged.partings.items():
            yield f"    first operations that differ, on {name}:"
            yield from (f"      - {step_text(step)}" for step in before[:SHOWN])
            yield from (f"      + {step_text(step)}" for step in after[:SHOWN])


def reasons(judged: JudgedFix) -> Iterator[str]:
    """The lines on what the verdict rests on, and on back ends that say something else."""
    reason = judged.judgement.reason
    if reason:
        yield f"    {reason}"
    for name, judgement in judged.by_backend.items():
        if judgement.reason != reason or judgement.verdict is not judged.judgement.verdict:
            yield f"    {name}: {titled(judgement)}" + (
                judgement.reason and f", {judgement.reason}"
            )


def is_explained(judged: JudgedFix) -> bool:
    """Whether the operations where the runs diverge show why the fix is not good."""
    return not judged.judgement.good and not judged.judgement.of_original


def titled(judgement: GroundedVerdict) -> str:
    words = MEANINGS[judgement.verdict].words
    return words if judgement.undeclared is None else f"{words}{page.UNDECLARED}"


def step_text(step: SourceStep) -> str:
    """Ex) "train.py:3 aten.zeros.default () -> float32@cpu | z = torch.zeros(3)" """
    row = step.row
    place = f"{row.path}:{row.row}" if row.path else "library"
    source = f" | {step.line}" if step.line else ""
    return f"{place} {row.op} ({', '.join(row.inputs)}) -> {', '.join(row.outputs)}{source}"


def of_waits(runs: Mapping[str, tuple[Observation, Observation]]) -> Iterator[str]:
    """The waits of the host, one number for each back end that shows them, and bytes copied."""
    for name, (before, after) in runs.items():
        if before.outcome is not after.outcome:
            continue  # what ends early waits less often
        if BACKENDS[name].shows[Aspect.WAITS] is not AspectShown.NO:
            was, now = before.blocking.total, after.blocking.total
            kinds = ", ".join(f"{kind.value} {a} -> {b}" for kind, a, b in waits_of(before, after))
            yield f"host waits on {name}: {was} -> {now}" + (f" ({kinds})" if kinds else "")
        if before.to_device != after.to_device:
            yield f"bytes from host to device on {name}: {before.to_device} -> {after.to_device}"


def waits_of(before: Observation, after: Observation) -> Iterator[tuple[Wait, int, int]]:
    """The kinds of waits that their number is the sum of, before and after."""
    for kind in Wait:
        was, now = (run.waits.get(kind.value, Occurrences()).total for run in (before, after))
        if kind.blocks and (was or now):
            yield kind, was, now


def unchecked(report: ReportMaterial) -> list[str]:
    """The aspects that none of these back ends shows in full."""
    aspects = []
    for aspect in Aspect:
        best = [backend.shows[aspect] for backend in report.backends]
        if aspect is Aspect.TIME:
            if not report.points:
                aspects.append(f"{aspect.value} (see --bench)")
            elif not any(point.times for point in report.points):
                aspects.append("time")
            continue
        if AspectShown.YES not in best:
            partly = [b.name for b in report.backends if b.shows[aspect] is AspectShown.PARTLY]
            aspects.append(aspect.value + (f" (partly on {', '.join(partly)})" if partly else ""))
    return aspects


def notes(report: ReportMaterial) -> list[str]:
    """Remarks about the runs, and about the copies that they ran in."""
    notes = {note for pair in report.verified.runs.values() for run in pair for note in run.notes}
    for name, (_, after) in report.verified.runs.items():
        if after.guesses:
            notes.add(
                f"{counted(after.guesses, 'value')} on {name} were guessed, as nothing is computed "
                "without a GPU"
            )
        if after.dropped:
            notes.add(f"{after.dropped} operations on {name} were not recorded")
    if report.linked:
        notes.add(f"linked to and not copied: {', '.join(report.linked[:5])}")
    return sorted(notes)


# ------------------------------------------------------------------------------- JSON


def as_json(report: ReportMaterial) -> dict[str, Any]:
    """The report as JSON has it."""
    runs = report.verified.runs
    return {
        "schema": SCHEMA,
        "amplint": __version__,
        "python": platform.python_version(),
        "torch": next((before.torch for before, _ in runs.values()), ""),
        "machine": platform.machine(),
        "program": report.program,
        "status": report.status,
        "backends": {
            backend.name: {
                "title": backend.title,
                "shows": {aspect.value: backend.shows[aspect].value for aspect in Aspect},
            }
            for backend in report.backends
        },
        "fixes": [fix_as_json(each) for each in report.verified.judged],
        "runs": {
            name: {"before": run_as_json(before), "after": run_as_json(after)}
            for name, (before, after) in runs.items()
        },
        "bench": [to_json(point) for point in report.points],
        "not checked": unchecked(report),
        "notes": notes(report),
    }


def fix_as_json(judged: JudgedFix) -> dict[str, Any]:
    finding = judged.finding
    assert finding.fix is not None
    return {
        "path": finding.path,
        **({} if judged.part.cell is None else {"cell": judged.part.cell}),
        "row": judged.part.place(finding.span.start).row,
        "column": finding.span.start.column,
        "code": finding.code,
        "line": judged.line,
        "title": finding.fix.title,
        "safety": finding.fix.safety.value,
        **judgement_as_json(judged.judgement),
        "backends": {
            name: judgement_as_json(judgement) for name, judgement in judged.by_backend.items()
        },
        "first divergence": {
            name: {
                "before": [step_text(step) for step in before],
                "after": [step_text(step) for step in after],
            }
            for name, (before, after) in judged.partings.items()
        },
    }


def judgement_as_json(judgement: GroundedVerdict) -> dict[str, Any]:
    return {
        "verdict": judgement.verdict.value,
        "words": titled(judgement),
        "good": judgement.good,
        "reason": judgement.reason,
        "differences": [str(each) for each in judgement.differences],
    }


def run_as_json(run: Observation) -> dict[str, Any]:
    return {
        "outcome": run.outcome.value,
        "operations": len(run.rows) + run.dropped,
        "host waits": run.blocking.total,
        "waits": {
            kind: {"user": count.user, "library": count.library}
            for kind, count in run.waits.items()
        },
        "bytes to device": run.to_device,
        "bytes to host": run.to_host,
        "guesses": run.guesses,
        "warnings": list(run.warnings),
        "notes": list(run.notes),
    }


# ------------------------------------------------------------------------------- HTML


def as_html(report: ReportMaterial) -> str:
    """One page that needs no other file."""
    data = as_json(report)
    titles = [f"<code>{b.name}</code>: {escape(b.title)}" for b in report.backends]
    parts = [
        f"<p><code>{escape(report.program)}</code>, torch {escape(data['torch'])}, "
        f"Python {escape(data['python'])}, amplint {escape(data['amplint'])}. Run on "
        f"{'; '.join(titles)}.</p>",
        "<h2>Fixes</h2>",
        page.table(
            ["place", "rule", "verdict", "fix", *(b.name for b in report.backends)],
            (fix_cells(each, report.backends) for each in report.verified.judged),
        ),
        *map(fix_html, report.verified.judged),
        "<h2>What the verdicts mean</h2>",
        page.definitions((each.words, each.text) for each in MEANINGS.values()),
        "<h2>Waits of the host and copies</h2>",
        *(waits_html(name, *pair) for name, pair in report.verified.runs.items()),
        *measured_html(report.points),
        *shown_html(report.backends),
        "<h2>Not checked</h2>",
        page.items(unchecked(report)),
        *(f"<p>{escape(each)}</p>" for each in notes(report)),
    ]
    return page.page("amplint verify", parts)


def fix_cells(judged: JudgedFix, backends: Sequence[Backend]) -> list[str]:
    finding = judged.finding
    assert finding.fix is not None
    return [
        row_of(judged),
        finding.code,
        titled(judged.judgement),
        f"{finding.fix.title} ({finding.fix.safety.value})",
        *(
            titled(judged.by_backend[b.name]) if b.name in judged.by_backend else ""
            for b in backends
        ),
    ]


def fix_html(judged: JudgedFix) -> str:
    """A fix: the finding in its source, the diff, and what the verdict rests on."""
    finding, words = judged.finding, titled(judged.judgement)
    assert finding.fix is not None
    kind = page.CLASSES[words]
    parts = [
        f'<h3><span class="place">{escape(row_of(judged))}</span> {escape(finding.code)} '
        f'{escape(finding.name)} <span class="verdict {kind}">{escape(words)}</span></h3>',
        f'<p class="message">{prose(finding.message)}</p>',
        code(source(judged.text, finding.span)),
        f"<p>{finding.fix.safety.value} fix: {prose(finding.fix.title)}</p>",
        code(diff(finding, judged.text, finding.path)),
        *(f"<p>{prose(line.strip())}</p>" for line in reasons(judged)),
        parting_html(judged) if is_explained(judged) else "",
    ]
    return f'<article class="{kind}">{"".join(parts)}</article>'


def parting_html(judged: JudgedFix) -> str:
    parts = []
    for name, (before, after) in judged.partings.items():
        steps = [f"- {step_text(step)}" for step in before[:SHOWN]]
        steps += [f"+ {step_text(step)}" for step in after[:SHOWN]]
        parts.append(
            f"<p>The first operations that differ, on <code>{name}</code>:</p>"
            f"<pre>{escape_lines(chr(10).join(steps))}</pre>"
        )
    return "".join(parts)


def waits_html(name: str, before: Observation, after: Observation) -> str:
    """The waits of a whole run, and a plot of their kinds, if their number changed."""
    if BACKENDS[name].shows[Aspect.WAITS] is AspectShown.NO:
        return f"<p><code>{escape(name)}</code> does not show them.</p>"
    was, now = before.blocking.total, after.blocking.total
    if before.outcome is not after.outcome:
        return f"<p>Not compared on <code>{escape(name)}</code>: one of the runs ended early.</p>"
    copied = f"{before.to_device} bytes are copied to the device before, {after.to_device} after"
    summary = (
        f"<p>On <code>{escape(name)}</code> the host waits {was} times before, {now} after; "
        f"{copied}.</p>"
    )
    if was == now:
        return summary
    changed = [Bars("", kind.value, a, b) for kind, a, b in waits_of(before, after) if a != b]
    return summary + page.columns(f"kinds of waits that changed, on {name}", changed)


def shown_html(backends: Sequence[Backend]) -> list[str]:
    """The aspects that each of these back ends can show."""
    rows = ([b.name, *(b.shows[aspect].value for aspect in Aspect)] for b in backends)
    descriptions = [
        f"{b.name}: {b.title}. " + " ".join(f"{a.value}: {text}." for a, text in b.notes.items())
        for b in backends
    ]
    return [
        "<h2>What each back end shows</h2>",
        page.table(["", *(aspect.value for aspect in Aspect)], rows),
        page.items(descriptions),
    ]


# ------------------------------------------------------------------------------- plots


@dataclass(frozen=True)
class Metric:
    """Something that is plotted.

    Args:
        title: what it is.
        pair: its numbers before and after, of a point that has them.
        unit: the name and the size of the unit, for numbers of which this is the largest.
    """

    title: str
    pair: Callable[[BenchPoint], tuple[float, float] | None]
    unit: Callable[[float], tuple[str, float]]


def waits_per_step(point: BenchPoint) -> tuple[float, float] | None:
    if point.before is None or point.after is None:
        return None
    if point.before.waits is None or point.after.waits is None:
        return None
    before, after = point.before, point.after
    return point.before.waits / (before.steps or 1), point.after.waits / (after.steps or 1)


def time_per_step(point: BenchPoint) -> tuple[float, float] | None:
    if point.times is None or point.before is None or point.after is None:
        return None
    times = point.times
    return times.before / (point.before.steps or 1), times.after / (point.after.steps or 1)


def peak_memory(point: BenchPoint) -> tuple[float, float] | None:
    """The allocator's on a GPU, else of the tensors."""
    if point.times is not None and point.times.peak is not None:
        before, after = point.times.peak
        return before, after
    if point.backend == "cuda" or point.before is None or point.after is None:
        return None
    if point.before.peak is None or point.after.peak is None:
        return None
    return point.before.peak, point.after.peak


def number(_: float) -> tuple[str, float]:
    return "", 1


def of_bytes(most: float) -> tuple[str, float]:
    """Ex) ("MiB", 1048576) where the most is 1.5 MiB"""
    units = {"GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10}
    return next(((name, size) for name, size in units.items() if most >= size), ("bytes", 1))


def of_seconds(most: float) -> tuple[str, float]:
    return ("s", 1) if most >= 1 else ("ms", 1e-3)


METRICS = (
    Metric("waits of the host per step", waits_per_step, number),
    Metric("time per step", time_per_step, of_seconds),
    Metric("peak memory", peak_memory, of_bytes),
)


def measured_html(points: Sequence[BenchPoint]) -> list[str]:
    """The plots of all programs, and a table with every number; nothing without points."""
    if not points:
        return []
    parts = ["<h2>Benefit</h2>", f"<p>{escape(ABOUT)}</p>"]
    for subject, group in groupby(points, lambda point: point.subject):
        own = list(group)
        parts.append(f"<h3><code>{escape(subject)}</code></h3>")
        for metric in METRICS:
            parts += plots(metric, own)
        rows = ([bench.setting(point), "; ".join(bench.findings(point))] for point in own)
        parts.append(page.table(["setting", "before -> after"], rows))
    return parts


ABOUT = (
    "Bars are single runs: counts are exact, times are medians. A run without optimizers counts as "
    "one step. To judge times, use the tables: they show the ratio of after to before with its "
    "interval of 95 %, and the same ratio of the original to itself, as a control. A gain lies "
    "below 1 and outside the control's interval. Peak memory is that of the allocator on a GPU, "
    "and elsewhere the bytes that tensors hold."
)


def plots(metric: Metric, points: Sequence[BenchPoint]) -> list[str]:
    """A plot for each back end that has the metric, or a sentence that none has."""
    parts = []
    for name, group in groupby(points, lambda point: point.backend):
        pairs = {point: pair for point in group if (pair := metric.pair(point)) is not None}
        if pairs and all(before == after for before, after in pairs.values()):
            parts.append(f"<p>{metric.title}, on {escape(name)}: the same before and after.</p>")
        elif pairs:
            unit, size = metric.unit(max(map(max, pairs.values())))
            bars = [
                Bars(
                    block=point.precision,
                    label="" if point.size is None else f"{point.size} a batch",
                    before=pair[0] / size,
                    after=pair[1] / size,
                )
                for point, pair in sorted(pairs.items(), key=by_precision)
            ]
            title = " in ".join(filter(None, (metric.title, unit)))
            parts.append(page.columns(f"{title}, on {name}: {BACKENDS[name].title}", bars))
    if parts:
        return parts
    names = dict.fromkeys(point.backend for point in points)
    reasons = dict.fromkeys(point.missing for point in points if point.missing)
    why = f"not measured: {', '.join(names)} does not show it"
    return [f"<p>{escape('; '.join([f'{metric.title}: {why}', *reasons]))}.</p>"]


def by_precision(item: tuple[BenchPoint, object]) -> int:
    """For sorting: fp32 first, whatever the size."""
    return [*bench.PRECISIONS, item[0].precision].index(item[0].precision)


def write(report: ReportMaterial, directory: Path) -> None:
    """Write verify.json and verify.html to a directory that is there. Raises OSError."""
    page.write(directory, as_json(report), as_html(report))
