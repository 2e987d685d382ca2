"""docs/migration.md: each diff of the page is what the fixes make of its program, and its tables
are those of the last run over real packages."""

from __future__ import annotations

import ast
import difflib
import itertools
import re
from pathlib import Path

import pytest

from benchmarks.migration import result, tables
from benchmarks.packages import load
from tests.helpers import ROOT, fix, lint, places
from tests.test_docs import REPORTED

PAGE = ROOT / "docs" / "migration.md"
BLOCK = re.compile(
    r"^(?P<said>[^\n]+):\n\n```diff(?P<unsafe> unsafe)?\n(?P<diff>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
BLOCKS = list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
FILE = "main.py"


def side(block: str, sign: str) -> str:
    """One side of a diff: "-" for the program before, "+" for the one after."""
    lines = [line or " " for line in block.splitlines()]
    return "".join(f"{line[1:]}\n" for line in lines if line[0] in (" ", sign))


def diff(before: str, after: str) -> str:
    """The difference between two programs, with all their lines."""
    old, new = before.splitlines(), after.splitlines()
    lines = list(difflib.unified_diff(old, new, n=len(old), lineterm=""))[3:]
    return "".join(f"{line.rstrip()}\n" for line in lines or [f" {line}" for line in old])


def test_each_diff_is_what_the_fixes_make(update: bool, tmp_path: Path) -> None:
    """`pytest --update` writes it."""
    number = itertools.count()

    def made(block: re.Match[str]) -> str:
        before = side(block["diff"], "-")
        unsafe = block["unsafe"] is not None
        after = fix({FILE: before.encode()}, tmp_path / str(next(number)), unsafe)[FILE].decode()
        ast.parse(after)
        return block[0].replace(block["diff"], diff(before, after))

    page = PAGE.read_text(encoding="utf-8")
    expected = BLOCK.sub(made, page)
    if update:
        PAGE.write_text(expected, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == expected


def test_the_tables_are_those_of_the_last_run(update: bool) -> None:
    """`pytest --update` writes them."""
    page = PAGE.read_text(encoding="utf-8")
    prose = page.partition("| package |")[0]
    if update:
        PAGE.write_text(prose + tables(result()), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == prose + tables(result())


def test_the_last_run_was_over_all_pinned_packages_and_found_nothing_wrong() -> None:
    rows = result()["packages"]
    assert {name: row["version"] for name, row in rows.items()} == {
        package.name: package.version for package in load(among="migration")
    }
    assert not [failure for row in rows.values() for failure in row["failures"]]
    assert sum(sum(row["files_changed"]) > 0 for row in rows.values()) >= 15


def test_whatever_a_run_has_left_has_a_reason() -> None:
    rows = [(name, row) for name, each in result()["packages"].items() for row in each["uses"]]
    assert not [
        (name, row["form"], row["source"])
        for name, row in rows
        if row["seen"] > row["safe"] + row["unsafe"] and not row["why"]
    ]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block["said"])
def test_what_is_reported_and_stays_is_marked(block: re.Match[str], tmp_path: Path) -> None:
    after = side(block["diff"], "+")
    marked = [
        (row, match[1])
        for row, line in enumerate(after.splitlines(), 1)
        if (match := REPORTED.search(line))
    ]
    assert places(lint({FILE: after.encode()}, tmp_path).findings, FILE) == marked
