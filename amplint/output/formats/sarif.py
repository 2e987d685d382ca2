"""SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from amplint import __version__
from amplint.findings.finding import Finding, Fix, edited
from amplint.fix.applying import objection
from amplint.output.formats import Report
from amplint.output.ordering import DEAREST_FIRST
from amplint.output.rule_page import address
from amplint.project.notebooks import Notebook
from amplint.rule.rule import Rule
from amplint.run.fingerprint import fingerprints
from amplint.util.escaping import taken_apart_in_json, without_controls
from amplint.util.positions import Span
from amplint.util.text import Text

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
# GitHub computes `primaryLocationLineHash` by itself, and warns of each result that has another.
FINGERPRINT = "amplint/v1"
MOST_RESULTS = 25_000  # GitHub refuses a run with more


def render(report: Report) -> str:
    return taken_apart_in_json(json.dumps(log(report), indent=2))


def log(report: Report) -> dict[str, Any]:
    outcome = report.outcome
    index = {rule.code: number for number, rule in enumerate(report.rules)}
    identities = fingerprints(outcome.findings, outcome.texts)
    numbers, left_out = worst(outcome.findings)
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "amplint",
                        "semanticVersion": __version__,
                        "rules": [descriptor(rule) for rule in report.rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": not outcome.problems,
                        "toolExecutionNotifications": [
                            *(
                                {"level": "error", "message": {"text": one}}
                                for one in outcome.problems
                            ),
                            *(
                                {"level": "note", "message": {"text": one}}
                                for one in (*outcome.notices, *left_out)
                            ),
                        ],
                    }
                ],
                "results": [
                    result(finding, identity, index[finding.code], report)
                    for number, (finding, identity) in enumerate(
                        zip(outcome.findings, identities, strict=True)
                    )
                    if number in numbers
                ],
            }
        ],
    }


def worst(findings: Sequence[Finding]) -> tuple[Collection[int], list[str]]:
    """The numbers of the findings that GitHub accepts, the dearest first, and what else there is.

    Of these it shows 5,000 at most.
    """
    every = range(len(findings))
    if len(every) <= MOST_RESULTS:
        return every, []
    numbers = sorted(every, key=lambda number: DEAREST_FIRST[findings[number].cost])[:MOST_RESULTS]
    rest = len(every) - MOST_RESULTS
    return frozenset(numbers), [f"{rest} more findings are left out: GitHub takes {MOST_RESULTS}"]


def message(text: str) -> dict[str, str]:
    """A message of code under analysis, in which `[0](1)` is no link to another place."""
    return {"text": without_controls(text).replace("](", "] (")}


def descriptor(rule: Rule) -> dict[str, Any]:
    page = rule.doc.strip()
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {
            "text": f"To do: {rule.help}.\n\n{page}",
            "markdown": f"**To do:** {rule.help}.\n\n{page}",
        },
        **({"helpUri": uri} if (uri := address(rule)) else {}),
        "defaultConfiguration": {
            "enabled": rule.default,
            "level": rule.group.severity,
        },
        "properties": {
            "tags": [rule.group.value],
            "since": rule.since,
            **({"package": rule.package} if rule.package else {}),
        },
    }


def result(finding: Finding, identity: str, rule_index: int, report: Report) -> dict[str, Any]:
    place: dict[str, Any] = {"physicalLocation": physical(finding.path, finding.span, report)}
    if finding.scope:
        place["logicalLocations"] = [{"fullyQualifiedName": finding.scope}]
    entry = {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": message(finding.message),
        "locations": [place],
        "relatedLocations": [
            {
                "id": number,
                "physicalLocation": physical(related.path, related.span, report),
                "message": message(related.message),
            }
            for number, related in enumerate(finding.related)
        ],
        "partialFingerprints": {FINGERPRINT: identity},
    }
    if finding.fix is not None and finding.fix.edits:
        text = report.outcome.texts[finding.path]
        changed = [*replacements(finding.fix, text)]
        if changed:
            entry["fixes"] = [fix(finding.fix, finding.path, changed, report)]
    return entry


def replacements(one: Fix, text: Text) -> Iterator[dict[str, Any]]:
    """The edits of a fix as edits of the file: of a notebook, each changed cell's `source` in the
    JSON is replaced; none for a fix that `amplint fix` would not make there."""
    if not isinstance(text, Notebook):
        for edit in one.edits:
            yield replacement(text, edit.start, edit.end, edit.text)
        return
    new = edited(text.text, one.edits)
    if objection(text, new) is None:
        file = Text(text.document)
        for start, end, source in text.replacements(new):
            yield replacement(file, start, end, source)


def replacement(text: Text, start: int, end: int, new: str) -> dict[str, Any]:
    return {
        "deletedRegion": region(between(text, start, end)),
        "insertedContent": {"text": new},
    }


def fix(one: Fix, path: str, changed: Sequence[dict[str, Any]], report: Report) -> dict[str, Any]:
    return {
        "description": {"text": f"{one.title} ({one.safety.value})"},
        "artifactChanges": [
            {
                "artifactLocation": artifact(path, report),
                "replacements": [*changed],
            }
        ],
    }


def between(text: Text, start: int, end: int) -> Span:
    return Span(text.position(start), text.position(end))


def physical(path: str, span: Span, report: Report) -> dict[str, Any]:
    start, end = map(report.text(path).in_file, span)  # of a notebook, in its JSON
    return {"artifactLocation": artifact(path, report), "region": region(Span(start, end))}


def region(span: Span) -> dict[str, int]:
    start, end = span
    return {
        "startLine": start.row,
        "startColumn": start.column,
        "endLine": end.row,
        "endColumn": end.column,
    }


def artifact(path: str, report: Report) -> dict[str, str]:
    """A relative URI."""
    return {"uri": quote(report.path_below(path), errors="surrogateescape")}
