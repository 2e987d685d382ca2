"""Judging: the segments with candidates are shown to the rules that have them, each node once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from amplint import Finding, Group, Rule, Source, Unrun, nodes
from amplint.analyses.candidates import FileCandidates
from amplint.core.text import Text
from amplint.run.judge import JudgedFile, judge
from tests.unit.test_source import about


def rule(code: str) -> Rule:
    unrun = Unrun("made up", "nowhere")
    return Rule(code, "Doc.", Group.PRECISION, "0.1", unrun, nodes("call"), name=code.lower())


def judged(text: str, rows: Mapping[int, frozenset[str]], *rules: Rule) -> JudgedFile:
    return judge("a.py", Text(text), about(text), FileCandidates(rows), rules)


def finds_calls(code: str) -> Rule:
    found = rule(code)

    @found.check
    def check(call: cst.Call, src: Source) -> Iterator[Finding]:
        yield src.finding(found, call, src.text(call))

    return found


FIRST, BOTH = frozenset({"AMP900"}), frozenset({"AMP900", "AMP901"})


def test_a_rule_sees_each_node_of_its_kinds_once_in_the_units_with_its_candidates() -> None:
    text = "a()\nclass A(b()):\n    a(c())\n    def f(self): b()\nif x: a(), b()\n"
    rows = {5: FIRST, 1: FIRST, 3: BOTH}
    result = judged(text, rows, finds_calls("AMP900"), finds_calls("AMP901"))
    seen = {
        code: [finding.message for finding in result.findings if finding.code == code]
        for code in ("AMP900", "AMP901")
    }
    assert seen == {"AMP900": ["a()", "a(c())", "c()", "a()", "b()"], "AMP901": ["a(c())", "c()"]}
    assert not result.problems and not result.notices


def test_candidates_on_several_lines_of_a_unit_show_it_once() -> None:
    result = judged("def f():\n    a()\n    b()\n", {2: FIRST, 3: FIRST}, finds_calls("AMP900"))
    assert [finding.message for finding in result.findings] == ["a()", "b()"]


def test_a_rule_may_ask_for_several_kinds_or_all_of_a_family() -> None:
    several = rule("AMP900")
    seen: list[str] = []

    @several.check
    def check(node: cst.BaseSmallStatement | cst.If, _: Source) -> Iterator[Finding]:
        seen.append(type(node).__name__)
        yield from ()

    judged("if a: pass\na = 1\n", {1: FIRST, 2: FIRST}, several)
    assert seen == ["If", "Pass", "Assign"]


def test_a_rule_that_raises_hides_nothing() -> None:
    broken = rule("AMP900")

    @broken.check
    def check(call: cst.Call, src: Source) -> Iterator[Finding]:
        yield src.finding(broken, call, "found")
        raise KeyError(src.text(call))

    rows = {2: BOTH, 3: BOTH}
    result = judged("x\na(1)\na(2)\n", rows, broken, finds_calls("AMP901"))
    assert [(code, text.partition(":")[0]) for code, text in result.problems] == [
        ("AMP900", "line 2"),
        ("AMP900", "line 3"),
    ]
    assert all("KeyError: 'a(" in text for _, text in result.problems)
    assert [finding.code for finding in result.findings] == ["AMP900", "AMP901"] * 2


def test_a_unit_that_libcst_refuses_is_told() -> None:
    rows = {1: FIRST, 2: FIRST}
    result = judged("class A(x=1, *a()): pass\na()\n", rows, finds_calls("AMP900"))
    assert [finding.message for finding in result.findings] == ["a()"]
    assert result.notices == ("line 1 ff. not checked: LibCST cannot read it",)
