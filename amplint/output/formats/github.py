"""Workflow commands of GitHub Actions, which show each finding at its line of a pull request.

The message has a line for each place that the finding rests on, and one for what to do.
"""

from __future__ import annotations

from amplint.findings.finding import Finding
from amplint.output.formats import Report, advice
from amplint.util.escaping import lines_without_controls, printable_lines


def render(report: Report) -> str:
    return "\n".join(command(finding, report) for finding in report.outcome.findings)


def command(finding: Finding, report: Report) -> str:
    path = report.path(finding.path)
    # Of a notebook GitHub shows the JSON, and counts its lines.
    start, end = map(report.text(finding.path).in_file, finding.span)
    where = {"file": path, "line": start.row, "endLine": end.row, "col": start.column}
    if end.row == start.row:  # columns mean nothing to GitHub where the rows differ
        where["endColumn"] = end.column
    where["title"] = f"{finding.code} {finding.name}"
    properties = ",".join(f"{key}={escaped_property(str(value))}" for key, value in where.items())
    # The path stands in the message too: the log of the job shows nothing else.
    place = report.place(finding.path, finding.span.start)
    message = f"{place}: {finding.code} {printable_lines(finding.message)}"
    lines = filter(None, (message, *report.chain(finding), advice(finding)))
    data = escaped("\n".join(lines))
    return f"::{finding.severity} {properties}::{data}"


def escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escaped_property(text: str) -> str:
    return escaped(lines_without_controls(text)).replace(":", "%3A").replace(",", "%2C")
