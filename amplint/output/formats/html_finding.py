"""One finding in the HTML page: its source, a picture of what it rests on, its fix as a diff."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from amplint.findings.finding import Cost, Finding, Related, Safety
from amplint.fix.applying import apply_fixes
from amplint.output.formats import NO_TEXT, STDIN, Report, advice
from amplint.output.formats.text import cut
from amplint.output.html_page import escape, prose
from amplint.output.repeats import Entry
from amplint.util.line_diff import changes
from amplint.util.positions import Span
from amplint.util.text import LINE_END, Text

COSTS = {
    Cost.RUN: "the whole run",
    Cost.ELEMENT: "for each element",
    Cost.STEP: "in each step",
    Cost.EVALUATION: "in each step of evaluation",
    Cost.ONCE: "once",
}
AROUND = 2  # rows of code shown on each side of a finding
MOST_ROWS = 12  # of a finding
WIDEST = 200  # characters of a line
ANY = frozenset(Safety)
CLASSES = {"+": "added", "-": "removed"}


def article(
    entry: Entry, numbers: Mapping[int, int], attributes: Mapping[str, str], report: Report
) -> str:
    """A finding, with those that are shown as one with it.

    Args:
        entry: the findings.
        numbers: by the `id` of a finding: its place among all, from 1.
        attributes: what the filters of the page ask for.
        report: that of the run.
    """
    finding, number = entry.first, numbers[id(entry.first)]
    data = " ".join(f'data-{key}="{escape(value)}"' for key, value in attributes.items())
    count = len(entry.findings)
    text, span = report.source(finding)
    parts = [
        heading(finding, number, report),
        f'<p class="message">{prose(finding.message)}</p>',
        *(beside(each, numbers[id(each)], report) for each in entry.also),
        code(source(text, span), "source"),
        again(entry, numbers, report),
        chain(finding, text.line(span.start.row), report),
        f"<p>{prose(advice(finding))}</p>" if finding.fix else "",
        code(change(finding, report)),
        f"<p>help: {prose(finding.help)}</p>" if finding.help else "",
        question(finding, report),
    ]
    return (
        f'<article id="f{number}" class="{finding.severity}" data-count="{count}" {data}>'
        f"{''.join(parts)}</article>\n"
    )


def beside(finding: Finding, number: int, report: Report) -> str:
    """A finding of another rule on the same expression: its heading, message and advice."""
    advised = "; ".join(filter(None, (advice(finding) if finding.fix else "", finding.help)))
    return (
        f'<div class="also" id="f{number}">{heading(finding, number, report)}'
        f'<p class="message">{prose(finding.message)}</p>'
        + f"<p>{prose(advised)}</p>" * bool(advised)
        + "</div>"
    )


def again(entry: Entry, numbers: Mapping[int, int], report: Report) -> str:
    """Links to the other places of a finding that is repeated; nothing without any."""
    links = ", ".join(
        f'<a class="place" id="f{numbers[id(each)]}" href="#f{numbers[id(each)]}">'
        f"{escape(report.place(each.path, each.span.start))}</a>"
        for each in entry.again
    )
    return f'<p class="again">also at {links}</p>' if links else ""


def heading(finding: Finding, number: int, report: Report) -> str:
    """The place, which links to the finding itself, and the rule, which links to its page."""
    place = report.place(finding.path, finding.span.start)
    return (
        f'<h3><a class="place" href="#f{number}">{escape(place)}</a> '
        f'<a href="#{escape(finding.code)}">{escape(finding.code)}</a> {escape(finding.name)} '
        f'<span class="tag group">{finding.group.value}</span> '
        f'<span class="tag">{COSTS[finding.cost]}</span></h3>'
    )


def code(rows: Iterator[str], kind: str = "") -> str:
    """Rows of code, of a class; nothing without any."""
    content = "".join(rows)
    named = f' class="{kind}"' * bool(kind)
    return f"<pre{named}><code>{content}</code></pre>" if content else ""


def question(finding: Finding, report: Report) -> str:
    """The command that explains the line; nothing for a text that is in no file. A script writes
    the row of another line into it."""
    if finding.path == STDIN:
        return ""
    start = finding.span.start
    part = report.part(finding.path, start)
    cell = "" if part.cell is None else f":{part.cell}"
    file = f"{shlex.quote(report.path(finding.path))}{cell}"
    row = f'<span class="at">{part.place(start).row}</span>'
    return (
        '<p class="why">what amplint knows here, and why other rules are silent: '
        f"<code>amplint explain --at {escape(file)}:{row}</code></p>"
    )


def source(text: Text, span: Span) -> Iterator[str]:
    """The rows around a span, which is marked; of a long one, the first rows."""
    if not text.text:
        return
    first, last = span.start.row, min(span.end.row, span.start.row + MOST_ROWS - 1)
    rows = range(max(first - AROUND, 1), min(last + AROUND, text.rows) + 1)
    lines = [text.line(row) for row in rows]
    indent = min((len(space(line)) for line in lines if line.strip()), default=0)
    for row, line in zip(rows, lines, strict=True):
        start = end = len(line)
        if first <= row <= last:
            start = span.start.column - 1 if row == first else len(space(line))
            end = max(start, span.end.column - 1 if row == span.end.row else len(line))
        places = max(start - indent, 0), max(end - indent, 0)
        before, marked, after = map(escape, cut(line[indent:], *places, WIDEST))
        marked = f"<mark>{marked}</mark>" if marked else ""
        yield f'<span class="row" data-row="{row}">{before}{marked}{after}\n</span>'


def space(line: str) -> str:
    """The white space that a line begins with."""
    return line[: len(line) - len(line.lstrip())]


def chain(finding: Finding, line: str, report: Report) -> str:
    """The way to the finding as a picture, from the farthest step on; then what stands beside it.

    Where nothing is known to lead to the finding, all places do.
    """
    if not finding.related:
        return ""
    way = [related for related in finding.related if related.leads] or list(finding.related)
    beside = [related for related in finding.related if related not in way]
    steps = "".join(step(related, report) for related in reversed(way))
    remarks = "".join(step(related, report) for related in beside)
    return (
        f'<ol class="chain">{steps}<li class="here">here{line_of_code(line)}</li></ol>'
        + f'<ul class="beside">{remarks}</ul>' * bool(remarks)
    )


def step(related: Related, report: Report) -> str:
    """A related place: its message, the place, and the line of code that is there."""
    place = report.place(related.path, related.span.start)
    outcome = report.outcome
    text = outcome.texts.get(related.path) or outcome.all_texts.get(related.path, NO_TEXT)
    line = line_of_code(text.line(related.span.start.row))
    return f'<li>{prose(related.message)} <span class="place">{escape(place)}</span>{line}</li>'


def line_of_code(line: str) -> str:
    text = "".join(cut(line.strip(), 0, 0, WIDEST))
    return f'<code class="line">{escape(text)}</code>' if text else ""


def change(finding: Finding, report: Report) -> Iterator[str]:
    """The rows of the diff that the fix makes."""
    text = report.outcome.texts.get(finding.path)
    if finding.fix is not None and text is not None:
        yield from diff(finding, text, report.path(finding.path))


def diff(finding: Finding, text: Text, path: str) -> Iterator[str]:
    """The rows of the diff that a fix makes in a text; a cell of a notebook is named above its own.

    Args:
        finding: which has a fix.
        text: of its file.
        path: of it, for the reader.
    """
    after = apply_fixes(text.text, [finding], ANY).text
    for name, *texts in text.changes(path, after):
        if name != path:
            yield f'<span class="row quiet">{escape(name)}\n</span>'
        for sign, number, row in compared(*map(lines_of, texts)):
            kind = CLASSES.get(sign, "")
            code = escape("".join(cut(row, 0, 0, WIDEST)))
            yield f'<span class="row {kind}" data-row="{number}">{sign} {code}\n</span>'


def lines_of(text: str) -> list[str]:
    return LINE_END.split(text)


def compared(old: list[str], new: list[str]) -> Iterator[tuple[str, int, str]]:
    """The rows that differ and those around: "-", "+" or " ", the number, the row."""
    stretches = list(changes(old, new))
    nexts = [*(start for _, _, start, _ in stretches[1:]), len(new)]
    position = 0  # rows of the new text
    for (i, j, start, end), following in zip(stretches, nexts, strict=False):
        yield from ((" ", at + 1, new[at]) for at in range(max(position, start - AROUND), start))
        yield from (("-", at + 1, old[at]) for at in range(i, j))
        yield from (("+", at + 1, new[at]) for at in range(start, end))
        position = min(end + AROUND, following)
        yield from ((" ", at + 1, new[at]) for at in range(end, position))
