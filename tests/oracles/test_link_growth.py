"""Link's work grows with what it is given, and no faster; counted, for time depends on the load."""

from __future__ import annotations

import pytest

from benchmarks.link_growth import SHAPES, growth, measure, most


@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_project_is_four_times_the_work(shape: str) -> None:
    generate = SHAPES[shape]
    grown = growth(measure(generate(1)), measure(generate(4)))
    assert not {count: times for count, times in grown.items() if times > most(shape)}
