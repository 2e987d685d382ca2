"""Findings that a reader takes in as one: repeats in a file, and two rules on one expression."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from amplint.findings.finding import Cost, Finding, Group

# Of 75 findings of AMP504 in ten repositories, 6 were worth a change to their owners, and of 37 of
# evaluation none (benchmarks/review/first_hour.md).
KEPT = frozenset({"AMP504"})
LINKS = 2  # of a chain, that many places are shown


@dataclass
class Entry:
    """Findings that are shown as one.

    Args:
        first: the finding whose code is shown.
        again: those that say the same of other places in its file, in order.
        also: those of other rules on its expression, or on a part or the whole of it.
    """

    first: Finding
    again: list[Finding] = field(default_factory=list)
    also: list[Finding] = field(default_factory=list)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them."""
        return self.first, *self.also, *self.again


def entries(findings: Iterable[Finding]) -> list[Entry]:
    """The findings, in their order, each in one entry.

    Repeats have rule, file, advice and message in common, as DataParallel in one file; what costs
    time has the shown places of its chain in place of the message, as three losses that are read in
    one loop. Two crashes of one rule may have two causes, and only their messages differ.
    """
    by_key: dict[tuple[object, ...], Entry] = {}
    on_row: dict[tuple[str, int], list[Entry]] = {}
    for finding in findings:
        fix = finding.fix and (finding.fix.title, finding.fix.safety)
        chain = [(each.path, each.span.start) for each in finding.related[:LINKS]]
        same = (finding.group is Group.PERFORMANCE and tuple(chain)) or finding.message
        key = (finding.path, finding.code, same, finding.help, fix, is_brief(finding))
        if key in by_key:
            by_key[key].again.append(finding)
            continue
        row = on_row.setdefault((finding.path, finding.span.start.row), [])
        for entry in row:
            if shares_expression(entry.first, finding):
                entry.also.append(finding)
                break
        else:
            by_key[key] = entry = Entry(finding)
            row.append(entry)
    return list(by_key.values())


def is_brief(finding: Finding) -> bool:
    """Whether a line is enough for it: it costs time, and no step of training pays for it; or it is
    an old way that torch keeps without a warning."""
    costs_little = finding.group is Group.PERFORMANCE and finding.cost in (
        Cost.EVALUATION,
        Cost.ONCE,
    )
    return costs_little or finding.code in KEPT


def shares_expression(one: Finding, other: Finding) -> bool:
    """Whether two findings of different rules are about one expression, or a part of it."""
    if one.code == other.code or is_brief(one) or is_brief(other):
        return False
    a, b = one.span, other.span
    return (a.start <= b.start and b.end <= a.end) or (b.start <= a.start and a.end <= b.end)
