"""The texts that switch a region."""

from __future__ import annotations

import re

from amplint.util.text import in_long_lines

# Where a region is disabled, with the line before: an `if`, or the start of the statement.
SWITCHING = re.compile(r"(?:.*\n)?.*\b(?:nullcontext|enabled)\b.*")


def switches(code: str) -> str:
    """The lines of some code that may disable a region."""
    return "\n".join(SWITCHING.findall(in_long_lines(code)))
