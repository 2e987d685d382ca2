"""One HTML page that needs no other file: an overview, the findings, and the pages of their rules.

Filters and orders are a script's, which the page does without: links lead from the overview to the
findings, and to the rules, which are folded. A rule's page stands once, however many findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import dedent

from amplint import __version__
from amplint.findings.finding import Finding, Group
from amplint.output import rule_page
from amplint.output.formats import Report
from amplint.output.formats.html_finding import COSTS, article
from amplint.output.formats.text import summary
from amplint.output.html_page import Section, document, escape, escape_lines, prose, resource
from amplint.output.ordering import DEAREST_FIRST
from amplint.output.repeats import Entry, entries
from amplint.rule.rule import Rule

ANY_LINE = (
    "<code>amplint explain --at FILE:LINE</code> says what amplint knows about a "
    "line, and why rules are silent there."
)
# A script does that, and shows it.
OTHER_LINES = (
    '<span id="rows" hidden>Click a line of code below to put it into the command of its finding; '
    "click the command to select it.</span>"
)


@dataclass(frozen=True)
class FindingProperty:
    """A property by which findings are counted and filtered.

    Args:
        key: its name in the page.
        of: its value for a finding, as the page's attributes hold it.
        rows: that value as a reader sees it, with the number of findings for each.
    """

    key: str
    of: Callable[[Finding], str]
    rows: Sequence[tuple[str, str, int]]

    @property
    def options(self) -> str:
        """The choices of its filter."""
        choices = (
            f'<option value="{escape(value)}">{escape(label)} ({count})</option>'
            for value, label, count in self.rows
        )
        return f'<option value="">every {self.key}</option>{"".join(choices)}'


def render(report: Report) -> str:
    findings = report.outcome.findings
    kinds = kinds_of(report)
    lead = report.lead(report) if report.lead is not None else Section("")
    parts = [
        f"<p>{escape(summary(report.outcome))}</p>",
        remarks("problems", report.outcome.problems),
        remarks("quiet", report.outcome.notices),
        lead.html,
    ]
    if not findings and report.outcome.files:
        parts.append(f"<p>Is something missing? {ANY_LINE}</p>")
    if findings:
        numbers = {id(finding): number for number, finding in enumerate(findings, 1)}
        articles = (
            article(entry, numbers, kinds_of_entry(entry, kinds), report)
            for entry in entries(findings)
        )
        parts += [
            overview(kinds, findings),
            filters(kinds),
            "<h2>Findings</h2>",
            f'<p class="quiet">{ANY_LINE} {OTHER_LINES}</p>',
            f'<main id="findings">{"".join(articles)}</main>',
            "<h2>Rules</h2>",
            *(page_of(rule, findings) for rule in rules_of(report)),
        ]
    script = resource("report.js") if findings else ""
    return document(f"amplint {__version__}", parts, resource("report.css") + lead.style, script)


def kinds_of(report: Report) -> list[FindingProperty]:
    """The kinds, whose values come in the order that suits each."""
    findings = report.outcome.findings
    costs = Counter(finding.cost for finding in findings)
    groups = Counter(finding.group for finding in findings)
    rules = Counter((finding.code, finding.name) for finding in findings)
    paths = Counter(finding.path for finding in findings)
    numbers = {path: str(number) for number, path in enumerate(sorted(paths))}
    return [
        FindingProperty(
            "cost",
            lambda finding: finding.cost.value,
            [
                (cost.value, COSTS[cost], costs[cost])
                for cost in sorted(costs, key=DEAREST_FIRST.__getitem__)
            ],
        ),
        FindingProperty(
            "group",
            lambda finding: finding.group.value,
            [(group.value, group.value, groups[group]) for group in Group if groups[group]],
        ),
        FindingProperty(
            "rule",
            lambda finding: finding.code,
            [(code, f"{code} {name}", count) for (code, name), count in sorted(rules.items())],
        ),
        FindingProperty(
            "file",
            lambda finding: numbers[finding.path],
            [(number, report.path(path), paths[path]) for path, number in numbers.items()],
        ),
    ]


def kinds_of_entry(entry: Entry, kinds: Iterable[FindingProperty]) -> dict[str, str]:
    """The values of the kinds that findings have which are shown as one, separated by spaces."""
    return {kind.key: " ".join(dict.fromkeys(map(kind.of, entry.findings))) for kind in kinds}


def remarks(name: str, texts: Sequence[str]) -> str:
    """A list of lines that amplint has to say; nothing without any."""
    lines = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<ul class="{name}">{lines}</ul>' if lines else ""


# ------------------------------------------------------------------------------ overview


def overview(kinds: Iterable[FindingProperty], findings: Sequence[Finding]) -> str:
    """How many findings there are of each kind, the most frequent rules and files first."""
    tables = "".join(
        f'<section class="by-{kind.key}"><h2>By {kind.key}</h2><div><table>'
        f"{''.join(counts(kind, findings))}</table></div></section>"
        for kind in kinds
    )
    return f'<div class="overview">{tables}</div>'


def counts(kind: FindingProperty, findings: Sequence[Finding]) -> Iterator[str]:
    """The rows: a link to the first finding, which a script makes a filter, and their number."""
    first: dict[str, int] = {}
    for number, finding in enumerate(findings, 1):
        first.setdefault(kind.of(finding), number)
    rows = kind.rows
    if kind.key in ("rule", "file"):
        rows = sorted(rows, key=lambda row: -row[2])
    most = max(count for _, _, count in rows)
    for value, label, count in rows:
        data = f'data-key="{kind.key}" data-value="{escape(value)}"'
        link = f'<a href="#f{first[value]}" {data}>{escape(label)}</a>'
        yield f"<tr><td>{link}</td><td>{bar(count / most)}{count}</td></tr>"


def bar(share: float) -> str:
    return (
        '<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect x="{100 - 100 * share:.0f}" width="{100 * share:.0f}" height="1"></rect></svg>'
    )


def filters(kinds: Iterable[FindingProperty]) -> str:
    """The form, which is hidden until the script shows it: it does nothing by itself."""
    selects = "".join(
        f'<select name="{kind.key}" aria-label="{kind.key}">{kind.options}</select>'
        for kind in kinds
    )
    orders = "".join(f'<option value="{kind.key}">ordered by {kind.key}</option>' for kind in kinds)
    return (
        '<form id="filters" hidden autocomplete="off">'
        '<input name="text" type="search" placeholder="words to search for" aria-label="words">'
        f'{selects}<select name="order" aria-label="order"><option value="">as reported</option>'
        f'{orders}</select><button type="reset">all</button><output name="shown"></output></form>'
    )


# ------------------------------------------------------------------------------ rules


def rules_of(report: Report) -> Iterator[Rule]:
    """The rules of the findings."""
    codes = {finding.code for finding in report.outcome.findings}
    return (rule for rule in report.rules if rule.code in codes)


def page_of(rule: Rule, findings: Sequence[Finding]) -> str:
    """The page of a rule, folded."""
    own = sum(finding.code == rule.code for finding in findings)
    body = "".join(block(text) for text in rule_page.body(rule).split("\n\n") if text.strip())
    return (
        f'<details id="{escape(rule.code)}"><summary><b>{escape(rule_page.heading(rule))}</b> '
        f'<span class="quiet">({own})</span></summary>{body}</details>'
    )


def block(text: str) -> str:
    """A block of a rule's page, which is Markdown of paragraphs, lists and indented code."""
    if text.startswith("    "):
        return f"<pre><code>{escape_lines(dedent(text))}</code></pre>"
    if text.startswith("- "):
        items = "".join(f"<li>{prose(item)}</li>" for item in text[2:].split("\n- "))
        return f"<ul>{items}</ul>"
    return f"<p>{prose(text)}</p>"
