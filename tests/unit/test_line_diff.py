"""Which lines have changed: the new text is the old one with the changes in it."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from amplint.core.line_diff import anchors, changes
from amplint.core.text import Text
from amplint.output.wrapping import wrapped

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


def test_a_long_file_of_lines_that_are_alike_is_wrapped_in_no_time() -> None:
    """`difflib` took 25 s for half of it, and eight times as long for twice the lines."""
    call = (
        "y{0} = torch.cuda.amp.autocast(enabled=True, dtype=torch.float16, cache_enabled=False)\n\n"
    )
    lines = [(call if number % 10 == 0 else "x{0} = f({0})\n\n") for number in range(4000)]
    before = "".join(line.format(number) for number, line in enumerate(lines))
    after = before.replace("torch.cuda.amp.autocast(", 'torch.autocast(device_type="cuda", ')
    begun = time.process_time()
    assert wrapped(Text(before), after, 88).count("\n") > after.count("\n")
    assert time.process_time() - begun < 20
