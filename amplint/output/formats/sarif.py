"""SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

import json
import os
import re
from typing import Any
from urllib.parse import quote

from amplint import __version__
from amplint.core.finding import Finding, Fix, Span
from amplint.core.rule import Rule
from amplint.core.text import Text
from amplint.output.fingerprint import fingerprints
from amplint.output.formats import Report

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
HELP = "https://docs.pytorch.org/docs/stable/amp.html"  # for rules whose page names no better one
URL = re.compile(r"https?://[^\s<>`)\]]+[^\s<>`)\].,;:]")


def render(report: Report) -> str:
    return json.dumps(log(report), indent=2)


def log(report: Report) -> dict[str, Any]:
    outcome = report.outcome
    index = {rule.code: number for number, rule in enumerate(report.rules)}
    identities = fingerprints(outcome.findings, outcome.texts)
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
                                for one in outcome.notices
                            ),
                        ],
                    }
                ],
                "results": [
                    result(finding, identity, index[finding.code], report)
                    for finding, identity in zip(outcome.findings, identities, strict=True)
                ],
            }
        ],
    }


def descriptor(rule: Rule) -> dict[str, Any]:
    url = URL.search(rule.doc)
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.doc.strip(), "markdown": rule.doc.strip()},
        "helpUri": url.group() if url else HELP,
        "defaultConfiguration": {
            "enabled": rule.group.default,
            "level": rule.group.severity,
        },
        "properties": {"tags": [rule.group.value], "since": rule.since},
    }


def result(finding: Finding, identity: str, rule_index: int, report: Report) -> dict[str, Any]:
    place: dict[str, Any] = {"physicalLocation": physical(finding.path, finding.span, report)}
    if finding.scope:
        place["logicalLocations"] = [{"fullyQualifiedName": finding.scope}]
    entry = {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": finding.group.severity,
        "message": {"text": finding.message},
        "locations": [place],
        "relatedLocations": [
            {
                "id": number,
                "physicalLocation": physical(related.path, related.span, report),
                "message": {"text": related.message},
            }
            for number, related in enumerate(finding.related)
        ],
        # The one key that GitHub reads; its own guess is made of the line alone.
        "partialFingerprints": {"primaryLocationLineHash": identity},
    }
    # An edit of a notebook is one of a cell, and not of the JSON, which is the file.
    in_cell = report.part(finding.path, finding.span.start).cell is not None
    if finding.fix is not None and finding.fix.edits and not in_cell:
        entry["fixes"] = [fix(finding.fix, finding.path, report)]
    return entry


def fix(one: Fix, path: str, report: Report) -> dict[str, Any]:
    text = report.outcome.texts[path]
    return {
        "description": {"text": f"{one.title} ({one.safety.value})"},
        "artifactChanges": [
            {
                "artifactLocation": artifact(path, report),
                "replacements": [
                    {
                        "deletedRegion": region(between(text, edit.start, edit.end)),
                        "insertedContent": {"text": edit.text},
                    }
                    for edit in one.edits
                ],
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
    """A relative URI: from where amplint was started, if the file is below, else from the root."""
    shown = report.path(path)
    if shown.startswith("../") or os.path.isabs(shown):  # noqa: PTH117  (a string, any separator)
        shown = path
    return {"uri": quote(shown, errors="surrogateescape")}
