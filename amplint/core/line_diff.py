"""Which lines of a text have changed, in a time that grows with the text.

`difflib` alone takes its time where many lines are alike: 25 s for a file of 4,000 lines, half of
them empty, with 200 changes in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

SMALL = 40_000  # pairs of lines that `difflib` is shown

Change = tuple[int, int, int, int]  # the lines [i, j) are replaced by the new lines [k, l)


def changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """The stretches that differ. Lines that either text has once hold the two together."""
    same = [(-1, -1), *anchors(before, after), (len(before), len(after))]
    for (i, k), (j, m) in pairwise(same):
        yield from _between(before, after, (i + 1, j, k + 1, m))


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
    kept: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        kept.append(once[number])
        number = previous[number]
    return kept[::-1]


def _between(before: Sequence[str], after: Sequence[str], stretch: Change) -> Iterator[Change]:
    i, j, k, m = stretch
    while i < j and k < m and before[i] == after[k]:
        i, k = i + 1, k + 1
    while i < j and k < m and before[j - 1] == after[m - 1]:
        j, m = j - 1, m - 1
    if (j - i) * (m - k) > SMALL:
        yield i, j, k, m
        return
    for kind, *places in SequenceMatcher(None, before[i:j], after[k:m], False).get_opcodes():
        if kind != "equal":
            a, b, c, d = places
            yield i + a, i + b, k + c, k + d
