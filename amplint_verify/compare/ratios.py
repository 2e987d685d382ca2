"""How two durations compare, seen in pairs of them, and what may be claimed of it.

Clocks on a shared machine drift, so that medians of two series say little. Two runs right after
each other share what disturbs them: each pair has a ratio, and the median of the ratios has an
interval by the bootstrap. The same is measured of the original against itself. That control shows
what the method finds where there is nothing to find, and a gain is only claimed outside of it.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

RESAMPLES = 2000
CONFIDENCE = 0.95
LEAST = 10  # pairs, below which nothing is claimed


@dataclass(frozen=True)
class Ratio:
    """The ratio of the second to the first, as pairs show it.

    Args:
        median: of the ratios of the pairs.
        low, high: the interval of 95 % around it, by the percentiles of the bootstrap.
        pairs: how many there were.
    """

    median: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


class RatioClaim(Enum):
    """The claim that may be made about the second."""

    LESS = "less"
    MORE = "more"
    NOTHING = "no difference shown"


def ratio(pairs: Iterable[tuple[float, float]]) -> Ratio:
    """The ratio of second to first over all pairs, which are positive.

    Raises ValueError if there is no pair.
    """
    ratios = sorted(second / first for first, second in pairs)
    if not ratios:
        raise ValueError("no pairs, no ratio")
    generator = random.Random(0)  # so that a report is the same each time it is made
    medians = sorted(
        statistics.median(generator.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)
    )
    tail = round((1 - CONFIDENCE) / 2 * RESAMPLES)
    return Ratio(
        median=statistics.median(ratios),
        low=medians[tail],
        high=medians[-1 - tail],
        pairs=len(ratios),
    )


def claim(measured: Ratio, control: Ratio) -> RatioClaim:
    """The difference between pairs of before and after, and pairs of before and before.

    The interval has to exclude 1 and to lie outside that of the control.
    """
    if min(measured.pairs, control.pairs) < LEAST:
        return RatioClaim.NOTHING
    if measured.high < min(1.0, control.low):
        return RatioClaim.LESS
    if measured.low > max(1.0, control.high):
        return RatioClaim.MORE
    return RatioClaim.NOTHING
