"""Code Quality of GitLab: an array of objects that a merge request shows beside its lines."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from amplint.findings.finding import Finding, Group
from amplint.output.formats import Report, advice
from amplint.run.fingerprint import fingerprints
from amplint.util.escaping import taken_apart_in_json, without_controls

SEVERITIES = {
    Group.CORRECTNESS: "critical",
    Group.PRECISION: "major",
    Group.PERFORMANCE: "minor",
    Group.MIGRATION: "minor",
    Group.PEDANTIC: "info",
}
AT_MOST = "major"  # what rests on a region that is presumed


def render(report: Report) -> str:
    outcome = report.outcome
    identities = fingerprints(outcome.findings, outcome.texts)
    entries = [
        entry(finding, identity, report)
        for finding, identity in zip(outcome.findings, identities, strict=True)
    ]
    return taken_apart_in_json(json.dumps(entries, indent=2))


def entry(finding: Finding, identity: str, report: Report) -> dict[str, Any]:
    path = report.path_below(finding.path)
    start, end = map(report.text(finding.path).in_file, finding.span)
    sentences = (f"{finding.code} {without_controls(finding.message)}", advice(finding))
    return {
        "description": "; ".join(filter(None, sentences)),
        "check_name": f"{finding.code} {finding.name}",
        "fingerprint": identity_in(path, identity),
        "severity": severity_of(finding),
        "location": {
            "path": path,
            "lines": {"begin": start.row, "end": end.row},
        },
    }


def severity_of(finding: Finding) -> str:
    is_less = finding.presumed and finding.group is Group.CORRECTNESS
    return AT_MOST if is_less else SEVERITIES[finding.group]


def identity_in(path: str, identity: str) -> str:
    """GitLab drops a finding whose fingerprint it has seen; equal lines of two files are two."""
    return hashlib.sha256(f"{path}\0{identity}".encode("utf-8", "surrogatepass")).hexdigest()
