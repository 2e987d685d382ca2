"""The orders in which findings are reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from amplint.findings.finding import Cost, Finding
from amplint.output.repeats import is_brief
from amplint.util.text import Text

DEAREST_FIRST = {cost: number for number, cost in enumerate(Cost)}
PER_STEP = frozenset({Cost.ELEMENT, Cost.STEP, Cost.EVALUATION})

# Findings come by path and place, and those that are equal here stay in that order.
ORDERS: dict[str, Callable[[Finding], Any]] = {
    "path": lambda _: 0,
    "rule": lambda finding: finding.code,
    "cost": lambda finding: DEAREST_FIRST[finding.cost],
}
# The first screen shows what costs a run, and last what costs time once.
FIRST_SCREEN = "first-screen"
LOOP = re.compile(r"(async )?for\b|while\b")
FUNCTION = re.compile(r"(async )?def\b|class\b")


def default_order(format: str) -> str:
    """The order in which a format has findings where no order is asked for."""
    return FIRST_SCREEN if format == "text" else "path"


def ordered(
    findings: Iterable[Finding], order: str, texts: Mapping[str, Text] | None = None
) -> tuple[Finding, ...]:
    """The findings, which come by path and place, in one of `ORDERS` or as on the first screen.

    Args:
        texts: of their files, for the first screen: what is within more loops comes first.
    """
    if order != FIRST_SCREEN:
        return tuple(sorted(findings, key=ORDERS[order]))
    files = texts or {}
    lines = {path: files[path].text.splitlines() for path in {f.path for f in findings} & {*files}}

    def place(finding: Finding) -> tuple[object, ...]:
        inner = -loops_within_step(finding, lines.get(finding.path, ()))
        return is_brief(finding), DEAREST_FIRST[finding.cost], inner

    return tuple(sorted(findings, key=place))


def loops_within_step(finding: Finding, lines: Sequence[str]) -> int:
    """How many loops stand around a finding in its function, without those around the place that
    makes it run for every batch; 0 for what a step does not pay for.

    Lines and their indentation decide: to parse each file again would cost more than the order is
    worth, and a line within a string can only move a finding within its cost.
    """
    if finding.cost not in PER_STEP or finding.span.start.row > len(lines):
        return 0
    row = finding.span.start.row
    leads = (each for each in finding.related if each.leads and each.path == finding.path)
    step = max((each.span.start.row for each in leads if each.span.start.row <= row), default=0)
    count = 0
    margin = indentation(lines[row - 1])
    for number in range(row - 1, step, -1):
        line = lines[number - 1]
        if not line.strip() or indentation(line) >= margin:
            continue
        margin = indentation(line)
        if FUNCTION.match(line.lstrip()):
            break
        count += LOOP.match(line.lstrip()) is not None
    return count


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
