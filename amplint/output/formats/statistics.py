"""How often each rule has spoken, the most frequent first; `[*]` marks those with safe fixes.

The last line counts the functions in which mistakes with a scaler may have been missed.
"""

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
    widened = len(report.outcome.widened)
    width = max((len(str(count)) for count in (*counts.values(), widened)), default=0)
    lines = [
        f"{count:>{width}}  {code} {'[*]' if code in fixable else '   '} {name}"
        for (code, name), count in sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    ]
    if widened:
        functions = "function" if widened == 1 else "functions"
        lines.append(f"{widened:>{width}}  {functions} with more paths than are kept apart")
    return "\n".join(lines)
