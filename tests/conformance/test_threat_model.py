"""The page on threats: each promise names tests, and each test that it names exists."""

from __future__ import annotations

import ast
import re
from itertools import accumulate

from tests.helpers import ROOT, of_each

PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
PROMISED = PAGE.partition("## What is promised\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (.*?) ?\| `(\S+)::(\w+)` \|$", PROMISED, re.MULTILINE)
# A row without a promise has a further test of the one above.
PROMISES = list(accumulate((promise for promise, _, _ in ROWS), lambda last, new: new or last))


def test_each_row_is_a_promise_with_a_test() -> None:
    rows = [line for line in PROMISED.splitlines() if line.startswith("|")]
    assert len(rows) - 2 == len(ROWS) > 30  # without the head
    assert all(PROMISES)


@of_each([row[1:] for row in ROWS])
def test_each_test_exists(row: tuple[str, str]) -> None:
    file, test = row
    module = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert test in {each.name for each in module.body if isinstance(each, functions)}


def test_no_trial_of_hostile_input_is_forgotten() -> None:
    """Each module of them holds a promise."""
    trials = {f"hostile/{file.name}" for file in (ROOT / "tests" / "hostile").glob("test_*.py")}
    assert trials == {file for _, file, _ in ROWS if file.startswith("hostile/")}


def test_both_pages_are_found() -> None:
    for page in ("README.md", "docs/README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "threat-model.md)" in text
        assert "SECURITY.md)" in text
