"""Operations of value graphs are named by their constants, so that mypy finds one misspelt."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.helpers import ROOT, tree_of


def compared_with_operations(tree: ast.AST) -> Iterator[ast.AST]:
    """What stands beside `node.op` in comparisons, and in the patterns of a match on it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Attribute) and side.attr == "op" for side in sides):
                yield from sides
        elif isinstance(node, ast.Match) and getattr(node.subject, "attr", "") == "op":
            yield from (case.pattern for case in node.cases)


def strings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


ROOMS = [f"amplint/{room}/**/*.py" for room in ("ir", "inference", "gradscaler", "analyses", "run")]


@pytest.mark.parametrize("files", [*ROOMS, "rules/*/_[a-z]*.py"])
def test_no_operation_is_compared_with_a_string(files: str) -> None:
    """A rule compares those of a View, and so does what rules share; an analysis beside a rule
    has nodes of graphs."""
    found = [
        (path.name, text)
        for path in sorted(ROOT.glob(files))
        if files in ROOMS or "from amplint.ir" in path.read_text(encoding="utf-8")
        for side in compared_with_operations(tree_of(path))
        for text in strings(side)
    ]
    assert found == []
