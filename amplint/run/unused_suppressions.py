"""Findings about suppression comments that suppress nothing, or are not understood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from amplint.findings.finding import Edit, Finding, Fix, Safety
from amplint.findings.selectors import did_you_mean
from amplint.findings.suppressions import AMPLINT, VERBS, Suppression, Suppressions, Word
from amplint.rule.of_engine import UNUSED
from amplint.rule.registry import UnknownRuleError, find
from amplint.rule.rule import Rule
from amplint.source.edits.suppressions import removal
from amplint.util.positions import Span
from amplint.util.text import Text


def unused(
    suppressions: Suppressions,
    path: str,
    findings: Sequence[Finding],
    rules: Sequence[Rule],
    ran: Sequence[Rule],
    all_ran: bool,
) -> Iterator[Finding]:
    """An AMP001 finding for each comment that suppresses nothing or is not understood.

    Args:
        suppressions: those of the file.
        path: the file's path, for the findings.
        findings: all findings in the file before suppression.
        rules: all that exist.
        ran: the rules that looked at the file; of the others nothing can be said.
        all_ran: whether all that are on by default did.
    """
    for one in suppressions.all:
        covered = [finding for finding in findings if suppressions.covers(one, finding)]
        for complaint in _complaints(suppressions, one, covered, rules, ran, all_ran):
            finding = complaint.finding(path, suppressions.text)
            if not _is_hidden(finding, one, suppressions):
                yield finding


def _is_hidden(finding: Finding, one: Suppression, suppressions: Suppressions) -> bool:
    """Whether the finding about a comment is suppressed, by another one or by its own words."""
    return any(
        suppressions.hides(each, finding)
        for each in suppressions.all
        if each != one or one.words is not None
    )


@dataclass(frozen=True)
class Complaint:
    """A mistake in a comment, between two offsets of the text."""

    start: int
    end: int
    message: str
    edits: tuple[Edit, ...] = ()

    def finding(self, path: str, text: Text) -> Finding:
        return Finding(
            code=UNUSED.code,
            name=UNUSED.name,
            group=UNUSED.group,
            path=path,
            span=Span(text.position(self.start), text.position(self.end)),
            message=self.message,
            fix=Fix("Remove the unused suppression", self.edits, Safety.SAFE, UNUSED.safe_if)
            if self.edits
            else None,
            help=UNUSED.help,
            url=UNUSED.url,
        )


def _complaints(
    suppressions: Suppressions,
    one: Suppression,
    covered: Sequence[Finding],
    rules: Sequence[Rule],
    ran: Sequence[Rule],
    all_ran: bool,
) -> Iterator[Complaint]:
    text = suppressions.text
    if not one.kind:
        yield Complaint(one.start, one.end, _what_was_meant(text.text[one.start : one.end]))
        return
    if one.words is None:
        if all_ran and not covered and one.kind != "noqa":
            message = f"this `{one.kind}` suppresses nothing"
            yield Complaint(one.start, one.end, message, tuple(removal(text, one)))
        return
    idle: list[Word] = []
    for word in one.words:
        if one.kind == "noqa" and not suppressions.is_code(word.text):
            continue
        try:
            rule = find(word.text, rules)
        except UnknownRuleError as error:
            yield Complaint(word.start, word.end, str(error))
            continue
        if rule in ran and not any(word.means(finding) for finding in covered):
            idle.append(word)
    if idle:
        codes = ", ".join(f"`{word.text}`" for word in idle)
        verb = "suppresses" if len(idle) == 1 else "suppress"
        message = f"{codes} {verb} nothing here{_beside(suppressions, one, covered)}"
        yield Complaint(one.start, one.end, message, tuple(removal(text, one, idle)))


def _beside(suppressions: Suppressions, one: Suppression, covered: Sequence[Finding]) -> str:
    """The end of a sentence about codes that a comment names to no effect: those that its line
    has instead."""
    codes = {finding.code for finding in covered if not suppressions.suppresses(finding)}
    if one.rows is None or not codes:
        return ""
    return f": this line has {', '.join(sorted(codes))}"


def _what_was_meant(written: str) -> str:
    match = AMPLINT.match(written)
    verb = match["verb"] if match else ""
    if verb.lower() in VERBS:
        return f"`{written}` has no codes: write them as `{verb.lower()}[AMP101]`"
    return f"`{written}` is not understood{did_you_mean(verb, VERBS)}"
