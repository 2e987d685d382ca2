"""The line below a report at a terminal: one thing that can be done next, where there is one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from amplint.findings.finding import Safety
from amplint.output.ordering import DEAREST_FIRST
from amplint.output.relevance import is_about_torch
from amplint.run.request import Outcome, Request

STDIN = "-"
WIDEST = 60  # characters of paths: a shell may have found hundreds
MANY = 50  # findings that nobody mends in a day: a baseline is what helps first


def hint(outcome: Outcome, request: Request, paths: Sequence[str]) -> str:
    """The line on what to do next; empty where nothing is to be said, or `hints = false` is set.

    Args:
        outcome: of a run of `check`.
        request: that it came of.
        paths: as the user has named them.
    """
    settings = [*request.settings_in_use()]
    if outcome.problems or STDIN in paths or not all(each.hints for each in settings):
        return ""
    if outcome.findings:
        named = shlex.join(paths)
        return f"next: {of_findings(outcome, named if len(named) <= WIDEST else '...')}"
    has_settings = any(each.config is not None for each in settings)
    if has_settings or not outcome.files or not is_about_torch(outcome.all_texts):
        return ""
    return "next: `amplint init` writes the settings, a pre-commit hook and the check in CI"


def of_findings(outcome: Outcome, paths: str) -> str:
    """The step that leads on most, of those that there are."""
    where = f" {paths}" if paths else ""
    findings = outcome.findings
    if len(findings) >= MANY and not outcome.left_out:
        return f"`amplint baseline{where}` records these, so that `check` reports only new ones"
    safeties = [finding.fix.safety for finding in findings if finding.fix is not None]
    if safe := safeties.count(Safety.SAFE):
        fixes = "the safe fix" if safe == 1 else f"the {safe} safe fixes"
        return f"`amplint fix{where}` shows {fixes}; --apply applies {them(safe)}"
    if unsafe := safeties.count(Safety.UNSAFE):
        fixes = "the fix that may" if unsafe == 1 else f"the {unsafe} fixes that may"
        return f"`amplint fix --unsafe{where}` shows {fixes} change results"
    dearest = min(findings, key=lambda finding: DEAREST_FIRST[finding.cost])
    return f"`amplint explain {dearest.code}` explains what happens and what to do"


def them(count: int) -> str:
    return "it" if count == 1 else "them"
