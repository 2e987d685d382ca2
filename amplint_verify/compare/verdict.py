"""The verdicts on a fix: their names in JSON, what a reader sees, and what each means.

Needs no torch: `amplint verify --help` and the documentation show the table too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """The effect of a change on a program, the best first. The value is the name in JSON."""

    EXACT = "exact"
    IMPROVED = "improved"
    DECLARED_CHANGE = "declared-change"
    STREAM_CHANGED = "stream-changed"
    NOT_EXECUTED = "not-executed"
    INCONCLUSIVE = "inconclusive"
    DIFFERS = "differs"
    CRASHES = "crashes"


GOOD = (Verdict.EXACT, Verdict.IMPROVED, Verdict.DECLARED_CHANGE, Verdict.STREAM_CHANGED)
BAD = (Verdict.DIFFERS, Verdict.CRASHES)
IF_DECLARED = (Verdict.IMPROVED, Verdict.DECLARED_CHANGE, Verdict.STREAM_CHANGED)


@dataclass(frozen=True)
class Meaning:
    """The sense of a verdict.

    Args:
        words: for a reader.
        text: its definition, one sentence or more.
    """

    words: str
    text: str


MEANINGS: Mapping[Verdict, Meaning] = {
    Verdict.EXACT: Meaning(
        "exact",
        "All that was compared is equal to the bit, with the same dtypes, devices and layouts.",
    ),
    Verdict.IMPROVED: Meaning(
        "improved",
        "The original raised an error and the fixed program runs; or results are rounded "
        "differently, but are no less accurate than before (measured against float64).",
    ),
    Verdict.DECLARED_CHANGE: Meaning(
        "changed, as the rule says it must",
        "The rule says what its fix changes, and that changed: a dtype, with values that are equal "
        "after that cast or within its rounding; or, where the mistake spoils the training "
        "itself, what the training results in. Nothing else changed.",
    ),
    Verdict.STREAM_CHANGED: Meaning(
        "other random numbers",
        "The fixed program draws other random numbers, and is equal once both draw the same ones.",
    ),
    Verdict.NOT_EXECUTED: Meaning(
        "not-executed",
        "What the fix edits did not run: this run says nothing about it.",
    ),
    Verdict.INCONCLUSIVE: Meaning(
        "inconclusive",
        "Nothing can be said: the original differs from itself, raises an error that the fix "
        "does not fix, or cannot be simulated.",
    ),
    Verdict.DIFFERS: Meaning(
        "differs",
        "Results changed, or dtypes on lines that were not edited, or the host waits more often, "
        "and the rule does not say so.",
    ),
    Verdict.CRASHES: Meaning(
        "crashes",
        "The fixed program meets an error, a signal, or a limit of time or memory, which the "
        "original does not.",
    ),
}


def good(verdict: Verdict) -> str:
    """Whether a fix with this verdict may be written, in words."""
    if verdict not in GOOD:
        return "no"
    return "if its rule declares it" if verdict in IF_DECLARED else "yes"


def table() -> str:
    """The verdicts as a table in Markdown."""
    lines = ["| verdict | in JSON | good | meaning |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {meaning.words} | `{verdict.value}` | {good(verdict)} | {meaning.text} |"
        for verdict, meaning in MEANINGS.items()
    ]
    return "\n".join(lines) + "\n"
