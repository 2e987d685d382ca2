"""Suppression comments for findings: `# amplint: ignore[AMP101] reason`, one for each statement.

A comment stands at the end of the finding's line. Where the line ends inside a string or with a
backslash, it stands at the end of the statement; where it would make the line longer than the
project's lines are, on a line of its own before the statement. A comment that holds for the place
already gets the code.
"""

from __future__ import annotations

import tokenize
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from amplint.findings.finding import Finding, edited
from amplint.findings.rows import Rows
from amplint.findings.suppressions import NEXT_REMARK, Suppression, Suppressions
from amplint.fix.applying import objection
from amplint.project.line_length import line_length
from amplint.project.reading import as_module
from amplint.rule.of_engine import ENGINE_RULES
from amplint.run.request import Outcome
from amplint.source.edits.suppressions import new_comments, with_codes
from amplint.util.errors import Failure
from amplint.util.text import Text, UndecodableError

# A file that does not parse can hold no comment about that, and an unused comment is to be deleted.
NEVER = frozenset(rule.code for rule in ENGINE_RULES)
LAYOUT = frozenset({tokenize.COMMENT, tokenize.NL})


class ReasonError(Failure):
    """A reason that cannot stand in a comment."""


@dataclass(frozen=True)
class Ignored:
    """Texts with comments in them; nothing has been written.

    Args:
        before: the texts of the changed files as they were read, by root-relative path.
        after: their new texts.
        findings: those that are suppressed in them.
        refused: sentences about the others.
    """

    before: Mapping[str, Text]
    after: Mapping[str, str]
    findings: tuple[Finding, ...]
    refused: tuple[str, ...]


def check_reason(reason: str) -> str:
    """The reason as it stands in comments. Raises ReasonError."""
    reason = reason.strip()
    if not reason:
        raise ReasonError("--add-ignores: give a reason, as in --add-ignores 'known, issue 12'")
    if not reason.isprintable():
        raise ReasonError("--add-ignores: the reason must be one line of printable text")
    if reason.startswith("[") or NEXT_REMARK.search(f" {reason}"):
        raise ReasonError(f"--add-ignores: {reason!r} would mean something else in a comment")
    return reason


def add(outcome: Outcome, reason: str) -> Ignored:
    """Suppress the findings of a run, each by a comment with the reason."""
    by_path: dict[str, list[Finding]] = defaultdict(list)
    for finding in outcome.findings:
        if finding.code not in NEVER and finding.path in outcome.texts:
            by_path[finding.path].append(finding)
    after: dict[str, str] = {}
    suppressed: list[Finding] = []
    refused: list[str] = []
    for path, findings in by_path.items():
        text = outcome.texts[path]
        width = line_length((outcome.root / path).parent)
        done = _acceptable(path, text, findings, reason, width, refused)
        if done:
            after[path] = commented(text, done, reason, width)
            suppressed += done
    before = {path: outcome.texts[path] for path in after}
    return Ignored(before, after, tuple(suppressed), tuple(refused))


def commented(text: Text, findings: Iterable[Finding], reason: str, width: int) -> str:
    """The text with comments that suppress the findings."""
    suppressions = Suppressions(text)
    rows = suppressions.rows
    to_merge: dict[Suppression, set[str]] = defaultdict(set)
    at_end: dict[int, set[str]] = defaultdict(set)
    for finding in findings:
        existing = [
            one
            for one in suppressions.all
            if one.kind == "ignore" and one.words and suppressions.covers(one, finding)
        ]
        if existing:
            to_merge[existing[0]].add(finding.code)
        else:
            at_end[rows.noqa_row(finding.span.start.row)].add(finding.code)
    edits = [
        edit for one, codes in to_merge.items() for edit in with_codes(text, one, codes, reason)
    ]
    return edited(text.text, [*edits, *new_comments(rows, at_end, reason, width)])


# ------------------------------------------------------------------------------------- safety


def _acceptable(
    path: str, text: Text, findings: Sequence[Finding], reason: str, width: int, refused: list[str]
) -> list[Finding]:
    """The findings whose comments leave the program as it is: all of them, or one by one."""
    if _objection(path, text, commented(text, findings, reason, width)) is None:
        return list(findings)
    good: list[Finding] = []
    for finding in findings:
        why = _objection(path, text, commented(text, [*good, finding], reason, width))
        if why is None:
            good.append(finding)
        else:
            part, start = text.part(finding.span.start.row), finding.span.start
            place = f"{part.of(path)}:{part.place(start).row}"
            refused.append(f"{place}: {finding.code} not suppressed: {why}")
    return good


def _objection(path: str, text: Text, new: str) -> str | None:
    """Why a text with comments may not take the place of the old one."""
    if why := objection(text, new):
        return why
    try:
        again = as_module(path, Text.decode(text.encode(new)))
    except UndecodableError as error:
        return error.reason
    # The reason could be read as a declaration of the encoding in one of the first two lines.
    if (again.text, again.encoding) != (new, text.encoding):
        return "the file would be read in another encoding"
    if _code(text) != _code(again):
        return "a comment is not possible there"
    return None


def _code(text: Text) -> list[tuple[int, str]]:
    return [(t.type, t.string) for t in Rows(text).tokens if t.type not in LAYOUT]
