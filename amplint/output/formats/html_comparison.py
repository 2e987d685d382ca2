"""The part of the HTML page that holds a run against an earlier one: what has come, what has gone,
and what to mend first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from amplint.claim.finding import Finding, Group
from amplint.output.comparing import Comparison
from amplint.output.formats import Report
from amplint.output.formats.html_finding import COSTS, NEW, line_of_code
from amplint.output.ordering import DEAREST_FIRST
from amplint.output.page import escape, prose
from amplint.run.fingerprint import Identity
from amplint.util.wording import counted

FIRST = 10  # findings to mend first
MOST = 100  # findings that have come, or gone, in a list
NEW_AGE = "new"  # what a finding that has come has in `data-age`
GROUPS = {group: number for number, group in enumerate(Group)}


def section(report: Report, comparison: Comparison) -> str:
    """The section: a line with the counts, then the lists, each folded where it is long."""
    findings = report.outcome.findings
    numbers = {id(finding): number for number, finding in enumerate(findings, 1)}
    came = [finding for finding in findings if comparison.is_new(finding)]
    gone = sum(comparison.gone.values())
    counts = counted(len(came), "new finding")
    if came:  # which the script of the page makes a filter
        data = f'data-key="age" data-value="{NEW_AGE}"'
        counts = f'<a href="#f{numbers[id(came[0])]}" {data}>{counts}</a>'
    parts = [
        f"<h2>Compared with {escape(comparison.name)}</h2>",
        f"<p>{counts}, {gone} gone, {len(findings) - len(came)} unchanged.</p>",
        folded("Fix first", FIRST, items(first(findings, comparison), numbers, report, comparison))
        if findings
        else "",
        folded("New", len(came), items(came[:MOST], numbers, report)) if came else "",
        folded("Gone", gone, went(comparison.gone, report)) if gone else "",
        by_rule(findings, came, comparison.gone, report),
    ]
    return f'<section class="compared">{"".join(parts)}</section>'


def folded(title: str, count: int, rows: Iterable[str]) -> str:
    """A list that can be folded; one that is short is open."""
    opened = " open" * (count <= FIRST)
    hidden = f"<li>and {count - MOST} more</li>" if count > MOST else ""
    return (
        f"<details{opened}><summary><b>{title}</b></summary>"
        f"<ol>{''.join(rows)}{hidden}</ol></details>"
    )


def first(findings: Sequence[Finding], comparison: Comparison) -> list[Finding]:
    """The findings to mend first: the most expensive ones, by their cost and then their group; of
    these, the new ones, which somebody still has in mind."""

    def key(finding: Finding) -> tuple[int, int, bool]:
        is_old = not comparison.is_new(finding)
        return DEAREST_FIRST[finding.cost], GROUPS[finding.group], is_old

    return sorted(findings, key=key)[:FIRST]


def items(
    findings: Iterable[Finding],
    numbers: Mapping[int, int],
    report: Report,
    comparison: Comparison | None = None,
) -> Iterator[str]:
    """A row for each finding, which leads to it; with a comparison, it says which are new."""
    for finding in findings:
        place = report.place(finding.path, finding.span.start)
        is_new = comparison is not None and comparison.is_new(finding)
        yield (
            f'<li><a href="#f{numbers[id(finding)]}">{escape(place)}</a> {escape(finding.code)} '
            f"{prose(finding.message)} "
            f'<span class="tag">{COSTS[finding.cost]}</span>{NEW * is_new}</li>'
        )


def went(gone: Mapping[Identity, int], report: Report) -> Iterator[str]:
    """A row for each earlier finding that is not found any more: it has no place, but a line."""
    names = {rule.code: rule.name for rule in report.rules}
    left = MOST
    for identity, count in sorted(gone.items()):
        if left <= 0:
            return
        left -= count
        times = f" ({count} times)" if count > 1 else ""
        scope = f", in {escape(identity.scope)}" if identity.scope else ""
        name = names.get(identity.code, "")
        yield (
            f'<li>{escape(identity.code)} {escape(name)} <span class="place">'
            f"{escape(identity.path)}{scope}</span>{times}{line_of_code(identity.line)}</li>"
        )


def by_rule(
    findings: Iterable[Finding],
    came: Iterable[Finding],
    gone: Mapping[Identity, int],
    report: Report,
) -> str:
    """A table: how many there are now, have come and have gone, by rule; where something has."""
    names = {rule.code: rule.name for rule in report.rules}
    now = Counter(finding.code for finding in findings)
    new = Counter(finding.code for finding in came)
    old: Counter[str] = Counter()
    for identity, count in gone.items():
        old[identity.code] += count
    changed = sorted({*new, *old}, key=lambda code: (old[code] - new[code], code))
    rows = "".join(
        f"<tr><td>{escape(code)} {escape(names.get(code, ''))}</td><td>{new[code] or ''}</td>"
        f"<td>{old[code] or ''}</td><td>{now[code]}</td></tr>"
        for code in changed
    )
    head = "<tr><th>rule</th><th>new</th><th>gone</th><th>now</th></tr>"
    return f"<table>{head}{rows}</table>" if rows else ""
