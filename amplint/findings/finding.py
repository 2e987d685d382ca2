"""Findings of rules, the places related to them, and fixes as text edits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from amplint.util.positions import Span


class Group(Enum):
    """How strong the claim of a rule is, and hence whether it is on by default."""

    CORRECTNESS = "correctness"
    PRECISION = "precision"
    PERFORMANCE = "performance"
    MIGRATION = "migration"
    SUPPRESSION = "suppression"
    PEDANTIC = "pedantic"

    @property
    def default(self) -> bool:
        return self is not Group.PEDANTIC

    @property
    def severity(self) -> str:
        """The word for reports: `error` for wrong programs, `warning` for everything else."""
        return "error" if self is Group.CORRECTNESS else "warning"


class Cost(Enum):
    """How often a program pays for a mistake, from the dearest on.

    RUN: it crashes or trains wrongly, so that the whole run is lost.
    ELEMENT: for each element of a tensor.
    STEP: for each batch of training.
    EVALUATION: for each batch of evaluation.
    ONCE: once, once an epoch, or where nothing says how often.
    """

    RUN = "run"
    ELEMENT = "element"
    STEP = "step"
    EVALUATION = "evaluation"
    ONCE = "once"


class Safety(Enum):
    """How much applying a fix may change.

    SAFE: same values, dtypes, devices and autograd graph, or the old line could only raise.
    UNSAFE: likely what was meant, but numerics, the RNG stream or control flow may change.
    SUGGEST: shown to the reader, never applied.
    """

    SAFE = "safe"
    UNSAFE = "unsafe"
    SUGGEST = "suggest"


class RuleName(NamedTuple):
    """The words by which comments and settings name one rule."""

    code: str
    name: str


@dataclass(frozen=True, order=True)
class Edit:
    """Replace the characters [start, end) of the decoded text (BOM stripped, line ends kept)."""

    start: int
    end: int
    text: str


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits in it, which do not overlap. What is inserted at one place comes in
    the order of the edits, and before what replaces the text from there on."""
    parts: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += text[done : edit.start], edit.text
        done = edit.end
    return "".join([*parts, text[done:]])


@dataclass(frozen=True)
class Fix:
    """One way to make a finding go away; all its edits are applied or none.

    Args:
        title: a verb phrase ("Create the tensor on its device").
        edits: what it replaces.
        safety: what applying it may change.
        proven: of a safe fix, the conditions that make it one, which hold here; else none.
        newer: the fix to offer in its place where the lowest torch that has to do is no older than
            the one that the rule's fixes are for (`Rule.fixes_torch`).
        needs_torch: the version of torch that it needs, where the project may have an older one.
    """

    title: str
    edits: tuple[Edit, ...]
    safety: Safety
    proven: tuple[str, ...] = ()
    newer: Fix | None = None
    needs_torch: str | None = None

    def __post_init__(self) -> None:
        if (self.safety is Safety.SAFE) != bool(self.proven):
            raise ValueError("a safe fix names the conditions that make it safe, and no other does")

    @classmethod
    def safe_if(cls, title: str, edits: tuple[Edit, ...], conditions: Mapping[str, bool]) -> Fix:
        """A fix that is safe where all the conditions hold, and else unsafe."""
        if all(conditions.values()):
            return cls(title, edits, Safety.SAFE, tuple(conditions))
        return cls(title, edits, Safety.UNSAFE)

    def demoted(self) -> Fix:
        """The fix, no longer safe."""
        return replace(self, safety=Safety.UNSAFE, proven=())


@dataclass(frozen=True)
class Related:
    """Another place that a finding rests on, in this or another file.

    `leads` is whether it is a step on the way to the finding, such as a loop or a call, and not a
    remark beside it. Of a way, the step that is nearest to the finding comes first.
    """

    path: str
    span: Span
    message: str
    leads: bool = False


@dataclass(frozen=True)
class Finding:
    """One place where the claim of a rule holds.

    `path` is relative to the project root, with forward slashes. `scope` is the qualified name of
    the enclosing definition ("Trainer.step", "" at module level); fingerprints use it.
    `group` may differ from the rule's by the evidence at the site. `help` is the rule's sentence
    on what to do, and `url` the address of its page: a finding carries them, because a run that
    comes from the cache imports no rules. `presumed` says whether it rests on an autocast region
    that nobody is seen to open: then it is a warning, whatever its group. `former` is the rule that
    reported this mistake before its own one was cut out of it (`Rule.cut_from`).
    """

    code: str
    name: str
    group: Group
    path: str
    span: Span
    message: str
    scope: str = ""
    fix: Fix | None = None
    related: tuple[Related, ...] = field(default=())
    help: str = ""
    cost: Cost = Cost.ONCE
    url: str = ""
    presumed: bool = False
    former: RuleName | None = None

    @property
    def names(self) -> tuple[RuleName, ...]:
        """The words that name the finding: those of its rule, and of the one it was cut from."""
        own = RuleName(self.code, self.name)
        return (own,) if self.former is None else (own, self.former)

    @property
    def severity(self) -> str:
        """The word for reports: `error` for programs that are seen to be wrong, else `warning`."""
        return "warning" if self.presumed else self.group.severity


def by_place(finding: Finding) -> tuple[str, Span, str, str]:
    """The key of the order in which findings are reported."""
    return finding.path, finding.span, finding.code, finding.message
