"""Link's work grows with what it is given, and no faster; counted, for time depends on the load."""

from __future__ import annotations

import pytest

from benchmarks.link_growth import SHAPES, growth, measure, most

# The others are for `python -m benchmarks.link_growth`: all of them take two minutes of the suite.
HERE = ("namesakes", "hub", "chain", "nested")


@pytest.mark.parametrize("shape", HERE)
def test_four_times_the_project_is_four_times_the_work(shape: str) -> None:
    generate = SHAPES[shape]
    grown = growth(measure(generate(1)), measure(generate(4)))
    assert not {count: times for count, times in grown.items() if times > most(shape)}
