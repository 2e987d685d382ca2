"""How often each rule has spoken, the most frequent first; `[*]` marks those with safe fixes.

The last line counts the functions in which mistakes with a scaler may have been missed.
"""

from __future__ import annotations

from collections import Counter

from amplint.core.finding import Safety
from amplint.core.limits import LIMITS
from amplint.output.formats import Report


def render(report: Report) -> str:
    findings = report.outcome.findings
    counts = Counter((finding.code, finding.name) for finding in findings)
    fixable = {
        finding.code
        for finding in findings
        if finding.fix is not None and finding.fix.safety is Safety.SAFE
    }
    limited = {limit: len(reach) for limit, reach in report.outcome.limited.items()}
    everything = (*counts.values(), *limited.values())
    width = max((len(str(count)) for count in everything), default=0)
    lines = [
        f"{count:>{width}}  {code} {'[*]' if code in fixable else '   '} {name}"
        for (code, name), count in sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    ]
    for limit, count in limited.items():
        functions = "function" if count == 1 else "functions"
        lines.append(f"{count:>{width}}  {functions} {LIMITS[limit]}")
    return "\n".join(lines)
