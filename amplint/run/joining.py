"""The findings of two analyses of the same files, of which the second assumes something more.

What the first one reports stays. What only the second one reports says what it rests on, and has no
safe fix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from amplint.findings.finding import Finding, by_place
from amplint.project.modes import IS_FLOAT32, RUNS_SO
from amplint.rule.of_engine import UNUSED
from amplint.run.request import AnalysisResult, Request
from amplint.util.positions import Position

IF_FLOAT32 = f"if this runs under autocast, and what it is handed {IS_FLOAT32}"


def joined(
    first: AnalysisResult, second: AnalysisResult, mark: Callable[[Finding], Finding]
) -> AnalysisResult:
    """The findings of the first analysis, and what only the second one finds.

    Args:
        mark: returns such a finding with what it rests on.
    """
    places = {place_of(finding) for finding in first.findings}
    still = {place_of(each) for each in second.findings if is_about_comments(each)}
    old = [
        each for each in first.findings if not is_about_comments(each) or place_of(each) in still
    ]
    new = [
        mark(each)
        for each in second.findings
        if place_of(each) not in places and not is_about_comments(each)
    ]
    return replace(
        first,
        findings=tuple(sorted([*old, *new], key=by_place)),
        problems=tuple(dict.fromkeys([*first.problems, *second.problems])),
        offered={**first.offered, **second.offered},
    )


def place_of(finding: Finding) -> tuple[str, Position]:
    """The place of a finding: what the first analysis says of it is not said again."""
    return finding.path, finding.span.start


def is_about_comments(finding: Finding) -> bool:
    """Whether a finding says that a comment suppresses nothing, which both analyses have to say."""
    return finding.code == UNUSED.code


def assumed(finding: Finding, request: Request) -> Finding:
    """A finding of the second analysis under a mode, with what that assumes."""
    mode = request.project_of(finding.path).settings.mode
    is_told = IS_FLOAT32 in finding.message if mode and mode.is_region else finding.presumed
    if mode is None or is_told:
        return finding
    condition = IF_FLOAT32 if mode.is_region else f"if the module is cast to {mode.dtype}"
    message = f"{condition}: {finding.message.removeprefix(f'{RUNS_SO}: ')}"
    return replace(without_safe_fix(finding), message=message, presumed=True)


def without_safe_fix(finding: Finding) -> Finding:
    """A finding whose fix nobody applies who has not looked at it."""
    fix = finding.fix
    if fix is None:
        return finding
    newer = fix.newer.demoted() if fix.newer is not None else None
    return replace(finding, fix=replace(fix.demoted(), newer=newer))
