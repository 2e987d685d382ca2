"""What the rules about dtypes leave alone in a whole project, which fixtures cannot show."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from amplint.knowledge.dtypes import CHOICES, FLOATS, HALF, alternatives, covering, half_on_a_path
from tests.helpers import lint, of_each, places

PROGRAM = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


def step(wrapper, x, y):
    model = nn.Linear(4, 4)
    {wrapped}
    with torch.autocast("cuda"):
        output = model(x)
    return F.cross_entropy(output, y), torch.linalg.inv(output)
"""


@pytest.mark.parametrize(
    ("imported", "wrapped", "codes"),
    [
        ("", "model = model.cuda()", ["AMP305", "AMP313"]),
        ("from accelerate import Accelerator", "model = Accelerator().prepare(model)", []),
        ("from lightning import Fabric", "model = Fabric().setup(model)", []),
        ("from accelerate import Accelerator", "wrapper.prepare(model)", []),
    ],
)
def test_libraries_cast_what_the_models_give_that_they_wrap(
    imported: str, wrapped: str, codes: list[str], tmp_path: Path
) -> None:
    text = f"{imported}\n{PROGRAM.format(wrapped=wrapped)}"
    outcome = lint({"main.py": text.encode()}, tmp_path)
    assert [code for _, code in places(outcome.findings, "main.py")] == codes


RANKED = """\
import torch


def step(wrapper, model, x):
    {wrapped}
    with torch.autocast("cuda", dtype=torch.float16):
        return torch.log(torch.sigmoid(model(x)))
"""


@pytest.mark.parametrize(
    ("imported", "wrapped", "codes"),
    [
        ("", "model = model.cuda()", ["AMP803"]),
        ("from accelerate import Accelerator", "model = Accelerator().prepare(model)", []),
        ("from accelerate import Accelerator", "wrapper.prepare(model)", []),
    ],
)
def test_a_sigmoid_is_not_taken_for_half_where_a_library_casts_what_models_give(
    imported: str, wrapped: str, codes: list[str], tmp_path: Path
) -> None:
    text = f"{imported}\n{RANKED.format(wrapped=wrapped)}"
    outcome = lint({"main.py": text.encode()}, tmp_path)
    assert [code for _, code in places(outcome.findings, "main.py")] == codes


@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        ({"float16"}, "float16"),
        ({"int64"}, "int64"),
        ({"float16", "float32"}, "float16 or float32"),
        ({"float16", "bfloat16", "float32"}, "half or float32"),
        ({"float16", "bfloat16"}, "half"),
        ({"float16", "float64"}, None),
        ({"float16", "float32", "int64"}, None),
        ({"float16 or float32", "float32"}, "float16 or float32"),
        ({"float16 or float32", "float16"}, "float16 or float32"),
        ({"float16 or float32", "bfloat16"}, "half or float32"),
        ({"half", "bfloat16"}, "half"),
        ({"float32", None}, None),
        ({"float16", None}, None),
        ({"float32", "int64"}, None),
    ],
)
def test_what_covers_dtypes(names: set[str | None], dtype: str | None) -> None:
    assert covering(names) == dtype


KNOWN = (*sorted(FLOATS), "int64", None)


@of_each([*product(KNOWN, repeat=3)])
def test_what_covers_dtypes_is_the_same_in_any_order(names: tuple[str | None, ...]) -> None:
    one, two, three = names
    whole = covering({one, two, three})
    assert covering({covering({one, two}), three}) == whole
    assert covering({one, covering({two, three})}) == whole


@pytest.mark.parametrize("dtype", sorted(FLOATS))
def test_alternatives_are_covered_by_what_they_are_of(dtype: str) -> None:
    assert covering(alternatives(dtype)) == dtype


def test_a_choice_is_half_on_a_path() -> None:
    assert {half_on_a_path(choice) for choice in CHOICES} == HALF
    assert CHOICES.keys() <= FLOATS
    assert half_on_a_path("float32") is half_on_a_path(None) is None


CHOICE = """\
import torch


def f(x: torch.Tensor, mask, fp16, amp):
    dtype = torch.float16 if fp16 else torch.float32
    other = torch.float16 if amp else torch.float32
    h, o = x.to(dtype), x.to(other)
    first = {expression}
    return first / (first.mean() + 1e-8)
"""


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("h", True),
        ("h.relu() * 2 + h", True),
        ("h @ h.mT", True),
        ("torch.zeros(3, dtype=h.dtype) + h", True),
        ("h + h.float()", False),  # float32 on both paths
        ("h + x.double()", False),
        ("h + x.half()", True),  # with the flag; without it, float32
        ("h + x.bfloat16()", False),  # float32 on both paths
        ("h.float()", False),
    ],
)
def test_what_becomes_of_a_choice(expression: str, found: bool, tmp_path: Path) -> None:
    outcome = lint({"main.py": CHOICE.format(expression=expression).encode()}, tmp_path)
    assert [c for _, c in places(outcome.findings, "main.py")] == ["AMP802"] * found


TESTED = """\
import torch


def f(x: torch.Tensor, other: torch.Tensor, fp16, amp):
    h = x.to(torch.float16 if fp16 else torch.float32)
    o = other.to(torch.float16 if amp else torch.float32)
    {statement}
    return h / (h.mean() + 1e-8)
"""


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("pass", True),
        ("if h.dtype == torch.float16: h = h.float()", False),
        ("if h.dtype != torch.float32: h = h.float()", False),
        ("if h.dtype is torch.half: h = h.float()", False),
        ("if h.dtype in (torch.float16, torch.bfloat16): h = h.float()", False),
        ("if h.dtype not in {torch.float32, torch.float64}: h = h.float()", False),
        ("if not h.dtype == torch.float32: h = h.float()", False),
        ("if h.dtype == torch.float16 or h.dtype == torch.bfloat16: h = h.float()", False),
        ("kind = h.dtype\n    if kind == torch.float16: h = h.float()", False),
        ("h = h.float() if h.dtype == torch.float16 else h", False),
        ("if h.dtype != torch.float32: return h", False),
        ("if h.dtype == torch.bfloat16: h = h.float()", True),
        ("if h.dtype == torch.float16 and fp16: h = h.float()", True),
        ("if h.dtype == o.dtype: h = h.float()", True),  # either may be the other
        ("if h.dtype != o.dtype: return h", True),
        ("if o.dtype == torch.float16: h = h.float()", True),  # another tensor's
        ("if h.dtype == unknown: h = h.float()", True),
        ("if h.dtype == torch.float16: pass", True),  # both ways meet again
        ("if h.dtype < torch.float16: h = h.float()", True),
        ("h = h.half() if amp else h.float()", True),
    ],
)
def test_what_a_test_of_the_dtype_leaves(statement: str, found: bool, tmp_path: Path) -> None:
    outcome = lint({"main.py": TESTED.format(statement=statement).encode()}, tmp_path)
    codes = [code for _, code in places(outcome.findings, "main.py")]
    assert ("AMP802" in codes) is found
