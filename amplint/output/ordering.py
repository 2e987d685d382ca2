"""The orders in which findings are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from amplint.claim.finding import Cost, Finding
from amplint.output.repeats import is_brief

DEAREST_FIRST = {cost: number for number, cost in enumerate(Cost)}

# Findings come by path and place, and those that are equal here stay in that order.
ORDERS: dict[str, Callable[[Finding], Any]] = {
    "path": lambda _: 0,
    "rule": lambda finding: finding.code,
    "cost": lambda finding: DEAREST_FIRST[finding.cost],
}
# The first screen shows what costs a run, and last what costs time once.
FIRST_SCREEN = "first-screen"
ORDERS[FIRST_SCREEN] = lambda finding: (is_brief(finding), DEAREST_FIRST[finding.cost])


def default_order(format: str) -> str:
    """The order in which a format has findings where no order is asked for."""
    return FIRST_SCREEN if format == "text" else "path"


def ordered(findings: Iterable[Finding], order: str) -> tuple[Finding, ...]:
    """The findings, which come by path and place, in one of `ORDERS`."""
    return tuple(sorted(findings, key=ORDERS[order]))
