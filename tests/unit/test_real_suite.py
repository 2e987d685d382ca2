"""The count of changed lines that the tests of real packages execute."""

from __future__ import annotations

from benchmarks.real_suite import SUITES, new_lines, statements

TEXT = """\
@decorated(
    1,
)
def f(x):
    y = g(
        x,
    )
    if y:

        return y
"""


def test_a_row_belongs_to_its_innermost_statement() -> None:
    rows = statements(TEXT)
    assert {row: (found.start, found.stop) for row, found in rows.items()} == {
        **dict.fromkeys((1, 2, 3, 4), (1, 5)),
        **dict.fromkeys((5, 6, 7), (5, 8)),
        **dict.fromkeys((8, 9), (8, 10)),
        10: (10, 11),
    }


def test_new_lines_are_those_of_the_new_text() -> None:
    assert list(new_lines("a\nb\nc\n", "a\nx\ny\nc\n")) == [2, 3]
    assert list(new_lines("a\nb\n", "a\n")) == []


def test_each_package_is_pinned_and_named_once() -> None:
    names = [suite.package.name for suite in SUITES]
    assert len(set(names)) == len(names) >= 6
    assert all(len(suite.package.sha256) == 64 and suite.package.url for suite in SUITES)
