"""What was found of the fixes of a project: as text, as JSON, as one HTML page."""

from __future__ import annotations

import html
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from amplint import __version__
from amplint.verify.backends import Aspect, Backend, Shows
from amplint.verify.lab import Judged, Step, Verified
from amplint.verify.observation import Observation, Wait
from amplint.verify.verdicts import BAD, Judgement, Verdict

SCHEMA = 1
SHOWN = 3  # operations of a divergence

VERIFIED, DIFFERS, UNDECIDED = 0, 1, 3


@dataclass(frozen=True)
class Report:
    """What to tell.

    Args:
        verified: what was found.
        backends: on which the program ran.
        program: it, in words.
        linked: what the copies linked to.
    """

    verified: Verified
    backends: Sequence[Backend]
    program: str
    linked: tuple[str, ...]

    @property
    def status(self) -> int:
        """The exit status: 1 if a fix differs or crashes, 3 if one could not be decided, else 0."""
        judgements = [each.judgement for each in self.verified.judged]
        if any(each.verdict in BAD or each.undeclared for each in judgements):
            return DIFFERS
        return VERIFIED if all(each.good for each in judgements) else UNDECIDED


# ------------------------------------------------------------------------------- text


def text(report: Report) -> str:
    """The verdicts for a terminal."""
    lines = []
    for reasons, fixes in groupby(report.verified.judged, lambda each: tuple(why(each))):
        lines += [*map(heading, fixes), *reasons]
    counts = [
        f"{count} {verdict.value}"
        for verdict in Verdict
        if (count := sum(each.judgement.verdict is verdict for each in report.verified.judged))
    ]
    lines.append(", ".join(counts) if counts else "there is nothing to verify")
    if counts:
        lines += of_waits(report.verified.runs)
        lines += [f"not checked: {each}" for each in unchecked(report)]
        lines += [f"note: {each}" for each in notes(report)]
    return "\n".join(lines)


def heading(judged: Judged) -> str:
    """Ex) "train.py:3:5: AMP501 exact (safe fix: Create the tensor on the device)" """
    finding = judged.finding
    assert finding.fix is not None
    start = finding.span.start
    return (
        f"{finding.path}:{start.row}:{start.column}: {finding.code} {titled(judged.judgement)} "
        f"({finding.fix.safety.value} fix: {finding.fix.title})"
    )


def why(judged: Judged) -> Iterator[str]:
    """The lines below the heading of a fix."""
    reason = judged.judgement.reason
    if reason:
        yield f"    {reason}"
    for name, judgement in judged.by_backend.items():
        if judgement.reason != reason or judgement.verdict is not judged.judgement.verdict:
            yield f"    {name}: {titled(judgement)}" + (
                judgement.reason and f", {judgement.reason}"
            )
    if not judged.judgement.good:
        for name, (before, after) in judged.partings.items():
            yield f"    first operations that are not the same, on {name}:"
            yield from (f"      - {told(step)}" for step in before[:SHOWN])
            yield from (f"      + {told(step)}" for step in after[:SHOWN])


def titled(judgement: Judgement) -> str:
    if judgement.undeclared is None:
        return judgement.verdict.value
    return f"{judgement.verdict.value} (its rule does not say so)"


def told(step: Step) -> str:
    """Ex) "train.py:3 aten.zeros.default () -> float32@cpu | z = torch.zeros(3)" """
    row = step.row
    place = f"{row.path}:{row.row}" if row.path else "library"
    source = f" | {step.line}" if step.line else ""
    return f"{place} {row.op} ({', '.join(row.inputs)}) -> {', '.join(row.outputs)}{source}"


def of_waits(runs: Mapping[str, tuple[Observation, Observation]]) -> Iterator[str]:
    """Waits and copies that the good fixes change, where a back end shows them."""
    for name, (before, after) in runs.items():
        for wait in Wait:
            was, now = (run.waits.get(wait.value) for run in (before, after))
            counts = [each.total if each else 0 for each in (was, now)]
            if counts[0] != counts[1]:
                yield f"{wait.value} on {name}: {counts[0]} -> {counts[1]}"
        if before.to_device != after.to_device:
            yield f"bytes from host to device on {name}: {before.to_device} -> {after.to_device}"


def unchecked(report: Report) -> list[str]:
    """What no back end of these shows in full."""
    found = []
    for aspect in Aspect:
        best = [backend.shows[aspect] for backend in report.backends]
        if Shows.YES not in best:
            partly = [b.name for b in report.backends if b.shows[aspect] is Shows.PARTLY]
            found.append(aspect.value + (f" (partly on {', '.join(partly)})" if partly else ""))
    return found


def notes(report: Report) -> list[str]:
    """What the runs say of themselves, and of the copies they were made in."""
    notes = {note for pair in report.verified.runs.values() for run in pair for note in run.notes}
    for name, (_, after) in report.verified.runs.items():
        if after.guesses:
            notes.add(f"{after.guesses} values that the program read on {name} were guessed")
        if after.dropped:
            notes.add(f"{after.dropped} operations on {name} were not written down")
    if report.linked:
        notes.add(f"linked to and not copied: {', '.join(report.linked[:5])}")
    return sorted(notes)


# ------------------------------------------------------------------------------- JSON


def as_json(report: Report) -> dict[str, Any]:
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
        "not checked": unchecked(report),
        "notes": notes(report),
    }


def fix_as_json(judged: Judged) -> dict[str, Any]:
    finding = judged.finding
    assert finding.fix is not None
    return {
        "path": finding.path,
        "row": finding.span.start.row,
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
                "before": [told(step) for step in before],
                "after": [told(step) for step in after],
            }
            for name, (before, after) in judged.partings.items()
        },
    }


def judgement_as_json(judgement: Judgement) -> dict[str, Any]:
    return {
        "verdict": judgement.verdict.value,
        "good": judgement.good,
        "reason": judgement.reason,
        "differences": [str(each) for each in judgement.differences],
    }


def run_as_json(run: Observation) -> dict[str, Any]:
    return {
        "outcome": run.outcome.value,
        "operations": len(run.rows) + run.dropped,
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

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em;
       color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border: 1px solid #ccc; padding: .3em .6em; text-align: left; vertical-align: top }
code, pre { font: 13px/1.4 ui-monospace, monospace } pre { background: #f6f6f6; padding: .6em }
.good { color: #05642b } .bad { color: #a00 } .open { color: #8a5a00 }
svg text { font: 12px system-ui, sans-serif }
"""


def as_html(report: Report) -> str:
    """One page that needs no other file."""
    data = as_json(report)
    titles = [f"<code>{b.name}</code>: {escape(b.title)}" for b in report.backends]
    parts = [
        f"<p><code>{escape(report.program)}</code>, torch {escape(data['torch'])}, "
        f"Python {escape(data['python'])}, amplint {escape(data['amplint'])}. Run on "
        f"{'; '.join(titles)}.</p>",
        "<h2>Fixes</h2>",
        table(
            ["place", "rule", "verdict", "fix", "why", *(b.name for b in report.backends)],
            (fix_cells(each, report.backends) for each in report.verified.judged),
        ),
        *(parting_html(each) for each in report.verified.judged if not each.judgement.good),
        "<h2>Waits of the host and copies</h2>",
        *(bars(name, *pair) for name, pair in report.verified.runs.items()),
        "<h2>What each back end shows</h2>",
        table(
            ["", *(aspect.value for aspect in Aspect)],
            ([b.name, *(b.shows[aspect].value for aspect in Aspect)] for b in report.backends),
        ),
        "<h2>Not checked</h2>",
        "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in unchecked(report)) + "</ul>",
        *(f"<p>{escape(each)}</p>" for each in notes(report)),
    ]
    return page("amplint verify", parts)


def page(title: str, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n{body}\n"
        "</body></html>\n"
    )


def fix_cells(judged: Judged, backends: Sequence[Backend]) -> list[str]:
    finding = judged.finding
    assert finding.fix is not None
    return [
        f"{finding.path}:{finding.span.start.row}",
        finding.code,
        titled(judged.judgement),
        f"{finding.fix.title} ({finding.fix.safety.value})",
        judged.judgement.reason,
        *(
            titled(judged.by_backend[b.name]) if b.name in judged.by_backend else ""
            for b in backends
        ),
    ]


def parting_html(judged: Judged) -> str:
    found = []
    for name, (before, after) in judged.partings.items():
        steps = [f"- {told(step)}" for step in before[:SHOWN]]
        steps += [f"+ {told(step)}" for step in after[:SHOWN]]
        place = f"{judged.finding.path}:{judged.finding.span.start.row}"
        found.append(
            f"<p>{escape(place)}: the first operations that are not the same, on "
            f"<code>{name}</code></p><pre>{escape(chr(10).join(steps))}</pre>"
        )
    return "".join(found)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table of plain texts."""
    first = "".join(f"<th>{escape(head)}</th>" for head in heads)
    rest = "".join(
        "<tr>" + "".join(f"<td{classed(cell)}>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{first}</tr>{rest}</table>"


CLASSES = {
    **dict.fromkeys(("exact", "improved", "declared-change", "stream-changed"), "good"),
    **dict.fromkeys(("differs", "crashes"), "bad"),
    **dict.fromkeys(("not-executed", "inconclusive"), "open"),
}


def classed(cell: str) -> str:
    return f' class="{CLASSES[cell]}"' if cell in CLASSES else ""


def bars(name: str, before: Observation, after: Observation) -> str:
    """A bar chart of the waits by kind, before and after, as an inline SVG."""
    kinds = [wait.value for wait in Wait if wait.value in {**before.waits, **after.waits}]
    if not kinds:
        return f"<p><code>{name}</code> saw none.</p>"
    rows = [
        (kind, *(run.waits[kind].total if kind in run.waits else 0 for run in (before, after)))
        for kind in kinds
    ]
    return chart(f"on {name}", [("before", "#999"), ("after", "#05642b")], rows)


Series = Sequence[tuple[str, str]]  # names and colours


def chart(title: str, series: Series, rows: Sequence[tuple[Any, ...]]) -> str:
    """Horizontal bars, a group for each row: its name, and a number for each of the series."""
    left, width, height, gap = 180, 420, 16, 10
    most = max((number for _, *numbers in rows for number in numbers), default=0) or 1
    parts, y = [], 24
    for label, *numbers in rows:
        middle = y + height * len(numbers) / 2 + 4
        parts.append(f'<text x="{left - 8}" y="{middle}" text-anchor="end">{escape(label)}</text>')
        for number, (_, colour) in zip(numbers, series, strict=True):
            length = round(width * number / most, 1)
            parts.append(
                f'<rect x="{left}" y="{y}" width="{length}" height="{height - 3}" fill="{colour}"/>'
                f'<text x="{left + length + 5}" y="{y + 11}">{number:.4g}</text>'
            )
            y += height
        y += gap
    keys = "".join(
        f'<tspan fill="{colour}">\u25a0 {escape(name)} </tspan>' for name, colour in series
    )
    return (
        f'<svg role="img" aria-label="{escape(title)}" width="{left + width + 90}" height="{y}">'
        f'<text x="0" y="14">{escape(title)} {keys}</text>{"".join(parts)}</svg>'
    )


def escape(value: object) -> str:
    return html.escape(str(value))


def write(report: Report, directory: Path) -> tuple[Path, Path]:
    """Write verify.json and verify.html. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    files = directory / "verify.json", directory / "verify.html"
    files[0].write_text(json.dumps(as_json(report), indent=2) + "\n", encoding="utf-8")
    files[1].write_text(as_html(report), encoding="utf-8")
    return files
