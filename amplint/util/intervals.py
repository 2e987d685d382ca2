"""Intervals that may overlap, of which some are looked for by a place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import Generic, TypeVar

from amplint.util.positions import Position

Point = TypeVar("Point", int, Position)


class Intervals(Generic[Point]):
    """Intervals from a point up to another one, which is not in it."""

    def __init__(self, intervals: Iterable[tuple[Point, Point]]) -> None:
        ordered = sorted(intervals)
        self._starts: list[Point] = [start for start, _ in ordered]
        # By interval: the last end of those that begin no later.
        self._ends: list[Point] = list(accumulate((end for _, end in ordered), max))

    def meet(self, start: Point, end: Point) -> bool:
        """Whether one of them has a point in common with the interval from `start` to `end`."""
        before = bisect_left(self._starts, end)
        return before > 0 and start < self._ends[before - 1]
