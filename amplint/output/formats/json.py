"""An array of objects, shaped like ruff's; rows and columns count from 1, columns in characters.

`url` is the address of the rule's page: relative to amplint's repository until the documentation
is published; null where another package brings the rule and names none. `amplint explain` prints
the same page.

`line`, without its comment and with its white space evened out, and `scope`, the definition around
it, are what a finding is known by in a later run, as in a baseline.

In a notebook, rows count from the top of a cell, whose number is added as `cell`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from amplint.findings.finding import Edit, Finding, Related
from amplint.findings.rows import Rows
from amplint.output.formats import Report
from amplint.run.fingerprint import identities
from amplint.util.escaping import taken_apart_in_json
from amplint.util.positions import Position
from amplint.util.text import Part, Text


def render(report: Report) -> str:
    return taken_apart_in_json(json.dumps(entries(report), indent=2))


def entries(report: Report) -> list[dict[str, Any]]:
    """An object for each finding."""
    rows = lru_cache(maxsize=1)(Rows)  # file by file: tokens take memory
    findings = report.outcome.findings
    by_path = sorted(findings, key=lambda finding: finding.path)
    lines = [one.line for one in identities(by_path, report.outcome.texts)]
    by_id = {
        id(finding): entry(finding, report, rows(text_of(finding, report)), line)
        for finding, line in zip(by_path, lines, strict=True)
    }
    return [by_id[id(finding)] for finding in findings]


def text_of(finding: Finding, report: Report) -> Text:
    return report.outcome.texts.get(finding.path, Text(""))


def entry(finding: Finding, report: Report, rows: Rows, line: str) -> dict[str, Any]:
    fix = finding.fix
    part = rows.text.part(finding.span.start.row)
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "filename": report.path(finding.path),
        **cell(part),
        "location": location(part.place(finding.span.start)),
        "end_location": location(part.place(finding.span.end)),
        "scope": finding.scope,
        "line": line,
        "severity": finding.severity,
        "group": finding.group.value,
        "cost": finding.cost.value,
        "help": finding.help,
        "url": finding.url or None,
        "fix": None
        if fix is None
        else {
            "title": fix.title,
            "safety": fix.safety.value,
            "proven": list(fix.proven),
            "needs_torch": fix.needs_torch,
            "edits": [edit(one, rows.text) for one in fix.edits],
        },
        "related": [related(one, report) for one in finding.related],
        "noqa_row": rows.noqa_row(finding.span.start.row) - part.above,
    }


def cell(part: Part) -> dict[str, int]:
    return {} if part.cell is None else {"cell": part.cell}


def location(position: Position) -> dict[str, int]:
    return {"row": position.row, "column": position.column}


def edit(one: Edit, text: Text) -> dict[str, Any]:
    part = text.part(text.position(one.start).row)
    return {
        "content": one.text,
        **cell(part),
        "location": location(part.place(text.position(one.start))),
        "end_location": location(part.place(text.position(one.end))),
    }


def related(one: Related, report: Report) -> dict[str, Any]:
    part = report.part(one.path, one.span.start)
    return {
        "filename": report.path(one.path),
        **cell(part),
        "location": location(part.place(one.span.start)),
        "message": one.message,
    }
