"""For people: each finding with its code, what it rests on and what would mend it; then a count."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from amplint.findings.finding import Finding, Group, Safety
from amplint.output.formats import Report, advice, concise
from amplint.output.relevance import is_about_torch
from amplint.output.repeats import LINKS, Entry, entries, is_brief
from amplint.util.escaping import printable, taken_apart
from amplint.util.positions import Span
from amplint.util.text import Text
from amplint.util.wording import counted

if TYPE_CHECKING:
    from amplint.run.request import Outcome

COLORS = {"error": "red", "warning": "yellow"}
TAB = 4
WIDEST = 120  # of a line of code where the report is written for no terminal
NARROWEST = 40  # in a terminal that has fewer columns, the lines wrap
MARGIN = 10  # of a line that is too long, this much is shown on each side of the finding
CUT = "…"
# Below more entries than MANY, the places of the FIRST few are named again.
MANY, FIRST = 8, 3


def render(report: Report) -> str:
    all_entries = entries(report.outcome.findings)
    blocks: list[str] = []
    for brief, together in groupby(all_entries, lambda entry: is_brief(entry.first)):
        if brief:  # blocks end with an empty line each, and lines with one for all of them
            blocks.append("\n".join(line(entry, report) for entry in together) + "\n")
        else:
            blocks += (block(entry, report) for entry in together)
    # That there are no files is a notice; beside an error, that there are no findings says nothing.
    is_known = report.outcome.findings or not report.outcome.problems
    if report.with_summary and report.outcome.files and is_known:
        if report.columns is not None and len(all_entries) > MANY:
            blocks.append(costliest_line(all_entries, report))
        blocks.append(summary(report.outcome))
        blocks += off_by_default(report.outcome)
    return "\n".join(blocks)


def line(entry: Entry, report: Report) -> str:
    """A finding in one line, as `concise` has it, and where it is repeated."""
    return "".join(
        (concise.line(entry.first, report), *(f"; {at}" for at in places(entry, report)))
    )


def block(entry: Entry, report: Report) -> str:
    """A finding with its code and its repeats, ended by an empty line."""
    finding, others = entry.first, entry.also
    lines = [headline(each, report) for each in (finding, *others)]
    text, span = report.source(finding)
    if text.text:
        lines += frame(text, span, COLORS[finding.severity], report.columns)
    advised = dict.fromkeys(advice(each) for each in (finding, *others))
    below = (*places(entry, report), *cut_chain(finding, report), *advised)
    lines += [f"  {each}" for each in below if each]
    return "\n".join(lines) + "\n"


def places(entry: Entry, report: Report) -> Iterator[str]:
    """Ex) also at lines 124, 128"""
    starts = [each.span.start for each in entry.again]
    if not starts:
        return
    if report.text(entry.first.path).text:  # a notebook, whose lines are those of a cell
        yield f"also at {', '.join(report.place(entry.first.path, start) for start in starts)}"
        return
    rows = ", ".join(dict.fromkeys(str(start.row) for start in starts))
    yield f"also at {'lines' if ',' in rows else 'line'} {rows}"


def cut_chain(finding: Finding, report: Report) -> list[str]:
    """The places that a finding rests on; of more than two, where to read the others."""
    chain = report.chain(finding)
    rest = len(chain) - LINKS
    if rest <= 0:
        return chain
    at = report.place(finding.path, finding.span.start).rpartition(":")[0]
    return [
        *chain[: LINKS - 1],
        f"{chain[LINKS - 1]} (and {rest} more: `amplint explain --at {at}`)",
    ]


def costliest_line(all_entries: Sequence[Entry], report: Report) -> str:
    """The places to look at first, again where a reader's eyes are: below a long report."""
    dearest = [one.first for one in all_entries if not is_brief(one.first)][:FIRST]
    where = [f"{report.place(one.path, one.span.start)} {one.code}" for one in dearest]
    return f"most expensive: {', '.join(where)}\n" if where else ""


def off_by_default(outcome: Outcome) -> list[str]:
    """Ex) 3 more in rules that are off: --extend-select AMP106,AMP911"""
    if not outcome.findings or not outcome.off or outcome.left_out:
        return []
    codes = ",".join(sorted({code for _, code in outcome.off}))
    return [f"{len(outcome.off):,} more in rules that are off: --extend-select {codes}"]


def headline(finding: Finding, report: Report) -> str:
    place = click.style(report.place(finding.path, finding.span.start), bold=True)
    code = click.style(finding.code, fg=COLORS[finding.severity], bold=True)
    return f"{place} {code} {finding.name}: {printable(finding.message)}"


def frame(text: Text, span: Span, color: str, wide: int | None) -> Iterator[str]:
    """The line in which a span begins, with carets under it.

    `wide` is how many columns the terminal has.
    """
    row, column = span.start
    width = len(str(row))
    margin = len(f"  {'':{width}} | ")
    room = WIDEST if wide is None else max(wide - margin, NARROWEST)
    line = text.line(row)
    end = span.end.column if span.end.row == row else len(line) + 1
    before, marked, after = cut(line, column - 1, max(end - 1, column), room)
    yield taken_apart(f"  {row:{width}} | {before}{marked}{after}".rstrip())
    carets = " " * columns(before) + "^" * max(columns(marked), 1)
    yield f"  {'':{width}} | {click.style(carets, fg=color, bold=True)}"


def cut(line: str, start: int, end: int, room: int) -> tuple[str, str, str]:
    """A line as it is shown: what is before, in and after [start, end), of `room` characters."""
    # Of what is far away nothing is shown, and a line may be as long as a file.
    first, last = max(start - room - 1, 0), min(end, start + room + 1)
    line = line[first:last] + line[end : end + room + 1]
    start, end = start - first, last - first
    text = expand(line)
    places = [len(expand(line[:place])) for place in (start, end)]
    before, marked, after = text[: places[0]], text[places[0] : places[1]], text[places[1] :]
    if len(text) <= room:
        return before, marked, after
    sides = min(len(before), MARGIN) + min(len(after), MARGIN)
    marked = shortened(marked, room - sides)
    before_room = room - len(marked) - min(len(after), MARGIN)
    if len(before) > before_room:
        before = CUT + before[len(before) + 1 - before_room :]
    return before, marked, shortened(after, room - len(marked) - len(before))


def shortened(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + CUT


def expand(line: str) -> str:
    """The line with its tabs as spaces and nothing that a terminal would act on."""
    pieces: list[str] = []
    at = 0
    for character in line:
        piece = " " * (TAB - at % TAB) if character == "\t" else printable(character)
        at += columns(piece)
        pieces.append(piece)
    return "".join(pieces)


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(map(columns_of, text))


def columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def summary(outcome: Outcome) -> str:
    """One line: how many files, findings by group, how many can be mended how, and how many others
    are not reported."""
    files = counted(len(outcome.files), "file")
    left_out = "".join(f"; {phrase} left out" for phrase in outcome.left_out)
    if not outcome.findings:
        is_all = outcome.all_texts and not (left_out or outcome.problems)
        if is_all and not is_about_torch(outcome.all_texts):
            none = "it does not import" if len(outcome.files) == 1 else "none of them imports"
            return f"{files}, no findings: {none} torch, and amplint checks only code that does"
        return f"{files}, no {'new ' * bool(left_out)}findings{left_out}"
    groups = Counter(finding.group for finding in outcome.findings)
    by_group = ", ".join(f"{groups[group]} {group.value}" for group in Group if groups[group])
    fixes = Counter(finding.fix.safety for finding in outcome.findings if finding.fix is not None)
    by_safety = ", ".join(
        f"{fixes[safety]} {word}"
        for safety, word in ((Safety.SAFE, "safe"), (Safety.UNSAFE, "unsafe"))
        if fixes[safety]
    )
    fixable = f"; fixable: {by_safety}" if by_safety else ""
    return f"{files}, {counted(len(outcome.findings), 'finding')} ({by_group}){fixable}{left_out}"
