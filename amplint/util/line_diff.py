"""Which lines of a text have changed: as few as possible, in a time that grows with the text.

This is the one way in which amplint compares texts line by line. `difflib` finds more changes than
there are in a file of more than 200 lines, where it takes each line that is in a hundredth of them,
such as an empty one, for no line at all; without that it takes its time where many lines are alike:
25 s for a file of 4,000 lines, half of them empty, with 200 changes in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

# Lines that may be removed and added in a stretch whose fewest changes are looked for: the time for
# that grows with their square.
MOST = 400

Change = tuple[int, int, int, int]  # the lines [i, j) are replaced by the new lines [k, l)


def changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """The stretches that differ: the fewest, unless these are many. Then lines that either text has
    once hold the two together."""
    whole = fewest(before, after, (0, len(before), 0, len(after)))
    if whole is not None:
        yield from whole
        return
    same = [(-1, -1), *anchors(before, after), (len(before), len(after))]
    for (i, k), (j, m) in pairwise(same):
        stretch = i + 1, j, k + 1, m
        parts = fewest(before, after, stretch)
        yield from [stretch] if parts is None else parts


def fewest(before: Sequence[str], after: Sequence[str], stretch: Change) -> list[Change] | None:
    """The changes of a stretch with the fewest lines; None if these are too many.

    After E. W. Myers, An O(ND) difference algorithm and its variations (1986): for each number of
    lines that are removed or added, how far one gets, by the diagonal on which one ends, that is,
    by how many more were removed than added.
    """
    i, j, k, m = stretch
    size, new_size = j - i, m - k
    reached: list[dict[int, int]] = []  # by number, then by diagonal: how many old lines are behind
    for number in range(min(MOST, size + new_size) + 1):
        farthest: dict[int, int] = {}
        for diagonal in range(-number, number + 1, 2):
            step = _step(reached[-1] if reached else None, diagonal, size, new_size)
            if step is None:
                continue
            at = step[0]
            while (
                at < size and at - diagonal < new_size
                and before[i + at] == after[k + at - diagonal]
            ):  # fmt: skip
                at += 1
            farthest[diagonal] = at
        reached.append(farthest)
        if farthest.get(size - new_size) == size:
            return [(i + a, i + b, k + c, k + d) for a, b, c, d in _way(reached, size, new_size)]
    return None


def _step(
    last: Mapping[int, int] | None, diagonal: int, size: int, new_size: int
) -> tuple[int, bool] | None:
    """How one gets farthest on a diagonal by one line more than was tried: how many old lines are
    behind then, and whether the line was removed. None if one does not get there."""
    if last is None:
        return 0, False
    removed = last.get(diagonal - 1, size) + 1
    added = last.get(diagonal + 1, -1)
    can_add = added >= 0 and added - diagonal <= new_size
    if removed <= size and not (can_add and added >= removed):
        return removed, True
    return (added, False) if can_add else None


def _way(reached: Sequence[Mapping[int, int]], size: int, new_size: int) -> list[Change]:
    """The changes on the way to the end of both texts, by the steps that have led there."""
    way: list[Change] = []
    diagonal = size - new_size
    for number in range(len(reached) - 1, 0, -1):
        step = _step(reached[number - 1], diagonal, size, new_size)
        assert step is not None  # it was taken
        at, is_removal = step
        new = at - diagonal
        diagonal += -1 if is_removal else 1
        change = (at - 1, at, new, new) if is_removal else (at, at, new - 1, new)
        if way and (change[1], change[3]) == (way[-1][0], way[-1][2]):
            after = way.pop()
            change = change[0], after[1], change[2], after[3]
        way.append(change)
    return way[::-1]


def anchors(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """As many lines as keep their order, of those that either text has once: the two places."""
    counts, others = Counter(before), Counter(after)
    places = {line: number for number, line in enumerate(before) if counts[line] == 1}
    once = [
        (places[line], number)
        for number, line in enumerate(after)
        if line in places and others[line] == 1
    ]
    # The longest rising sequence: `ends[n]` is the lowest end of one of n + 1 places.
    ends: list[int] = []
    last: list[int] = []  # which of `once` that is
    previous: list[int] = []
    for number, (place, _) in enumerate(once):
        length = bisect_left(ends, place)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    pairs: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        pairs.append(once[number])
        number = previous[number]
    return pairs[::-1]
