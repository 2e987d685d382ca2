"""The mistakes that are reported, of those that were seen: each once, as settings and comments
of its file say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amplint.findings.finding import Finding
from amplint.run.file_result import FileResult
from amplint.run.filtering import Filter
from amplint.run.request import Outcome, Request
from amplint_verify.observing.findings import explained


def selected(findings: Iterable[Finding], request: Request, static: Outcome) -> tuple[Finding, ...]:
    """The findings of a run that are to be reported, by path and place.

    Args:
        findings: what was seen.
        request: for the rules and the settings.
        static: what `check` says of the same files.
    """
    files: dict[str, FileResult] = {}
    for finding in explained(once(findings), static.findings, request.rules):
        files[finding.path] = files.get(finding.path, FileResult()).joined(FileResult((finding,)))
    rules = [rule for rule in request.rules if rule.checks]
    return tuple(
        each
        for path in sorted(request.selection.reported.intersection(files))
        for file_filter in [Filter(request, request.project_of(path), static.all_texts, rules)]
        for each in file_filter.findings(path, files[path])
    )


def once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings without those that another run has shown before."""
    places: set[tuple[str, str, int]] = set()
    for each in findings:
        place = each.code, each.path, each.span.start.row
        if place not in places:
            yield each
        places.add(place)
