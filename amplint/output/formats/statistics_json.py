"""The counts of `statistics`: totals, and for each rule an object that is shaped like ruff's.

`fixable` says whether all findings of the rule have safe fixes, `fixable_count` how many have.
"""

from __future__ import annotations

import json

from amplint.output.formats import Report
from amplint.output.formats.statistics import counted


def render(report: Report) -> str:
    counts = counted(report.outcome.findings)
    rules = [
        {
            "code": each.code,
            "name": each.name,
            "count": each.count,
            "fixable": each.fixable == each.count,
            "fixable_count": each.fixable,
        }
        for each in counts
    ]
    totals = {
        "files": len(report.outcome.files),
        "count": sum(each.count for each in counts),
        "fixable_count": sum(each.fixable for each in counts),
    }
    return json.dumps({**totals, "rules": rules}, indent=2)
