"""Whether intervals meet, held against a comparison with each of them."""

from hypothesis import given
from hypothesis import strategies as st

from amplint.util.intervals import Intervals

points = st.integers(0, 9)
intervals = st.tuples(points, points).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(intervals), intervals)
def test_an_interval_meets_those_that_begin_before_its_end_and_end_after_its_start(
    known: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    start, end = asked
    assert Intervals(known).meet(start, end) == any(s < end and start < e for s, e in known)
