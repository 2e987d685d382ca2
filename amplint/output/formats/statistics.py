"""How often each rule has spoken, the most frequent first; `[*]` marks those with safe fixes."""

from __future__ import annotations

from collections import Counter

from amplint.core.finding import Safety
from amplint.output.formats import Report


def render(report: Report) -> str:
    findings = report.outcome.findings
    counts = Counter((finding.code, finding.name) for finding in findings)
    fixable = {
        finding.code
        for finding in findings
        if finding.fix is not None and finding.fix.safety is Safety.SAFE
    }
    width = max((len(str(count)) for count in counts.values()), default=0)
    return "\n".join(
        f"{count:>{width}}  {code} {'[*]' if code in fixable else '   '} {name}"
        for (code, name), count in sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    )
