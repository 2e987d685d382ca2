"""One line a finding, for editors and `grep`; `[*]` marks a safe fix."""

from __future__ import annotations

from amplint.findings.finding import Finding, Safety
from amplint.output.formats import Report
from amplint.util.escaping import printable


def render(report: Report) -> str:
    return "\n".join(line(finding, report) for finding in report.outcome.findings)


def line(finding: Finding, report: Report) -> str:
    mark = " [*]" if finding.fix is not None and finding.fix.safety is Safety.SAFE else ""
    place = report.place(finding.path, finding.span.start)
    return f"{place}: {finding.code}{mark} {finding.name}: {printable(finding.message)}"
