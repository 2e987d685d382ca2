"""Which lines an edit touches, and which operations show that it ran."""

from __future__ import annotations

import textwrap
import time

import pytest

from amplint.core.finding import Edit
from amplint.verify.compare.executed import Touched, touched, unedited, unshown

OLD = """\
import torch

x = torch.zeros(
    3,
)
y = x.cuda()
"""


def edit(text: str, old: str, new: str) -> Edit:
    start = text.index(old)
    return Edit(start, start + len(old), new)


@pytest.mark.parametrize(
    ("edits", "before", "after"),
    [
        ([edit(OLD, ".cuda()", ".to(0)")], {6}, {6}),
        ([edit(OLD, "    3,\n", "    3,\n    device=0,\n")], {4}, {5}),
        ([edit(OLD, "x = torch", "z = 1\nx = torch")], {3}, {3}),
        ([Edit(OLD.index("x ="), OLD.index("x ="), "z = 1\n")], set(), {3}),
        ([edit(OLD, "y = x.cuda()\n", "")], {6}, set()),
        ([Edit(len(OLD), len(OLD), "z = 1\n")], set(), {7}),
    ],
)
def test_touched(edits: list[Edit], before: set[int], after: set[int]) -> None:
    new = OLD
    for each in edits:
        new = new[: each.start] + each.text + new[each.end :]
    rows = touched(OLD, new, edits)
    assert (rows.before, rows.after) == (before, after)


def test_touched_among_other_edits() -> None:
    new = OLD.replace("import torch\n", "import os\nimport torch\n").replace(".cuda()", ".to(0)")
    rows = touched(OLD, new, [edit(OLD, ".cuda()", ".to(0)")])
    assert (rows.before, rows.after) == ({6}, {7})


def test_unedited_rows_leave_out_the_rest_of_an_edited_statement() -> None:
    new = OLD.replace("    3,\n", "    4,\n")
    assert unedited(OLD, new) == {1: 1, 2: 2, 6: 6}
    assert unedited(OLD, "import os\n" + OLD)[4] == 3


def test_a_form_feed_ends_no_row() -> None:
    old = "import torch\n\f\nx = 1\ny = x.cuda()\n"
    new = old.replace(".cuda()", ".to(0)")
    assert touched(old, new, [edit(old, ".cuda()", ".to(0)")]) == Touched(
        frozenset({4}), frozenset({4})
    )
    assert unedited(old, new) == {1: 1, 2: 2, 3: 3}
    assert unshown(old, [3], set()) == [3]


def test_rows_of_a_long_file_are_found_in_no_time() -> None:
    """`difflib` took 25 s for it."""
    lines = [f"x{number} = f({number})\n" if number % 2 else "\n" for number in range(4000)]
    old = "".join(lines)
    new = "".join(
        line.replace("f(", "g(") if number % 20 == 1 else line for number, line in enumerate(lines)
    )
    begun = time.process_time()
    assert touched(old, new, [edit(old, "x1 = f", "x1 = g")]).after == {2}
    assert len(unedited(old, new)) == 3800
    assert time.process_time() - begun < 10


PROGRAM = textwrap.dedent(
    """
    import torch                                     # 2
    from torch.cuda.amp import GradScaler            # 3

    scaler = GradScaler()                            # 5
    context = torch.autocast("cuda")                 # 6

    @torch.no_grad()                                 # 8
    def evaluate(x,
                 y=None):                            # 10
        # a comment
        return x * 2                                 # 12

    def train(model, x):
        with torch.autocast("cuda"):                 # 15
            out = model(
                x,                                   # 17
            )
        scaler.scale(out).backward()                 # 19
        with context:                                # 20
            out = out + 1                            # 21
        torch.cuda.empty_cache()                     # 22
    """
)


@pytest.mark.parametrize(
    ("row", "recorded", "shown"),
    [
        (12, {12}, True),
        (12, {19}, False),
        (17, {16}, True),
        (15, {16}, True),
        (15, {19}, False),
        (8, {12}, True),
        (10, {12}, True),
        (10, {16}, False),
        (5, {19}, True),
        (5, {12}, False),
        (6, {21}, True),
        (6, {16}, False),
        (3, {19}, False),
        (22, {22}, True),
        (22, {21}, False),
        (11, set(), True),
        (4, set(), True),
    ],
)
def test_unshown(row: int, recorded: set[int], shown: bool) -> None:
    assert unshown(PROGRAM, [row], recorded) == ([] if shown else [row])


def test_import_is_shown_by_what_it_binds() -> None:
    text = "import torch\nx = torch.zeros(3)\nimport os\n"
    assert unshown(text, [1, 3], {2}) == []
    assert unshown(text, [1, 3], set()) == [1]
