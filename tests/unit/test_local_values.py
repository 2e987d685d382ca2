"""What rules read off a function alone: it holds for every caller, and is found in linear time."""

from __future__ import annotations

from pathlib import Path

import pytest
from amplint.rules._shared import local_values

from amplint.findings.finding import Safety
from tests.helpers import lint

PROGRAM = """\
import torch

SIZES = (2, 3)
COUNT = 2
KIND = torch.float16


def subject(x: torch.Tensor, n, rows):
    given = n
    own = len(rows) * COUNT
    width, height = x.shape
    both, n_or_width = n, width
    for row in rows:
        {line}
    return x


def usual(x: torch.Tensor):
    return subject(x, 3, [1, 2])
"""


def safety(line: str, directory: Path) -> Safety | None:
    """That of the fix of AMP504 in a function whose caller passes an int and a list."""
    outcome = lint({"main.py": PROGRAM.format(line=line).encode()}, directory)
    (finding,) = (each for each in outcome.findings if each.code == "AMP504")
    return finding.fix.safety if finding.fix is not None else None


@pytest.mark.parametrize(
    "number",
    [
        "3",
        "-3 + 4",
        "len(rows)",
        "int(n)",
        "x.size(0)",
        "x.size()[0]",
        "x.shape[-1] // 2",
        "x.ndim",
        "x.numel() - 1",
        "own",
        "width",
        "height * width + 1",
        "own * COUNT + 1",
        "COUNT",
        "n_or_width",
    ],
)
def test_an_int_whoever_calls(number: str, tmp_path: Path) -> None:
    assert safety(f"y = x.new({number}, 2)", tmp_path) is Safety.SAFE


@pytest.mark.parametrize("number", ["n", "given", "both", "n + 1", "own * n", "max(n, 2)"])
def test_an_int_in_the_calls_that_are_seen(number: str, tmp_path: Path) -> None:
    assert safety(f"y = x.new({number}, 2)", tmp_path) is Safety.UNSAFE


@pytest.mark.parametrize("number", ["row", "x.shape[1:]", "x.sum()", "rows", "None", "SIZES"])
def test_what_is_no_int_as_far_as_is_known(number: str, tmp_path: Path) -> None:
    assert safety(f"y = x.new({number}, 2)", tmp_path) is not Safety.SAFE


@pytest.mark.parametrize("operands", ["a{0} + a{0}", "a{0} * 2 - a{0}"])
def test_a_chain_is_walked_in_linear_time(
    operands: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each variable is looked at a fixed number of times, however often it is used."""
    asked = 0
    one = local_values._operands_of_int

    def counted(*arguments: object) -> tuple[object, ...]:
        nonlocal asked
        asked += 1
        return one(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(local_values, "_operands_of_int", counted)
    counts = []
    for size in (10, 20):
        asked = 0
        lines = ["a0 = len(rows)"]
        lines += [f"a{each + 1} = {operands.format(each)}" for each in range(size)]
        assert safety("; ".join([*lines, f"y = x.new(a{size}, 2)"]), tmp_path) is Safety.SAFE
        counts.append(asked)
    assert counts[0] > 0
    assert counts[1] <= 2.3 * counts[0]
