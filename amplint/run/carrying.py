"""Findings of an earlier run, carried to where their code stands now."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from amplint.findings.finding import Edit, Finding, Fix
from amplint.inference.incremental.moves import Rows
from amplint.run.file_result import FileResult
from amplint.run.public_functions import Offered
from amplint.util.positions import Position, Span
from amplint.util.text import Text


class NotCarriedError(Exception):
    """A finding may be another one now."""


@dataclass(frozen=True)
class MovedText:
    """A text in which code has moved.

    Args:
        old: before.
        new: now.
        rows: those of code, and where they stand now.
    """

    old: Text
    new: Text
    rows: Rows

    def span(self, span: Span) -> Span:
        """Where code stands now. Raises NotCarriedError for what is no code."""
        start, end = span
        if start.row not in self.rows or end.row not in self.rows:
            raise NotCarriedError
        return Span(
            Position(self.rows[start.row], start.column), Position(self.rows[end.row], end.column)
        )

    def shift(self, start: int, end: int) -> int:
        """By how much a stretch has moved. Raises NotCarriedError where the comments in it, or
        between it and the next code, are others now: a fix takes them along, or there is none."""
        before, after = self._code_around(start, end)
        now = self.new.start(self.rows[before]) if before else 0
        then = self.old.start(before) if before else 0
        last = self.new.start(self.rows[after] + 1) if after else len(self.new.text)
        stretch = self.old.text[then : self.old.start(after + 1) if after else None]
        if self.new.text[now:last] != stretch:
            raise NotCarriedError
        return now - then

    def _code_around(self, start: int, end: int) -> tuple[int, int]:
        """The next rows of code above and below a stretch; 0 where there is none."""
        first, last = self.old.position(start).row, self.old.position(end).row
        above = bisect_left(self._code, first) - 1
        below = bisect_right(self._code, last)
        return (
            self._code[above] if above >= 0 else 0,
            self._code[below] if below < len(self._code) else 0,
        )

    @cached_property
    def _code(self) -> list[int]:
        return sorted(self.rows)

    def offset(self, position: Position) -> int:
        return self.old.start(position.row) + position.column - 1


Moved = Mapping[str, MovedText]  # by path


def carried(result: FileResult, moved: Moved) -> FileResult:
    """The result of a file, where its code stands now. Raises NotCarriedError."""
    if any(notice.startswith(f"{path}:") for notice in result.notices for path in moved):
        raise NotCarriedError  # it may name a row
    return replace(result, findings=tuple(carried_finding(each, moved) for each in result.findings))


def carried_finding(finding: Finding, moved: Moved) -> Finding:
    related = tuple(
        replace(each, span=moved[each.path].span(each.span)) if each.path in moved else each
        for each in finding.related
    )
    here = moved.get(finding.path)
    if here is None:
        return finding if related == finding.related else replace(finding, related=related)
    beside = (each.span for each in finding.related if each.path == finding.path)
    for span in (finding.span, *beside):
        here.shift(here.offset(span.start), here.offset(span.end))
    fix = carried_fix(finding.fix, here)
    return replace(finding, span=here.span(finding.span), related=related, fix=fix)


def carried_fix(fix: Fix | None, here: MovedText) -> Fix | None:
    if fix is None:
        return None
    newer = fix.newer
    if newer is not None:
        newer = replace(newer, edits=carried_edits(newer.edits, here))
    return replace(fix, edits=carried_edits(fix.edits, here), newer=newer)


def carried_edits(edits: Iterable[Edit], here: MovedText) -> tuple[Edit, ...]:
    shifts = [(edit, here.shift(edit.start, edit.end)) for edit in edits]
    return tuple(
        replace(edit, start=edit.start + shift, end=edit.end + shift) for edit, shift in shifts
    )


def carried_rows(offered: Offered, moved: Moved) -> Offered:
    """The rows in which functions begin. Raises NotCarriedError."""
    rows: dict[str, int] = {}
    for name, row in offered.items():
        here = moved.get(name.partition("::")[0])
        if here is not None and row not in here.rows:
            raise NotCarriedError
        rows[name] = here.rows[row] if here is not None else row
    return rows
