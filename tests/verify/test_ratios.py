"""What pairs of durations say, and when nothing may be claimed."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint_verify.compare.ratios import LEAST, Ratio, RatioClaim, claim, ratio

DURATIONS = st.floats(1e-6, 1e3)
PAIRS = st.lists(st.tuples(DURATIONS, DURATIONS), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_interval_lies_around_the_median_and_within_what_was_measured(
    pairs: list[tuple[float, float]],
) -> None:
    found = ratio(pairs)
    ratios = [second / first for first, second in pairs]
    assert min(ratios) <= found.low <= found.median <= found.high <= max(ratios)
    assert found.pairs == len(pairs)


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.randoms(use_true_random=False))
def test_order_of_pairs_does_not_matter(
    pairs: list[tuple[float, float]], generator: random.Random
) -> None:
    assert ratio(generator.sample(pairs, len(pairs))) == ratio(pairs)


@settings(max_examples=60, deadline=None)
@given(st.lists(DURATIONS, min_size=1, max_size=30), st.sampled_from([0.25, 0.5, 2.0, 8.0]))
def test_drift_that_both_of_a_pair_share_cancels(firsts: list[float], factor: float) -> None:
    """However much the machine slows down on the way: powers of two are exact."""
    found = ratio([(first, first * factor) for first in firsts])
    assert (found.median, found.low, found.high) == (factor, factor, factor)


@given(st.lists(DURATIONS, min_size=3, max_size=3).map(sorted), st.integers(0, 50))
def test_nothing_is_claimed_of_what_the_control_shows_too(bounds: list[float], pairs: int) -> None:
    low, median, high = bounds
    measured = Ratio(median, low, high, pairs)
    assert claim(measured, measured) is RatioClaim.NOTHING


@pytest.mark.parametrize(
    ("measured", "control", "claimed"),
    [
        ((0.80, 0.85), (0.98, 1.02), RatioClaim.LESS),
        ((1.10, 1.20), (0.98, 1.02), RatioClaim.MORE),
        ((0.90, 1.01), (0.98, 1.02), RatioClaim.NOTHING),  # holds 1
        ((0.90, 0.98), (0.97, 1.02), RatioClaim.NOTHING),  # reaches into the control
        ((0.90, 0.95), (0.80, 0.85), RatioClaim.NOTHING),  # better, but the control is better still
        ((1.05, 1.10), (1.20, 1.30), RatioClaim.NOTHING),
    ],
)
def test_claim(
    measured: tuple[float, float], control: tuple[float, float], claimed: RatioClaim
) -> None:
    intervals = [Ratio(sum(each) / 2, *each, LEAST) for each in (measured, control)]
    assert claim(*intervals) is claimed
    few = Ratio(sum(measured) / 2, *measured, LEAST - 1)
    assert claim(few, intervals[1]) is RatioClaim.NOTHING


def experiment(generator: random.Random, factor: float, noise: float) -> RatioClaim:
    """40 pairs of durations on a machine that drifts, and as many of the control."""

    def pairs(scale: float) -> list[tuple[float, float]]:
        found = []
        for turn in range(40):
            drift = 1 + 0.5 * math.sin(turn / 6)
            first, second = (drift * math.exp(generator.gauss(0, noise)) for _ in range(2))
            found.append((first, second * scale))
        return found

    return claim(ratio(pairs(factor)), ratio(pairs(1.0)))


def test_claims_of_simulated_experiments() -> None:
    """Of programs that are the same, fewer than 1 in 20; a gain of a tenth is always seen."""
    generator = random.Random(1)
    same = [experiment(generator, 1.0, 0.05) for _ in range(60)]
    assert sum(each is not RatioClaim.NOTHING for each in same) <= 3
    assert {experiment(generator, 0.9, 0.05) for _ in range(10)} == {RatioClaim.LESS}
    assert {experiment(generator, 1.1, 0.05) for _ in range(10)} == {RatioClaim.MORE}


def test_no_pairs() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        ratio([])
