"""The HTML page of a verification: tables, and plots as inline SVG, in the frame of all pages."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from amplint.output.html_page import document, escape, prose, resource
from amplint.util.errors import Failure
from amplint_verify.compare.verdict import BAD, GOOD, IF_DECLARED, MEANINGS

STYLE = (
    resource("report.css")
    + """
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto }
th, td { border: 1px solid var(--line); padding: .3em .6em; text-align: left; vertical-align: top }
figure { margin: 1.5em 0; overflow-x: auto }
article.good { border-left-color: var(--good) } article.bad { border-left-color: var(--bad) }
.verdict { font-weight: 600 }
dt { font-weight: 600; margin-top: .5em } dd { margin: 0 0 0 1.4em }
span.good, td.good, dt.good { color: var(--good) } span.bad, td.bad, dt.bad { color: var(--bad) }
span.open, td.open, dt.open { color: var(--open) }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink) }
svg line { stroke: var(--line) }
.before { fill: var(--before) } .after { fill: var(--after) }
"""
)
UNDECLARED = " (its rule does not say so)"
CLASSES = {
    **dict.fromkeys((each.words for each in MEANINGS.values()), "open"),
    **dict.fromkeys((MEANINGS[each].words for each in GOOD), "good"),
    **dict.fromkeys((MEANINGS[each].words for each in BAD), "bad"),
    **dict.fromkeys((f"{MEANINGS[each].words}{UNDECLARED}" for each in IF_DECLARED), "bad"),
    **{"verified": "good", "not shown": "open", "not run": "open"},
}


def page(title: str, parts: Iterable[str]) -> str:
    """The document.

    Args:
        title: plain text.
        parts: HTML.
    """
    return document(title, parts, STYLE)


def make(directory: Path) -> None:
    """Make the directory of a report. Raises `Failure` if nothing can be written there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise Failure(f"no report can be written to {directory}: {error}") from error


def write(directory: Path, data: object, text: str) -> None:
    """Write verify.json and verify.html, and say so. Raises OSError."""
    for name, content in {
        "verify.json": json.dumps(data, indent=2) + "\n",
        "verify.html": text,
    }.items():
        (directory / name).write_text(content, encoding="utf-8")
        click.echo(f"amplint: wrote {directory / name}", err=True)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts with `code` in them; a cell that is a verdict has its colour."""
    first = "".join(f"<th>{escape(head)}</th>" for head in heads)
    rest = "".join(
        "<tr>" + "".join(f"<td{classed(cell)}>{prose(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{first}</tr>{rest}</table>"


def classed(cell: str) -> str:
    return f' class="{CLASSES[cell]}"' if cell in CLASSES else ""


def definitions(meanings: Iterable[tuple[str, str]]) -> str:
    """Words, each with what it means; verdicts in their colours."""
    terms = (
        f"<dt{classed(words)}>{escape(words)}</dt><dd>{escape(text)}</dd>"
        for words, text in meanings
    )
    return f"<dl>{''.join(terms)}</dl>"


def items(texts: Iterable[str]) -> str:
    """A list of plain texts."""
    return "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in texts) + "</ul>"


# ------------------------------------------------------------------------------- plots


@dataclass(frozen=True)
class Bars:
    """A group of two bars, with their numbers above them.

    Args:
        block: what stands below a run of groups that share it; "" for nothing.
        label: below the group.
        before, after: the numbers.
    """

    block: str
    label: str
    before: float
    after: float


WIDTH, HEIGHT, GAP, TOP, BOTTOM, MARGIN = 46, 150, 22, 46, 44, 8  # pixels; of one bar
LEGEND = 150


def columns(title: str, groups: Sequence[Bars]) -> str:
    """Two bars for each group, before and after, on an axis that starts at zero.

    Raises ValueError if there are no groups.
    """
    most = max(max(group.before, group.after) for group in groups) or 1.0
    wide = 2 * WIDTH + GAP
    parts = legend()
    base = TOP + HEIGHT
    blocks: dict[str, list[int]] = {}
    for at, group in enumerate(groups):
        edge = MARGIN + at * wide
        blocks.setdefault(group.block, []).append(edge)
        for number, (name, size) in enumerate((("before", group.before), ("after", group.after))):
            tall = round(HEIGHT * size / most, 1)
            x = edge + number * WIDTH
            parts.append(
                f'<rect class="{name}" x="{x}" y="{base - tall:g}" width="{WIDTH - 4}" '
                f'height="{tall:g}"/>'
            )
            parts.append(middle(x + WIDTH / 2 - 2, base - tall - 4, f"{size:.3g}"))
        parts.append(middle(edge + WIDTH, base + 16, group.label))
    for block, edges in blocks.items():
        parts.append(middle((edges[0] + edges[-1]) / 2 + WIDTH, base + 34, block))
    width = max(MARGIN + len(groups) * wide, LEGEND)
    parts.append(f'<line x1="{MARGIN}" y1="{base}" x2="{width}" y2="{base}"/>')
    name = escape(title)
    return (
        f'<figure><figcaption>{name}</figcaption><svg role="img" aria-label="{name}" '
        f'width="{width}" '
        f'height="{base + BOTTOM}" viewBox="0 0 {width} {base + BOTTOM}">{"".join(parts)}</svg>'
        "</figure>"
    )


def middle(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle">{escape(text)}</text>'


def legend() -> list[str]:
    """The legend of the two colours."""
    parts = []
    for at, name in enumerate(("before", "after")):
        x = MARGIN + 70 * at
        parts.append(f'<rect class="{name}" x="{x}" y="6" width="11" height="11"/>')
        parts.append(f'<text x="{x + 16}" y="16">{name}</text>')
    return parts
