"""Limits that keep an analysis finite, and what is said of the functions that reach one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from amplint.util.wording import counted

PATHS = "paths"
VALUES = "values"

# By limit: how functions are described that reach it.
LIMITS: Mapping[str, str] = {
    PATHS: "with more paths than amplint tracks",
    VALUES: "too recursive to analyse completely",
}
Limited = Mapping[str, tuple[str, ...]]  # by limit, the functions that reach it


def united(parts: Iterable[Limited]) -> dict[str, tuple[str, ...]]:
    """All functions that reach a limit, sorted; limits that none reaches are left out."""
    by_limit: dict[str, set[str]] = {}
    for part in parts:
        for limit, functions in part.items():
            by_limit.setdefault(limit, set()).update(functions)
    return {limit: tuple(sorted(by_limit[limit])) for limit in LIMITS if by_limit.get(limit)}


def lines_on(limited: Limited) -> list[str]:
    """Ex) 2 functions with more paths than amplint tracks; rules may be silent there"""
    return [
        f"{counted(len(functions), 'function')} {LIMITS[limit]}; rules may be silent there"
        for limit, functions in limited.items()
    ]
