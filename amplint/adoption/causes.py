"""The findings that changes of the named files cause in other files.

What the run would have found with these files as they were at a revision is held against what it
finds now, as a baseline is. Both runs are kept in the cache: after a commit, the earlier state of
the next one is the state that was checked last.
"""

from __future__ import annotations

from dataclasses import replace

from amplint.adoption import baseline
from amplint.findings.finding import by_place
from amplint.project import git
from amplint.rule.of_engine import UNPARSABLE
from amplint.run import engine
from amplint.run.request import Outcome, Request
from amplint.util.progress import SILENT
from amplint.util.text import Text, UndecodableError


def of_whole_project(request: Request) -> Request:
    """The request for the findings in all files around those that are named."""
    return replace(request, selection=replace(request.selection, reported=_all(request)))


def divided(outcome: Outcome, request: Request) -> tuple[Outcome, Outcome]:
    """The outcome of the whole project as that of the named files, and as that of the others."""
    named = request.selection.reported
    return _only(outcome, named), _only(outcome, _all(request) - named)


def new_elsewhere(elsewhere: Outcome, request: Request, changes: git.Changes) -> Outcome:
    """Of the findings in files that are not named, those that are new by the changes of the named
    ones. A file that cannot be parsed is no consequence of another one."""
    findings = tuple(each for each in elsewhere.findings if each.code != UNPARSABLE.code)
    elsewhere = replace(elsewhere, findings=findings)
    changed = [
        path for path in request.selection.reported if changes.has(request.selection.root / path)
    ]
    if not findings or not changed:
        return replace(elsewhere, findings=())
    before = engine.run(_before(request, changes, changed))
    return baseline.new_since(elsewhere, _only(before, frozenset(elsewhere.files)))


def joined(named: Outcome, elsewhere: Outcome) -> Outcome:
    """The outcome of the named files, with the findings in others, which count as files then."""
    if not elsewhere.findings:
        return named
    return replace(
        named,
        findings=tuple(sorted((*named.findings, *elsewhere.findings), key=by_place)),
        files=tuple(sorted({*named.files, *(each.path for each in elsewhere.findings)})),
        texts=named.all_texts,
    )


def _before(request: Request, changes: git.Changes, changed: list[str]) -> Request:
    """The request for the whole project with the changed files as they were."""
    overlays: dict[str, str] = {}
    new: set[str] = set()
    for path in changed:
        data = changes.former(request.selection.root / path)
        if data is None:
            new.add(path)
            continue
        try:
            overlays[path] = Text.decode(data).text
        except UndecodableError:
            new.add(path)  # nothing was known of it
    whole = of_whole_project(request)
    selection = replace(
        whole.selection,
        files=tuple(path for path in whole.selection.files if path not in new),
        reported=whole.selection.reported - new,
    )
    return replace(whole, selection=selection, overlays=overlays, lasting=True, progress=SILENT)


def _all(request: Request) -> frozenset[str]:
    return request.selection.reported.union(request.selection.files)


def _only(outcome: Outcome, paths: frozenset[str]) -> Outcome:
    return replace(
        outcome,
        findings=tuple(each for each in outcome.findings if each.path in paths),
        files=tuple(path for path in outcome.files if path in paths),
        off=tuple((path, code) for path, code in outcome.off if path in paths),
    )
