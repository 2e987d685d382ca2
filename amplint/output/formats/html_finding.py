"""One finding in the HTML page: its source, a picture of what it rests on, its fix as a diff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amplint.core.finding import Cost, Finding, Position, Safety, Span
from amplint.core.text import Text
from amplint.output.fixing import apply_fixes
from amplint.output.formats import NO_TEXT, Report, advice, diff
from amplint.output.formats.text import cut
from amplint.output.page import escape, escape_lines, prose

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
CLASSES = {"+": "added", "-": "removed", "@": "hunk"}


def article(finding: Finding, number: int, attributes: Mapping[str, str], report: Report) -> str:
    """A finding.

    Args:
        finding: the finding.
        number: its place among the others, from 1.
        attributes: what the filters of the page ask for.
        report: that of the run.
    """
    data = " ".join(f'data-{key}="{escape(value)}"' for key, value in attributes.items())
    text, span = report.source(finding)
    parts = [
        heading(finding, number, report),
        f'<p class="message">{prose(finding.message)}</p>',
        code(source(text, span)),
        chain(finding, text.line(span.start.row), report),
        f"<p>{prose(advice(finding))}</p>" if finding.fix else "",
        code(change(finding, report)),
        f"<p>help: {prose(finding.help)}</p>" if finding.help else "",
    ]
    return (
        f'<article id="f{number}" class="{finding.group.severity}" {data}>'
        f"{''.join(parts)}</article>\n"
    )


def heading(finding: Finding, number: int, report: Report) -> str:
    """The place, which links to the finding itself, and the rule, which links to its page."""
    place = report.place(finding.path, finding.span.start)
    return (
        f'<h3><a class="place" href="#f{number}">{escape(place)}</a> '
        f'<a href="#{escape(finding.code)}">{escape(finding.code)}</a> {escape(finding.name)} '
        f'<span class="tag group">{finding.group.value}</span> '
        f'<span class="tag">{COSTS[finding.cost]}</span></h3>'
    )


def code(rows: Iterator[str]) -> str:
    """Rows of code; nothing without any."""
    content = "".join(rows)
    return f"<pre><code>{content}</code></pre>" if content else ""


def source(text: Text, span: Span) -> Iterator[str]:
    """The rows around a span, which is marked; of a long one, the first rows."""
    if not text.text:
        return
    first, last = span.start.row, min(span.end.row, span.start.row + MOST_ROWS - 1)
    for row in range(max(first - AROUND, 1), min(last + AROUND, text.rows) + 1):
        line = text.line(row)
        start = end = len(line)
        if first <= row <= last:
            start = span.start.column - 1 if row == first else len(line) - len(line.lstrip())
            end = max(start, span.end.column - 1 if row == span.end.row else len(line))
        before, marked, after = map(escape, cut(line, start, end, WIDEST))
        marked = f"<mark>{marked}</mark>" if marked else ""
        yield f'<span class="row" data-row="{row}">{before}{marked}{after}\n</span>'


def chain(finding: Finding, line: str, report: Report) -> str:
    """The steps down to the finding: related places come from the nearest to the farthest."""
    if not finding.related:
        return ""
    steps = [
        step("", report.place(related.path, related.span.start), related.message, row)
        for related in reversed(finding.related)
        for row in [line_at(related.path, related.span.start, report)]
    ]
    here = report.place(finding.path, finding.span.start)
    steps.append(step(' class="here"', here, finding.message, line))
    return f'<ol class="chain">{"".join(steps)}</ol>'


def step(attribute: str, place: str, message: str, line: str) -> str:
    """A step of a chain: a place, a message on it, and its line of code."""
    shown = "".join(cut(line.strip(), 0, 0, WIDEST))
    written = f'<code class="line">{escape(shown)}</code>' if shown else ""
    return (
        f'<li{attribute}>{prose(message)} <span class="place">{escape(place)}</span>{written}</li>'
    )


def line_at(path: str, position: Position, report: Report) -> str:
    text = report.outcome.texts.get(path) or report.outcome.all_texts.get(path, NO_TEXT)
    return text.line(position.row)


def change(finding: Finding, report: Report) -> Iterator[str]:
    """The rows of the diff that the fix makes; a cell of a notebook is named above its own."""
    text = report.outcome.texts.get(finding.path)
    if finding.fix is None or text is None:
        return
    path = report.path(finding.path)
    after = apply_fixes(text.text, [finding], ANY).text
    for name, old, new in text.changes(path, after):
        rows = list(diff.lines(name, old, new))[2:]  # without the lines that name the file
        if rows and name != path:
            yield f'<span class="row hunk">{escape(name)}\n</span>'
        for row in rows:
            kind = CLASSES.get(row[0], "")
            shown = "".join(cut(row.rstrip("\r\n"), 0, 0, WIDEST))
            yield f'<span class="row {kind}">{escape_lines(shown)}\n</span>'
