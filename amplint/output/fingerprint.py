"""A finding's identity across edits elsewhere in the file.

It is made of the code, the line with its white space evened out, the enclosing definition and the
number of the occurrence among equals; never of the message, the evidence or the severity, which
change when amplint learns to see more, nor of the row.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping

from amplint.core.finding import Finding, Span
from amplint.core.text import Text


def fingerprints(findings: Iterable[Finding], texts: Mapping[str, Text]) -> list[str]:
    """The fingerprint of each finding, in their order, on which it does not depend."""
    findings = list(findings)
    seen: Counter[tuple[str, ...]] = Counter()
    result = [""] * len(findings)
    for number, finding in sorted(enumerate(findings), key=lambda item: placed(item[1])):
        line = texts[finding.path].line(finding.span.start.row) if finding.path in texts else ""
        parts = (finding.code, " ".join(line.split()), finding.scope)
        equals = (finding.path, *parts)
        identity = "\0".join((*parts, str(seen[equals])))
        encoded = identity.encode("utf-8", "surrogatepass")
        result[number] = hashlib.sha256(encoded).hexdigest()
        seen[equals] += 1
    return result


def placed(finding: Finding) -> tuple[str, Span]:
    return finding.path, finding.span
