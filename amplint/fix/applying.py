"""Apply the fixes of one text that do not clash, and say why a new text may not be taken."""

from __future__ import annotations

import ast
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from amplint.findings.finding import Edit, Finding, Fix, Safety, edited
from amplint.fix.unbound import newly_unbound
from amplint.fix.unused_imports import read_too_early
from amplint.util.text import Text, UnencodableError

SAFE = frozenset({Safety.SAFE})
UNSAFE = frozenset({Safety.SAFE, Safety.UNSAFE})


@dataclass(frozen=True)
class Fixed:
    """A text after some fixes.

    Args:
        text: the new text.
        applied: the findings whose fixes are in it.
        skipped: those whose fixes clash with one of these, and have to wait for the next round.
        edits: what was replaced.
    """

    text: str
    applied: tuple[Finding, ...]
    skipped: tuple[Finding, ...]
    edits: tuple[Edit, ...]


def fixable(findings: Iterable[Finding], allow: frozenset[Safety]) -> list[Finding]:
    """The findings that have a fix that may be applied."""
    return [finding for finding in findings if allowed_edits(finding, allow)]


def allowed_edits(finding: Finding, allow: frozenset[Safety]) -> list[Edit]:
    fix: Fix | None = finding.fix
    if fix is None or fix.safety not in allow:
        return []
    return sorted(fix.edits, key=lambda edit: (edit.start, edit.end))


def apply_fixes(text: str, findings: Iterable[Finding], allow: frozenset[Safety]) -> Fixed:
    """Apply the allowed fixes, by position; of two that touch each other, the first.

    All edits of a fix are applied or none. Insertions of the same text at the same place count
    once: two fixes may need the same import.
    """
    edits_of = [
        (finding, edits) for finding in findings if (edits := allowed_edits(finding, allow))
    ]
    all_edits: list[Edit] = []
    applied: list[Finding] = []
    skipped: list[Finding] = []
    for finding, edits in sorted(edits_of, key=lambda pair: [edit.start for edit in pair[1]]):
        new = [edit for edit in edits if not (_is_insertion(edit) and edit in all_edits)]
        if overlap_within(edits) or any(_touch(edit, other) for edit in new for other in all_edits):
            skipped.append(finding)
        else:
            all_edits += new
            applied.append(finding)
    return Fixed(edited(text, all_edits), tuple(applied), tuple(skipped), tuple(all_edits))


def _is_insertion(edit: Edit) -> bool:
    return edit.start == edit.end


def _touch(one: Edit, other: Edit) -> bool:
    """Whether two edits of different fixes overlap, or stand side by side."""
    return one.start <= other.end and other.start <= one.end


def overlap_within(edits: Sequence[Edit]) -> bool:
    """Whether edits of one fix, in order, overlap; side by side they may stand."""
    return any(one.end > other.start for one, other in itertools.pairwise(edits))


@contextmanager
def quiet() -> Iterator[None]:
    """Say nothing of what Python warns of in the code at each parse, such as `1if x else 2`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@quiet()
def objection(text: Text, new: str) -> str | None:
    """Why a new text may not take the place of the old one."""
    try:
        text.encode(new)
    except UnencodableError as error:
        return str(error)
    # What `compile` refuses beyond `ast.parse`, such as a repeated keyword, the file may have held.
    if not _accepted(_compile, new) and (
        _accepted(_compile, text.text) or not _accepted(ast.parse, new)
    ):
        return "the result would not be valid Python"
    before, after = parsed(text.text), parsed(new)
    early = read_too_early(after) - read_too_early(before)
    if early:
        return f"`{min(early)}` would be used above its import"
    unbound = newly_unbound(before, after)
    return f"`{min(unbound)}` may not be bound there" if unbound else None


@lru_cache(maxsize=4)  # of one file the old text is asked for with each of the new ones
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _compile(text: str) -> object:
    return compile(text, "<fixed>", "exec", dont_inherit=True)


def _accepted(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
