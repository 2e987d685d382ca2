"""Judging: candidates are shown to the checks that they are for, each node once, in the order of
the segments that they are in."""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Group, Rule, Unrun, View, calls, nodes
from amplint.facts.program import Program
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.rule.search import CandidateSearch
from amplint.run.judge import JudgedFile, judge
from amplint.util.text import Text


def rule(code: str) -> Rule:
    return Rule(
        code, "Doc.", Group.PRECISION, "0.1", Unrun("made up", "nowhere"), name=code.lower()
    )


def judged(text: str, *rules: Rule) -> JudgedFile:
    """Every node that meets the condition of a check is shown to it."""
    files = Files({"a.py": File("a.py", text)})
    program = Program(files)
    found = CandidateSearch(files, program.facts, rules).of("a.py")
    return judge("a.py", Text(text), program.about("a.py"), found, rules)


def finds_calls(code: str, *names: str) -> Rule:
    """A rule that finds the calls of these, or else all."""
    found = rule(code)

    @found.on(calls(*names) if names else nodes("call"))
    def check(call: View) -> Iterator[Finding]:
        yield call.finding(call.text)

    return found


def test_a_check_is_shown_each_of_its_candidates_once_in_the_order_of_their_segments() -> None:
    text = "a()\nclass A(b()):\n    a(len(c))\n    def f(self): b()\nif x: a(), b()\n"
    result = judged(text, finds_calls("AMP900"), finds_calls("AMP901", "builtins.len"))
    seen = {
        code: [finding.message for finding in result.findings if finding.code == code]
        for code in ("AMP900", "AMP901")
    }
    assert seen == {
        "AMP900": ["a()", "b()", "len(c)", "a(len(c))", "b()", "a()", "b()"],
        "AMP901": ["len(c)"],
    }
    assert not result.problems and not result.notices


def test_candidates_on_several_lines_of_a_unit_are_shown_once() -> None:
    result = judged("def f():\n    a()\n    b()\n", finds_calls("AMP900"))
    assert [finding.message for finding in result.findings] == ["a()", "b()"]


def test_a_check_may_be_about_several_operations() -> None:
    several = rule("AMP900")
    seen: list[str] = []

    @several.on(nodes("assert", "return") | nodes("test"))
    def check(at: View) -> Iterator[Finding]:
        seen.append(at.text.strip())
        yield from ()

    judged("def f(a):\n    if a: pass\n    a = 1\n    assert b\n    return a\n", several)
    assert sorted(seen) == ["a", "assert b", "b", "return a"]


def test_a_rule_that_raises_hides_nothing() -> None:
    broken = rule("AMP900")

    @broken.on(nodes("call"))
    def check(call: View) -> Iterator[Finding]:
        yield call.finding("found")
        raise KeyError(call.text)

    result = judged("x\na(1)\na(2)\n", broken, finds_calls("AMP901"))
    assert [(code, text.partition(":")[0]) for code, text in result.problems] == [
        ("AMP900", "line 2"),
        ("AMP900", "line 3"),
    ]
    assert all("KeyError: 'a(" in text for _, text in result.problems)
    assert [finding.code for finding in result.findings] == ["AMP900", "AMP901"] * 2


def test_a_unit_that_libcst_refuses_is_told_once() -> None:
    result = judged("class A(x=1, *a(b())): pass\na()\n", finds_calls("AMP900"))
    assert [finding.message for finding in result.findings] == ["a()"]
    assert result.notices == ("line 1 ff. not checked: LibCST cannot read it",)
