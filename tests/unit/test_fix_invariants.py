"""The benchmark of what all fixes keep, on small projects with rules whose fixes do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from amplint.core.rule import Rule
from amplint.output.fixing import UNSAFE, Rounds
from benchmarks.fix_invariants import Invariants, Tried, drawn, invariants_of, report
from tests.unit.test_fixing import on_call, rename, request

NOTHING = Tried(0, (), ())


def found(root: Path, rules: Iterable[Rule], text: str, most: int = 9) -> Invariants:
    return invariants_of(request(root, rules, a=text), most, seed=0)


def test_fixes_that_keep_both(tmp_path: Path) -> None:
    kept = found(tmp_path, [rename("AMP900", "old", "next")], "old(1)\nold(2)\n")
    assert kept.hold and kept.alone == {}
    assert kept.fixes == kept.tried == {"AMP900": 2}
    assert kept.safe == kept.every == Tried(2, (), ())


def test_a_fix_that_leaves_an_unbound_name(tmp_path: Path) -> None:
    text = "def f(steps):\n    old(1)\n    for step in steps:\n        old(2)\n"
    kept = found(tmp_path, [rename("AMP900", "old", "step.run")], text)
    said = ("a.py:2: AMP900 not fixed: `step` may not be bound there",)
    assert not kept.hold
    assert kept.alone == {"a.py:2 AMP900": Tried(0, said, ())}
    assert kept.safe == kept.every == Tried(1, said, ())


def test_a_fix_that_brings_a_mistake(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "next"), on_call("AMP901", "next(2)")]
    kept = found(tmp_path, rules, "old(1)\nold(2)\n")
    said = ("AMP901 amp901 (a.py:2: `next(2)` is wrong)",)
    assert not kept.hold
    assert kept.alone == {"a.py:2 AMP900": Tried(1, (), said)}
    assert kept.safe == kept.every == Tried(2, (), said)
    assert f"  a.py:2 AMP900: {said[0]}" in report("a", kept).splitlines()


def test_fixes_that_bring_a_mistake_together_alone(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "next"), on_call("AMP901", "next(\n    next(1)\n)")]
    kept = found(tmp_path, rules, "old(\n    old(1)\n)\n")
    assert kept.alone == {} and not kept.hold
    assert kept.every.mistakes


@pytest.mark.parametrize("seed", range(3))
def test_each_rule_has_one_before_another_has_two(tmp_path: Path, seed: int) -> None:
    rules = [rename("AMP900", "old", "next"), rename("AMP901", "odd", "next")]
    text = "".join(f"old({number})\n" for number in range(9)) + "odd(1)\n"
    rounds = Rounds(request(tmp_path, rules, a=text), UNSAFE)
    named = rounds.named(rounds.first)
    for most, codes in (2, {"AMP900": 1, "AMP901": 1}), (3, {"AMP900": 2, "AMP901": 1}):
        chosen = drawn(named, most, seed)
        assert Counter(each.finding.code for each in chosen) == codes
        assert chosen == drawn(named, most, seed)
    assert len(drawn(named, 99, seed)) == 10
