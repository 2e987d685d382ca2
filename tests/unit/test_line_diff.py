"""Which lines have changed: the new text is the old one with the changes in it."""

from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from amplint.util.line_diff import MOST, anchors, changes

LINES = st.lists(st.sampled_from(["", "a", "b", "c", "d = 1", "e", "f"]), max_size=12)


def told(before: list[str], after: list[str]) -> list[tuple[list[str], list[str]]]:
    return [(before[i:j], after[k:m]) for i, j, k, m in changes(before, after)]


def test_what_has_changed() -> None:
    assert told([], []) == told(["a", "", "b"], ["a", "", "b"]) == []
    assert told(["a", "", "b", "", "c"], ["a", "", "d", "", "c"]) == [(["b"], ["d"])]
    assert told(["a", "b"], ["a", "x", "b"]) == [([], ["x"])]
    assert told(["a", "b", "c", "d"], ["d", "a", "b", "c"]) == [([], ["d"]), (["d"], [])]


def test_lines_that_keep_their_order_hold_the_texts_together() -> None:
    assert anchors(["a", "x", "b", "x", "c"], ["c", "a", "x", "b"]) == [(0, 1), (2, 3)]


@given(LINES, LINES)
def test_the_changes_make_the_new_text(before: list[str], after: list[str]) -> None:
    made: list[str] = []
    last = 0
    for i, j, k, m in changes(before, after):
        assert before[last:i] == after[len(made) : k]
        made += before[last:i] + after[k:m]
        last = j
    assert made + before[last:] == after


def fewest_lines(before: list[str], after: list[str]) -> int:
    """How many lines have to be removed and added: all that are in no longest common part."""
    common = [0] * (len(after) + 1)
    for line in before:
        last, common = common, [0]
        for at, other in enumerate(after):
            common.append(last[at] + 1 if line == other else max(last[at + 1], common[at]))
    return len(before) + len(after) - 2 * common[-1]


@given(LINES, LINES)
def test_no_line_is_changed_that_need_not_be(before: list[str], after: list[str]) -> None:
    found = [*changes(before, after)]
    assert sum(j - i + m - k for i, j, k, m in found) == fewest_lines(before, after)
    assert all(one[1] < other[0] for one, other in pairwise(found))  # else they would be one


def test_a_text_that_has_each_line_twice() -> None:
    """No line holds the two together, and there are too many for a table of all pairs."""
    lines = [f"x{number}" for number in range(2000)] * 2
    after = lines.copy()
    after[0], after[-1] = "first", "last"
    assert [*changes(lines, after)] == [(0, 1, 0, 1), (3999, 4000, 3999, 4000)]


def test_many_changes_are_held_together_by_lines_that_are_there_once() -> None:
    lines = [f"x{number}" if number % 2 else "" for number in range(4 * MOST)]
    after = [f"y{number}" if number % 4 == 1 else line for number, line in enumerate(lines)]
    wanted = [(number, number + 1, number, number + 1) for number in range(1, 4 * MOST, 4)]
    assert [*changes(lines, after)] == wanted


def test_texts_with_nothing_in_common() -> None:
    before, after = [str(number) for number in range(MOST)], ["a", "b"] * MOST
    assert [*changes(before, after)] == [(0, MOST, 0, 2 * MOST)]


def test_a_long_file_of_lines_that_are_alike_is_compared_in_no_time() -> None:
    """`difflib` took 25 s for half of it, and eight times as long for twice the lines."""
    names = ("call" if number % 10 == 0 else "x" for number in range(4000))
    lines = [line for number, name in enumerate(names) for line in (f"{name}({number})", "")]
    after = [line.replace("call", "other") for line in lines]
    begun = time.process_time()
    assert len([*changes(lines, after)]) == 400
    assert time.process_time() - begun < 20
