"""What the pages say is so: the programs of docs/decisions.md, its limits, and all links."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from amplint import cli
from tests.helpers import ROOT, folders, lint, markers, modules, places, write

PAGE = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What the programs of the page leave out; a program that names its files has it all.
IMPORTS = """\
import functools, time, warnings
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
"""
FILE = re.compile(r"^# (\S+\.py)\n", re.MULTILINE)
REPORTED = re.compile(r"# (AMP\d{3})$")
LIMIT = re.compile(r"^- .*\n(?:  .*\n)*", re.MULTILINE)
SHOWN_BY = re.compile(r"\[`(fixtures/[\w/]+\.py)`\]\(\.\./(\S+)\): (`[\w.]+`(?:, `[\w.]+`)*)")


def files_of(program: str) -> dict[str, str]:
    """The files of a program: those that it names, or one with the imports in front."""
    pieces = FILE.split(program)
    named = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return named or {"main.py": IMPORTS + program}


@pytest.mark.parametrize("program", PROGRAM.findall(PAGE), ids=lambda text: text.split("\n")[0])
def test_what_is_marked_on_the_page_is_what_is_reported(program: str, tmp_path: Path) -> None:
    files = files_of(program)
    outcome = lint({path: text.encode() for path, text in files.items()}, tmp_path)
    for path, text in files.items():
        marked = [
            (row, match[1])
            for row, line in enumerate(text.split("\n"), 1)
            if (match := REPORTED.search(line))
        ]
        assert places(outcome.findings, path) == marked


def test_the_report_on_the_page_is_the_one_of_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before, _, after = PAGE.partition("```text\n")
    files = files_of(PROGRAM.findall(before)[-1])
    monkeypatch.chdir(write({path: text.encode() for path, text in files.items()}, tmp_path))
    assert cli.main(["check", "."]) == 1
    assert capfd.readouterr().out == after.partition("```\n")[0]


def limits() -> dict[str, list[tuple[str, str]]]:
    """The items under "Known limits", and the definitions in fixtures that each names."""
    section = PAGE.partition("\n## Known limits\n")[2]
    assert not re.search(r"^## ", section, re.MULTILINE), "the limits end the page"
    found: dict[str, list[tuple[str, str]]] = {}
    for item in LIMIT.findall(section):
        shown = found[item] = []
        for path, target, names in SHOWN_BY.findall(item):
            assert path == target, item
            shown += [(path, name.strip("`")) for name in names.split(", ")]
    return found


def missed() -> set[tuple[str, str]]:
    """The innermost definition around each `# miss:` of all fixtures."""
    found: set[tuple[str, str]] = set()
    for folder in folders():
        for path, data in modules(folder).items():
            text = data.decode()
            rows = {row for row, _ in markers(text, "miss")}
            found |= {(f"fixtures/{folder}/{path}", definition_at(text, row)) for row in rows}
    return found


def definition_at(text: str, row: int) -> str:
    """The dotted name of the function or class that the row stands in."""
    names: list[str] = []
    body: list[ast.AST] = [ast.parse(text)]
    while body:
        node = body.pop()
        for child in ast.iter_child_nodes(node):
            first, last = getattr(child, "lineno", row), getattr(child, "end_lineno", row)
            if first <= row <= last:
                body.append(child)
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    names.append(child.name)
    return ".".join(names)


def test_every_limit_is_shown_by_a_miss_and_every_miss_is_a_limit() -> None:
    listed = limits()
    assert not [item for item, shown in listed.items() if not shown], "names no fixture"
    named = {place for shown in listed.values() for place in shown}
    assert named == missed()


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]), ids=lambda path: path.name
)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            path, _, heading = target.partition("#")
            linked = page.parent / path if path else page
            assert linked.exists(), target
            assert not heading or heading in headings(linked), target


def headings(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_the_architecture_names_every_module() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+\.py)`", page))
    there = {path.name for path in (ROOT / "amplint").glob("*.py")} - {"__init__.py"}
    assert named == there
