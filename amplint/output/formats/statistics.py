"""How often each rule has spoken, the most frequent first, and how often all of them have.

`[*]` marks the rules of which all findings have safe fixes, `[-]` those of which some have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from amplint.findings.finding import Finding, Safety
from amplint.output.formats import Report
from amplint.run.public_functions import table

ALL, SOME, UNMARKED = "[*]", "[-]", "   "
MARKS = {ALL: "[*] all", SOME: "[-] some"}


@dataclass(frozen=True)
class RuleCount:
    """The findings of one rule: how many there are, and how many of them have safe fixes."""

    code: str
    name: str
    count: int
    fixable: int


def render(report: Report) -> str:
    counts = counted(report.outcome.findings)
    if not counts:
        return ""
    rows = [(each.count, f"{each.code} {mark(each)} {each.name}") for each in counts]
    used = {mark(each) for each in counts}
    marked = ", ".join(words for sign, words in MARKS.items() if sign in used)
    total = sum(each.count for each in counts)
    fixable = f"; {marked} have a safe fix" * bool(marked)
    rows.append((total, f"finding{'s' * (total != 1)}{fixable}"))
    width = max(len(str(count)) for count, _ in rows)
    functions = table(report.outcome.findings, report.outcome.offered)
    return "\n".join([*(f"{count:>{width}}  {words}" for count, words in rows), *functions])


def counted(findings: Iterable[Finding]) -> list[RuleCount]:
    """The findings by rule, the most frequent first."""
    by_rule: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for finding in findings:
        is_fixable = finding.fix is not None and finding.fix.safety is Safety.SAFE
        by_rule[finding.code, finding.name].append(is_fixable)
    counts = [RuleCount(*rule, len(fixable), sum(fixable)) for rule, fixable in by_rule.items()]
    return sorted(counts, key=lambda each: (-each.count, each.code))


def mark(each: RuleCount) -> str:
    if not each.fixable:
        return UNMARKED
    return ALL if each.fixable == each.count else SOME
