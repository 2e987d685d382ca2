"""The work of a check grows with the program and no faster, whatever the program's shape.

Executed lines are counted, for time depends on the load. A shape that took exponential time would
stay below the bound at no size.
"""

from __future__ import annotations

import pytest

from benchmarks.check_growth import SHAPES, Counts, faster, too_fast

# Shapes that still grow too fast, and for what: each is taken off with the flaw that it names.
PENDING: dict[str, str] = {}


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(
            name,
            marks=pytest.mark.xfail(strict=True, reason=PENDING[name]) if name in PENDING else (),
        )
        for name in SHAPES
    ],
)
def test_twice_the_program_is_twice_the_work(shape: str) -> None:
    assert not too_fast(SHAPES[shape])


def test_what_grows_too_fast_is_found_however_small_a_part_it_is() -> None:
    steady, quadratic = steady_lines.__code__, quadratic_lines.__code__
    smaller = Counts({steady: 1000, quadratic: 20})
    larger = Counts({steady: 2000, quadratic: 80})
    assert [line.split(":")[1] for line in faster(smaller, larger, share=0.02)] == [
        f"{quadratic.co_firstlineno} quadratic_lines"
    ]


def steady_lines() -> None: ...


def quadratic_lines() -> None: ...
