"""The objects of `json`, one a line, so that a reader may take them as they come."""

from __future__ import annotations

import json

from amplint.output.formats import Report
from amplint.output.formats.json import entries


def render(report: Report) -> str:
    return "\n".join(map(json.dumps, entries(report)))
