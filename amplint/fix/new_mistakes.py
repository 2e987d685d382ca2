"""The mistakes that fixes have brought: findings that have no counterpart before.

A finding has one if its code was found at the same place before. The place is the line, or the
lines that stand where others stood: what a fix writes in the place of some lines is one place with
them. Rows are no places, for they move with what is inserted above. Besides, a finding has merely
moved if one of its code is gone from the same function that no fix was for; and it has only come to
light if another one that speaks in its place (`Rule.supersedes`) was there before.

Nothing else excuses it: a mistake of another code in the place of the one that was fixed is new,
whatever either weighs, for the user who applies a fix has weighed neither.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from amplint.findings.finding import Finding, Group
from amplint.rule.rule import Rule
from amplint.util.line_diff import Change, changes
from amplint.util.text import Text

SERIOUS = (Group.CORRECTNESS, Group.PRECISION)


@dataclass(frozen=True)
class EditedPlace:
    """A place in a file before and after some edits.

    Args:
        row: the row of a line that has stayed, as it was before; of others, the first row of those
            that they have taken the place of.
        is_edited: whether it is no line that has stayed.
    """

    path: str
    row: int
    is_edited: bool


@dataclass
class Edited:
    """Files before and after some edits.

    Args:
        before, after: the texts of those that were changed, by path.
    """

    before: Mapping[str, Text]
    after: Mapping[str, str]
    _changes: dict[str, list[Change]] = field(default_factory=dict)

    def place_before(self, path: str, row: int) -> EditedPlace:
        """The place of a row of the old text."""
        stretches = self._of(path)
        number = bisect_right(stretches, row - 1, key=lambda each: each[0]) - 1
        if number >= 0 and row - 1 < stretches[number][1]:
            return EditedPlace(path, stretches[number][0] + 1, True)
        return EditedPlace(path, row, False)

    def place_after(self, path: str, row: int) -> EditedPlace:
        """The place of a row of the new text."""
        stretches = self._of(path)
        number = bisect_right(stretches, row - 1, key=lambda each: each[2]) - 1
        if number < 0:
            return EditedPlace(path, row, False)
        first, end, _, new_end = stretches[number]
        if row - 1 < new_end:
            return EditedPlace(path, first + 1, True)
        return EditedPlace(path, row - new_end + end, False)

    def _of(self, path: str) -> list[Change]:
        if path not in self.after:
            return []
        if path not in self._changes:
            old, new = self.before[path], replace(self.before[path], text=self.after[path])
            lines = [[each.line(row) for row in range(1, each.rows + 1)] for each in (old, new)]
            self._changes[path] = list(changes(*lines))
        return self._changes[path]


def new_mistakes(
    before: Sequence[Finding],
    after: Iterable[Finding],
    fixed: Collection[Finding],
    edited: Edited,
    rules: Sequence[Rule],
) -> list[Finding]:
    """The findings of correctness or precision that were not there before some fixes.

    Args:
        before: all findings before.
        after: all findings after.
        fixed: those that were fixed.
        edited: the files.
        rules: those that have found them.
    """
    later: dict[tuple[EditedPlace, str], list[Finding]] = {}
    for each in after:
        place = edited.place_after(each.path, each.span.start.row)
        later.setdefault((place, each.code), []).append(each)
    earlier: dict[tuple[EditedPlace, str], list[Finding]] = {}
    for each in before:
        place = edited.place_before(each.path, each.span.start.row)
        earlier.setdefault((place, each.code), []).append(each)
    losses = Counter(
        _function(each) for at, those in earlier.items() for each in those[len(later.get(at, ())) :]
    )
    losses.subtract(map(_function, fixed))
    silences = {rule.code: rule.supersedes for rule in rules}
    silenced = {  # as in `filtering.without_superseded`
        (edited.place_before(path, span.start.row), code)
        for each in before
        for code in silences.get(each.code, ())
        for path, span in ((each.path, each.span), *((of.path, of.span) for of in each.related))
    }
    new: list[Finding] = []
    for (place, code), those in later.items():
        for each in those[len(earlier.get((place, code), ())) :]:
            if each.group not in SERIOUS:
                continue
            if losses[_function(each)] > 0:
                losses[_function(each)] -= 1
            elif (place, code) not in silenced:
                new.append(each)
    return new


def _function(finding: Finding) -> tuple[str, str, str]:
    return finding.path, finding.code, finding.scope
