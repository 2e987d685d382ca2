"""The objects of `json`, one a line, so that a reader may take them as they come."""

from __future__ import annotations

import json

from amplint.output.formats import Report
from amplint.output.formats.json import entries
from amplint.util.escaping import taken_apart_in_json


def render(report: Report) -> str:
    return taken_apart_in_json("\n".join(map(json.dumps, entries(report))))
