"""docs/coverage.md against the rules: what is promised is built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amplint import registry
from amplint.rule import Unrun
from tests.helpers import ROOT, lint
from tests.test_docs import PROGRAM, files_of

PAGE = ROOT / "docs" / "coverage.md"
RULE = {rule.code: rule for rule in registry.all_rules()}
RULES, UNRUN, WITHOUT = "The rules", "Claims that are not run", "Mistakes without a rule"
ROW = re.compile(r"^\| (AMP\d{3}) .*\|$\n", re.MULTILINE)


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def promised(page: str) -> dict[str, list[str]]:
    """By code: code, name, group and summary."""
    rows = [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", match[0])[1:-1]]
        for match in ROW.finditer(section(page, RULES))
    ]
    return {cells[0]: cells for cells in rows}


def expected(page: str) -> str:
    """The page, with what follows from the rules; codes, names and groups stay."""
    table = promised(page)
    for code, rule in RULE.items():
        _, name, group, *_ = table.get(code, [code, rule.name, rule.group.value])
        table[code] = [code, name, group, rule.summary]
    unrun = [
        row(f"{code} {rule.name}", rule.witness.reason, rule.witness.source)
        for code, rule in RULE.items()
        if isinstance(rule.witness, Unrun)
    ]
    page = with_rows(page, RULES, [row(*table[code]) for code in sorted(table)])
    return with_rows(page, UNRUN, unrun)


def with_rows(page: str, heading: str, rows: list[str]) -> str:
    """The page, with these rows in the table under a heading."""
    old = section(page, heading)
    head = ROW.sub("", old).rstrip("\n")
    return page.replace(old, f"{head}\n{''.join(rows)}")


def test_the_page_is_up_to_date(update: bool) -> None:
    """`pytest --update` writes it."""
    page = PAGE.read_text(encoding="utf-8")
    if update:
        PAGE.write_text(expected(page), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == expected(page)


def test_every_promised_code_is_built_as_promised() -> None:
    for code, name, group, _ in promised(PAGE.read_text(encoding="utf-8")).values():
        assert (name, group) == (RULE[code].name, RULE[code].group.value)


@pytest.mark.parametrize(
    "program",
    PROGRAM.findall(section(PAGE.read_text(encoding="utf-8"), WITHOUT)),
    ids=lambda text: text.split("\n")[0],
)
def test_mistakes_without_a_rule_are_not_reported(program: str, tmp_path: Path) -> None:
    files = {path: text.encode() for path, text in files_of(program).items()}
    assert not lint(files, tmp_path).findings
