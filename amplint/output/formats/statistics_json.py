"""The counts of `statistics` as an array of objects, shaped like ruff's.

`fixable` says whether all findings of the rule have safe fixes, `fixable_count` how many have.
"""

from __future__ import annotations

import json

from amplint.output.formats import Report
from amplint.output.formats.statistics import counted


def render(report: Report) -> str:
    entries = [
        {
            "code": each.code,
            "name": each.name,
            "count": each.count,
            "fixable": each.fixable == each.count,
            "fixable_count": each.fixable,
        }
        for each in counted(report.outcome.findings)
    ]
    return json.dumps(entries, indent=2)
