"""An array of objects, shaped like ruff's; rows and columns count from 1, columns in characters.

`url` is the address of the rule's page: relative to amplint's repository until the documentation
is published; `amplint explain` prints the same page.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from amplint.core.finding import Edit, Finding, Position, Related
from amplint.core.rule import page_address
from amplint.core.text import Text
from amplint.output.formats import Report
from amplint.run.suppressions import Rows


def render(report: Report) -> str:
    rows = lru_cache(maxsize=1)(Rows)  # file by file: tokens take memory
    findings = report.outcome.findings
    entries = {
        id(finding): entry(finding, report, rows(text_of(finding, report)))
        for finding in sorted(findings, key=lambda finding: finding.path)
    }
    return json.dumps([entries[id(finding)] for finding in findings], indent=2)


def text_of(finding: Finding, report: Report) -> Text:
    return report.outcome.texts.get(finding.path, Text(""))


def entry(finding: Finding, report: Report, rows: Rows) -> dict[str, Any]:
    fix = finding.fix
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "filename": report.path(finding.path),
        "location": location(finding.span.start),
        "end_location": location(finding.span.end),
        "severity": finding.group.severity,
        "group": finding.group.value,
        "cost": finding.cost.value,
        "help": finding.help,
        "url": page_address(finding.code),
        "fix": None
        if fix is None
        else {
            "title": fix.title,
            "safety": fix.safety.value,
            "proven": list(fix.proven),
            "edits": [edit(one, rows.text) for one in fix.edits],
        },
        "related": [related(one, report) for one in finding.related],
        "noqa_row": rows.noqa_row(finding.span.start.row),
    }


def location(position: Position) -> dict[str, int]:
    return {"row": position.row, "column": position.column}


def edit(one: Edit, text: Text) -> dict[str, Any]:
    return {
        "content": one.text,
        "location": location(text.position(one.start)),
        "end_location": location(text.position(one.end)),
    }


def related(one: Related, report: Report) -> dict[str, Any]:
    return {
        "filename": report.path(one.path),
        "location": location(one.span.start),
        "message": one.message,
    }
