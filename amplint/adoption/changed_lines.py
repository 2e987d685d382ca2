"""The findings that a change has to do with."""

from __future__ import annotations

from dataclasses import replace

from amplint.findings.finding import Finding
from amplint.project.git import Changes
from amplint.rule.of_engine import UNPARSABLE
from amplint.run.request import Outcome
from amplint.util.positions import Span


def since(outcome: Outcome, changes: Changes, revision: str) -> Outcome:
    """The outcome with the findings of which a line, their own or a related one, has changed.

    A file that cannot be parsed stays: it would pass for one that was looked at.
    """

    def touched(finding: Finding) -> bool:
        places = [(finding.path, finding.span), *((r.path, r.span) for r in finding.related)]
        return any(changes.touch(outcome.root / path, in_file(path, span)) for path, span in places)

    def in_file(path: str, span: Span) -> Span:  # git counts the lines of a notebook's JSON
        text = outcome.all_texts.get(path)
        return Span(*map(text.in_file, span)) if text is not None else span

    relevant = tuple(
        finding
        for finding in outcome.findings
        if finding.code == UNPARSABLE.code or touched(finding)
    )
    count = len(outcome.findings) - len(relevant)
    if not count:
        return outcome
    findings = "finding" if count == 1 else "findings"
    phrase = f"{count} {findings} on lines unchanged since {revision}"
    return replace(outcome, findings=relevant, left_out=(*outcome.left_out, phrase))
