"""A finding's identity across edits elsewhere in the file.

Across edits of its own line, `matching` knows it again.

It is made of the code, the line without its comment and with its white space evened out, the
enclosing definition and the number of the occurrence among equals; never of the message, the
evidence or the severity, which change when amplint learns to see more, nor of the row.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from amplint.findings.finding import Finding
from amplint.util.positions import Span
from amplint.util.text import LINE_END, Text, code_of


class Identity(NamedTuple):
    """All that a fingerprint rests on, except for the number of the occurrence."""

    path: str
    code: str
    line: str
    scope: str


def identities(findings: Iterable[Finding], texts: Mapping[str, Text]) -> Iterator[Identity]:
    """The identity of each finding, in their order; equal findings have the same."""
    without_comments: dict[str, Text] = {}
    for finding in findings:
        path, row = finding.path, finding.span.start.row
        line = ""
        if path in texts:
            if path not in without_comments:
                without_comments[path] = Text(code_of(texts[path].text))
            # A comment on the line may come and go. A finding may also be about one.
            line = without_comments[path].line(row).strip() or texts[path].line(row)
        yield Identity(path, finding.code, evened(line), finding.scope)


def lines_of(text: Text) -> Iterator[str]:
    """The lines of a text as identities have them."""
    return map(evened, LINE_END.split(code_of(text.text)))


def evened(line: str) -> str:
    """The line with its white space evened out."""
    return " ".join(line.split())


def fingerprints(findings: Iterable[Finding], texts: Mapping[str, Text]) -> list[str]:
    """The fingerprint of each finding, in their order, on which it does not depend."""
    findings = list(findings)
    counts: Counter[Identity] = Counter()
    result = [""] * len(findings)
    named = list(identities(findings, texts))
    for number in sorted(range(len(findings)), key=lambda each: placed(findings[each])):
        identity = named[number]
        parts = "\0".join((*identity[1:], str(counts[identity])))
        result[number] = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()
        counts[identity] += 1
    return result


def placed(finding: Finding) -> tuple[str, Span]:
    return finding.path, finding.span
