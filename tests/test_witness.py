"""The claims of the rules, held against torch: the bad program of each is run, and the fixed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amplint.rule import Differs, Dtype, Raises, Rule, Same, Syncs, Unrun, Warns
from tests.helpers import FIXTURES, expectations, fix, fixture_rules, modules, write
from tests.witness import Server

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def source_of_run(text: str) -> str | None:
    """The text of the module's `run`."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == "run":
            return ast.get_source_segment(text, node)
    return None


@pytest.mark.parametrize("rule", fixture_rules(), ids=lambda rule: rule.name)
def test_run_shows_the_mistake(rule: Rule) -> None:
    """`run` is the rule's example: it holds a finding of the rule."""
    text = (FIXTURES / rule.name.replace("-", "_") / "bad.py").read_text(encoding="utf-8")
    run = next(
        n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "run"
    )
    assert run.end_lineno is not None
    rows = {row for row, code in expectations(text) if code == rule.code}
    assert rows & set(range(run.lineno, run.end_lineno + 1))


@pytest.mark.parametrize("rule", fixture_rules(), ids=lambda rule: rule.name)
def test_witness(rule: Rule, server: Server, tmp_path: Path) -> None:
    """What the rule's witness demands holds for `run` of bad.py, and not when it is fixed.

    The fixed program is bad.py with all its fixes; where none of them touches `run`, good.py.
    """
    if isinstance(rule.witness, Unrun):
        pytest.skip(f"not run: {rule.witness.reason} ({rule.witness.source})")
    folder = rule.name.replace("-", "_")
    before = modules(folder)
    after = fix(before, tmp_path / "fixing", unsafe=True)
    bad_text, fixed_text = before["bad.py"].decode(), after["bad.py"].decode()
    changed = source_of_run(bad_text) != source_of_run(fixed_text)
    bad = server.run(write(before, tmp_path / "bad"), "bad")
    fixed = server.run(write(after, tmp_path / "fixed"), "bad" if changed else "good")
    assert fixed["error"] is None, fixed["error"]
    check(rule.witness, bad, fixed)


def check(witness: object, bad: dict[str, Any], fixed: dict[str, Any]) -> None:
    """Compare what was seen of the bad and of the fixed program with what the rule promises."""
    if isinstance(witness, Raises):
        assert bad["error"] is not None and witness.text in bad["error"]
        return
    assert bad["error"] is None, bad["error"]
    if isinstance(witness, Dtype):
        assert (bad["result"]["dtype"], fixed["result"]["dtype"]) == (witness.bad, witness.good)
    elif isinstance(witness, Same):
        assert bad["result"] == fixed["result"]
    elif isinstance(witness, Differs):
        assert distance(bad["result"], fixed["result"]) > witness.rtol
    elif isinstance(witness, Syncs):
        assert bad["reads"] >= witness.before > witness.after >= fixed["reads"]
    elif isinstance(witness, Warns):
        assert any(witness.text in text for text in bad["warnings"])
        assert not any(witness.text in text for text in fixed["warnings"])
    else:
        raise AssertionError(f"nothing here knows how to check {witness!r}")


def distance(one: Any, other: Any) -> float:
    """How far two results are apart, relative to the second, in the 2-norm."""
    a, b = numbers(one), numbers(other)
    assert len(a) == len(b)
    gap = sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5
    size = sum(y**2 for y in b) ** 0.5
    return float(gap / size)


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return numbers(value["values"]) if "values" in value else numbers(list(value.values()))
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [float(value)]
