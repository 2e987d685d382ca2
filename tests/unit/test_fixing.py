"""Fixes are chosen, applied, repeated and written; all else stays as it was, to the byte."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint import Edit, Finding, Fix, Group, Rule, Safety, Source, Unrun, View
from amplint.findings.finding import edited
from amplint.fix import single_round
from amplint.fix.applying import SAFE, UNSAFE, apply_fixes
from amplint.fix.new_mistakes import Edited, new_mistakes
from amplint.fix.project_fixes import fix_project, write_project
from amplint.fix.rounds import MAX_ROUNDS
from amplint.project.config import Settings
from amplint.project.discover import Selection
from amplint.rule.conditions import nodes
from amplint.run import engine
from amplint.run.cache import Cache
from amplint.run.request import AnalysisResult, Request
from amplint.util.positions import Position, Span
from amplint.util.text import Text

# ------------------------------------------------------------------------------- one text


def finding(*edits: Edit, safety: Safety = Safety.SAFE, message: str = "it is so") -> Finding:
    span = Span(Position(1, 1), Position(1, 2))
    proven = ("it is so",) if safety is Safety.SAFE else ()
    fix = Fix("Do it", edits, safety, proven)
    return Finding("AMP900", "fake", Group.PRECISION, "a.py", span, message, fix=fix)


@pytest.mark.parametrize(
    ("safety", "proven"),
    [(Safety.SAFE, ()), (Safety.UNSAFE, ("it is so",)), (Safety.SUGGEST, ("it is so",))],
)
def test_a_safe_fix_names_what_was_proven_and_no_other_does(
    safety: Safety, proven: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match="names the conditions"):
        Fix("Do it", (), safety, proven)


def test_a_fix_is_safe_where_all_conditions_hold() -> None:
    proven = Fix.safe_if("Do it", (), {"it is so": True, "it is always so": True})
    assert (proven.safety, proven.proven) == (Safety.SAFE, ("it is so", "it is always so"))
    assert Fix.safe_if("Do it", (), {"it is so": True, "it is always so": False}) == (
        Fix("Do it", (), Safety.UNSAFE)
    )
    assert proven.demoted() == Fix("Do it", (), Safety.UNSAFE)


TEXT = "0123456789"


@pytest.mark.parametrize(
    ("fixes", "expected", "applied"),
    [
        pytest.param([[(2, 4, "ab")], [(6, 7, "")]], "01ab45789", [0, 1], id="apart"),
        pytest.param([[(6, 7, "")], [(2, 4, "ab")]], "01ab45789", [1, 0], id="by position"),
        pytest.param([[(2, 5, "a")], [(4, 6, "b")]], "01a56789", [0], id="overlapping"),
        pytest.param([[(2, 4, "a")], [(4, 6, "b")]], "01a456789", [0], id="side by side"),
        pytest.param([[(2, 4, "a")], [(4, 4, "b")]], "01a456789", [0], id="insertion beside"),
        pytest.param(
            [[(4, 4, "a")], [(4, 4, "b")]], "0123a456789", [0], id="insertions at a place"
        ),
        pytest.param([[(4, 4, "a")], [(4, 4, "a")]], "0123a456789", [0, 1], id="the same one once"),
        pytest.param(
            [[(0, 0, "i"), (5, 6, "a")], [(0, 0, "i"), (8, 9, "b")]],
            "i01234a67b9",
            [0, 1],
            id="two that need one import",
        ),
        pytest.param([[(3, 5, "a")], [(3, 5, "a")]], "012a56789", [0], id="the same replacement"),
        pytest.param(
            [[(1, 2, "a"), (8, 9, "b")], [(5, 6, "c"), (8, 9, "d")], [(6, 7, "e")]],
            "0a2345e7b9",
            [0, 2],
            id="all of a fix or none",
        ),
        pytest.param([[(2, 2, "a"), (2, 4, "b"), (4, 4, "c")]], "01abc456789", [0], id="in order"),
        pytest.param([[(2, 4, "a"), (3, 5, "b")]], TEXT, [], id="a fix at odds with itself"),
        pytest.param([[]], TEXT, [], id="no edits"),
    ],
)
def test_choosing(
    fixes: list[list[tuple[int, int, str]]], expected: str, applied: list[int]
) -> None:
    findings = [finding(*(Edit(*edit) for edit in edits)) for edits in fixes]
    fixed = apply_fixes(TEXT, findings, SAFE)
    assert fixed.text == expected
    assert [next(i for i, f in enumerate(findings) if f is g) for g in fixed.applied] == applied
    assert len(fixed.applied) + len(fixed.skipped) == sum(1 for edits in fixes if edits)


@pytest.mark.parametrize(
    ("allow", "expected"), [(SAFE, "a123456789"), (UNSAFE, "a12b456789"), (frozenset(), TEXT)]
)
def test_only_what_is_allowed_is_applied(allow: frozenset[Safety], expected: str) -> None:
    findings = [
        finding(Edit(0, 1, "a"), safety=Safety.SAFE),
        finding(Edit(3, 4, "b"), safety=Safety.UNSAFE),
        finding(Edit(6, 7, "c"), safety=Safety.SUGGEST),
        replace(finding(), fix=None),
    ]
    assert apply_fixes(TEXT, findings, allow).text == expected


EDITS = st.builds(
    lambda start, length, text: Edit(start, start + length, text),
    st.integers(0, 20),
    st.integers(0, 4),
    st.text("ab\n", max_size=3),
)


def touch(one: Finding, other: Finding) -> bool:
    """Whether edits of two fixes overlap or stand side by side, but for insertions they share."""
    return any(
        a.start <= b.end and b.start <= a.end and not (a == b and a.start == a.end)
        for a in edits_of(one)
        for b in edits_of(other)
    )


def edits_of(found: Finding) -> list[Edit]:
    return sorted(found.fix.edits) if found.fix else []


@given(st.lists(st.lists(EDITS, max_size=3, unique=True), max_size=6))
def test_as_many_fixes_as_do_not_touch_are_applied_whole(fixes: list[list[Edit]]) -> None:
    text = expected = "abcdefghijklmnopqrstuvwx"
    findings = [finding(*edits) for edits in fixes if not touching(edits)]
    fixed = apply_fixes(text, findings, SAFE)
    for edit in sorted({edit for each in fixed.applied for edit in edits_of(each)}, reverse=True):
        expected = expected[: edit.start] + edit.text + expected[edit.end :]
    assert fixed.text == expected
    for one, other in itertools.combinations(fixed.applied, 2):
        assert not touch(one, other)
    for skipped in fixed.skipped:
        assert any(touch(skipped, each) for each in fixed.applied)


def touching(edits: list[Edit]) -> bool:
    return any(one.end >= other.start for one, other in itertools.pairwise(sorted(edits)))


def test_edits_at_one_place_come_in_their_order() -> None:
    assert edited("x", [Edit(0, 1, "y"), Edit(0, 0, "a"), Edit(0, 0, "b")]) == "aby"


# ------------------------------------------------------------------------------- fake rules


def rule(code: str) -> Rule:
    unrun = Unrun("made up", "nowhere")
    name = code.lower()
    return Rule(code, "Doc.", Group.PRECISION, "0.1", unrun, safe_if=("it is so",), name=name)


Builder = Callable[[cst.Call, Source], Sequence[Edit | None]]


def on_calls(code: str, name: str, build: Builder, safety: Safety = Safety.SAFE) -> Rule:
    """A rule that finds the calls of a function and fixes them."""
    made = rule(code)

    @made.on(nodes("call"))
    def check(call: View) -> Iterator[Finding]:
        if call.called.text == name:
            edits = [edit for edit in build(call.cst, call.source) if edit is not None]
            proven = ("it is so",) if safety is Safety.SAFE else ()
            fix = Fix(f"Mend {name}", tuple(edits), safety, proven)
            yield call.finding(f"`{name}` is wrong", fix=fix)

    return made


def rename(code: str, old: str, new: str, safety: Safety = Safety.SAFE) -> Rule:
    return on_calls(code, old, lambda call, src: [src.edits.replace(call.func, new)], safety)


def spelled(code: str, old: str, new: str) -> Rule:
    def build(call: cst.Call, src: Source) -> Sequence[Edit | None]:
        name = src.imports.spell(new)
        return [*name.edits, src.edits.replace(call.func, name.text)]

    return on_calls(code, old, build)


def request(directory: Path, rules: Sequence[Rule], **files: bytes | str) -> Request:
    paths = []
    for stem, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        path = directory / f"{stem}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        paths.append(f"{stem}.py")
    project = Selection(directory, tuple(sorted(paths)), frozenset(paths))
    return Request(project, Settings(directory, select=("ALL",)), rules)


def fixed_text(directory: Path, rules: Sequence[Rule], text: str, unsafe: bool = False) -> str:
    """What becomes of a file; it settles, and fixing it again changes nothing."""
    outcome = fix_project(request(directory, rules, a=text), unsafe)
    assert not outcome.outcome.problems
    result = outcome.after.get("a.py", text)
    assert fix_project(request(directory, rules, a=result), unsafe).after == {}
    return result


# ------------------------------------------------------------------------------- rounds


def test_safe_fixes_are_applied_and_unsafe_ones_on_demand(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "next"), rename("AMP901", "bad", "hash", Safety.UNSAFE)]
    text = "old(1); bad(2)  # é\r\n"
    assert fixed_text(tmp_path, rules, text) == "next(1); bad(2)  # é\r\n"
    assert fixed_text(tmp_path, rules, text, unsafe=True) == "next(1); hash(2)  # é\r\n"


def test_of_two_that_overlap_the_other_has_its_round_later(tmp_path: Path) -> None:
    rules = [
        on_calls(
            "AMP900", "outer", lambda call, src: [src.edits.replace(call, src.text(call.args[0]))]
        ),
        rename("AMP901", "inner", "id"),
    ]
    assert fixed_text(tmp_path, rules, "x = outer(inner(1))\n") == "x = id(1)\n"


def test_an_import_that_two_fixes_need_is_added_once(tmp_path: Path) -> None:
    rules = [spelled("AMP900", "old", "lib.new"), spelled("AMP901", "bad", "lib.good")]
    assert fixed_text(tmp_path, rules, "import os\n\nold(1)\nbad(2)\n") == (
        "import os\nimport lib\n\nlib.new(1)\nlib.good(2)\n"
    )


def test_an_import_that_fixes_leave_unused_goes_with_the_last_use(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "lib.new"), rename("AMP901", "bad", "lib.x", Safety.UNSAFE)]
    text = "import lib\nfrom lib import old, bad, kept\nold(1), old(2)\nbad(3)\n"
    assert fixed_text(tmp_path, rules, text) == (
        "import lib\nfrom lib import bad, kept\nlib.new(1), lib.new(2)\nbad(3)\n"
    )
    assert fixed_text(tmp_path, rules, text, unsafe=True) == (
        "import lib\nfrom lib import kept\nlib.new(1), lib.new(2)\nlib.x(3)\n"
    )


def test_an_import_that_others_may_take_stays(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "lib.new")]
    text = "import lib\nfrom lib import old\nold(1)\n"
    kept = "import lib\nfrom lib import old\nlib.new(1)\n"
    files = {"utils": text, "user": "from utils import old\n", "__init__": text, "alone": text}
    after = fix_project(request(tmp_path, rules, **files)).after
    assert after == {
        "utils.py": kept, "__init__.py": kept, "alone.py": "import lib\nlib.new(1)\n"
    }  # fmt: skip


def test_an_import_that_others_take_by_a_star_stays_if_they_use_it(tmp_path: Path) -> None:
    """Be it three files away; a star whose user does not read the name takes nothing."""
    rules = [rename("AMP900", "old", "lib.new")]
    text = "import lib\nfrom lib import old\nold(1)\n"
    kept, gone = text.replace("old(1)", "lib.new(1)"), "import lib\nlib.new(1)\n"
    star = "from {} import *\n"
    listed = star.format("{}") + "__all__ = ['Trainer']\n"
    files = {
        "kept/__init__": star.format(".inner"), "kept/inner": text,
        "listed/__init__": listed.format(".part"), "listed/part": text,
        "asked/__init__": listed.format(".piece"), "asked/piece": text,
        "asking": "from asked import old\n",
        "reader": star.format("utils") + "x = [old]\n", "utils": text,
        "last": star.format("middle") + "x = [old]\n", "middle": star.format("first"),
        "first": text,
        "other": star.format("alone") + "x = new  # old\n", "alone": text,
    }  # fmt: skip
    after = fix_project(request(tmp_path, rules, **files)).after
    assert after == {
        "kept/inner.py": kept, "listed/part.py": gone, "asked/piece.py": kept,
        "utils.py": kept, "first.py": kept, "alone.py": gone,
    }  # fmt: skip


def test_an_import_of_a_function_goes_also_where_those_of_the_file_are_for_others(
    tmp_path: Path,
) -> None:
    rules = [rename("AMP900", "old", "lib.new")]
    text = (
        "import lib\nfrom lib import old\nold(1)\ndef f():\n    from lib import old\n    old(2)\n"
    )
    after = fix_project(request(tmp_path, rules, __init__=text)).after
    assert after == {
        "__init__.py": "import lib\nfrom lib import old\nlib.new(1)\ndef f():\n    lib.new(2)\n"
    }


def test_a_rule_that_raises_does_not_keep_others_from_fixing(tmp_path: Path) -> None:
    broken = rule("AMP902")

    @broken.on(nodes("call"))
    def check(_: View) -> Iterator[Finding]:
        raise ValueError("no")
        yield

    outcome = fix_project(
        request(tmp_path, [broken, rename("AMP900", "old", "next")], a="old(1)\n")
    )
    assert outcome.after == {"a.py": "next(1)\n"}


def test_a_fix_that_would_not_parse_is_left_out_and_told(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "next"), rename("AMP901", "bad", "no good")]
    outcome = fix_project(request(tmp_path, rules, a="bad(0)\nold(1)\n"))
    assert outcome.after == {"a.py": "bad(0)\nnext(1)\n"}
    assert outcome.outcome.problems == (
        "a.py:1: AMP901 not fixed: the result would not be valid Python",
    )
    assert [each.code for each in outcome.outcome.findings] == ["AMP901"]


def test_what_only_the_compiler_refuses_is_left_out_too(tmp_path: Path) -> None:
    add = on_calls("AMP900", "f", lambda call, src: [src.edits.add_argument(call, "k=1")])
    outcome = fix_project(request(tmp_path, [add], a="f(k=2)\n"))
    assert outcome.after == {} and len(outcome.outcome.problems) == 1


def test_a_file_that_only_the_compiler_refused_before_can_be_fixed(tmp_path: Path) -> None:
    text = "return old(1)\n"
    assert fixed_text(tmp_path, [rename("AMP900", "old", "next")], text) == "return next(1)\n"


def test_fixes_that_clash_only_in_effect_take_turns(tmp_path: Path) -> None:
    def remove(call: cst.Call, src: Source) -> Sequence[Edit | None]:
        statement = src.statement(call)
        return [src.edits.remove_statement(statement)] if statement else []

    rules = [on_calls("AMP900", "old", remove), on_calls("AMP901", "bad", remove)]
    # Each may go; without both, the block would be empty.
    assert fixed_text(tmp_path, rules, "if x:\n\n  old()\n\n  bad()\n") == "if x:\n\n\n  pass\n"


def test_a_file_that_does_not_settle_stays_as_it_was(tmp_path: Path) -> None:
    grow = on_calls("AMP900", "f", lambda call, src: [src.edits.insert_argument(call, "0")])
    rules = [grow, rename("AMP901", "old", "next")]
    outcome = fix_project(request(tmp_path, rules, a="f()\n", b="old()\n"))
    assert outcome.after == {"b.py": "next()\n"}
    assert outcome.outcome.problems == (
        f"a.py: not fixed: after {MAX_ROUNDS} rounds there was more to fix",
    )
    assert [(each.path, each.code) for each in outcome.outcome.findings] == [("a.py", "AMP900")]


def test_a_fix_that_the_encoding_cannot_hold_is_refused(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "ne\u03c9"), rename("AMP901", "bad", "hash")]
    latin = "# coding: latin-1\nold('é'); bad()\n".encode("latin-1")
    outcome = fix_project(request(tmp_path, rules, a=latin, b="ne\u03c9 = old\nold()\n"))
    assert outcome.after == {
        "a.py": "# coding: latin-1\nold('é'); hash()\n",
        "b.py": "neω = old\nneω()\n",
    }
    assert outcome.outcome.problems == (
        "a.py:2: AMP900 not fixed: the new text cannot be written in iso-8859-1",
    )


def test_what_is_left_is_reported(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "next"), rename("AMP901", "bad", "hash", Safety.SUGGEST)]
    outcome = fix_project(request(tmp_path, rules, a="old()\nbad()\n"), unsafe=True)
    assert [each.code for each in outcome.applied] == ["AMP900"]
    assert [each.code for each in outcome.outcome.findings] == ["AMP901"]


# ------------------------------------------------------------------------------- new mistakes


def on_call(code: str, written: str) -> Rule:
    """A rule that finds a call by its text, and has no fix."""
    made = rule(code)

    @made.on(nodes("call"))
    def check(call: View) -> Iterator[Finding]:
        if call.text == written:
            yield call.finding(f"`{written}` is wrong")

    return made


@pytest.mark.parametrize("wrong", range(5))
def test_a_fix_that_brings_a_mistake_is_withheld_and_named(tmp_path: Path, wrong: int) -> None:
    rules = [rename("AMP900", "old", "next"), on_call("AMP901", f"next({wrong})")]
    text = "".join(f"old({number})\n" for number in range(5))
    outcome = fix_project(request(tmp_path, rules, a=text))
    assert outcome.after == {"a.py": text.replace("old", "next").replace(
        f"next({wrong})", f"old({wrong})"
    )}  # fmt: skip
    assert outcome.withheld == (
        f"a.py:{wrong + 1}: AMP900 not fixed: that would introduce AMP901 amp901 "
        f"(a.py:{wrong + 1}: `next({wrong})` is wrong)",
    )
    assert [each.code for each in outcome.outcome.findings] == ["AMP900"]
    assert outcome.fixed == 4 and outcome.new == 0


def test_a_fix_goes_with_what_it_makes_room_for(tmp_path: Path) -> None:
    rules = [
        rename("AMP900", "old", "next"),
        rename("AMP901", "next", "hash"),
        on_call("AMP902", "hash(1)"),
    ]
    outcome = fix_project(request(tmp_path, rules, a="old(1)\nold(2)\n"))
    assert outcome.after == {"a.py": "old(1)\nhash(2)\n"}
    assert [said.partition(" not fixed")[0] for said in outcome.withheld] == ["a.py:1: AMP900"]


def test_of_two_fixes_that_are_wrong_together_one_is_made(tmp_path: Path) -> None:
    both = rule("AMP901")

    @both.on(nodes("call"))
    def check(call: View) -> Iterator[Finding]:
        if call.text == "next(\n    next(1), 2)":
            yield call.finding("both are wrong")

    rules = [rename("AMP900", "old", "next"), both]
    outcome = fix_project(request(tmp_path, rules, a="old(\n    old(1), 2)\nold(3)\n"))
    assert outcome.after == {"a.py": "next(\n    old(1), 2)\nnext(3)\n"}
    assert len(outcome.withheld) == 1


def test_a_mistake_is_seen_that_was_not_asked_for(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "next"), on_call("AMP901", "next(1)")]
    asked = request(tmp_path, rules, a="old(1)\nold(2)\n")
    asked = replace(asked, settings=Settings(tmp_path, select=("AMP900",)))
    outcome = fix_project(asked)
    assert outcome.after == {"a.py": "old(1)\nnext(2)\n"}
    assert {each.code for each in outcome.outcome.findings} == {"AMP900"}


def test_a_fix_that_uses_a_name_that_may_be_unbound_is_left_out(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "step.run")]
    text = "def f(steps):\n    old(1)\n    for step in steps:\n        old(2)\n"
    outcome = fix_project(request(tmp_path, rules, a=text))
    assert outcome.after == {"a.py": text.replace("old(2)", "step.run(2)")}
    assert outcome.outcome.problems == ("a.py:2: AMP900 not fixed: `step` may not be bound there",)


def placed(code: str, row: int, scope: str = "", group: Group = Group.PRECISION) -> Finding:
    span = Span(Position(row, 1), Position(row, 2))
    return Finding(code, code.lower(), group, "a.py", span, "it is so", scope)


BEFORE, AFTER = "a\nb\nc\n", "new\na\nB\nB\nc\n"  # b becomes two lines, and one is inserted


@pytest.mark.parametrize(
    ("before", "after", "fixed", "new"),
    [
        pytest.param([placed("X1", 3)], [placed("X1", 5)], [], [], id="a line that has stayed"),
        pytest.param([placed("X1", 2)], [placed("X1", 4)], [], [], id="lines for a line"),
        pytest.param([], [placed("X1", 1)], [], [0], id="an inserted line"),
        pytest.param([placed("X1", 3)], [placed("X2", 5)], [], [0], id="another code"),
        pytest.param(
            [placed("X1", 2)], [placed("X2", 3)], [placed("X1", 2)], [0], id="one for another"
        ),
        pytest.param(
            [placed("X1", 3)], [placed("X1", 5), placed("X1", 5)], [], [1], id="twice"
        ),
        pytest.param([placed("X1", 1, "f")], [placed("X1", 5, "f")], [], [], id="moved"),
        pytest.param([placed("X1", 1, "f")], [placed("X1", 5, "g")], [], [0], id="moved too far"),
        pytest.param(
            [placed("X1", 1, "f")], [placed("X1", 5, "f")], [placed("X1", 1, "f")], [0],
            id="elsewhere once it was fixed",
        ),
        pytest.param(
            [], [placed("X1", 5, group=Group.PERFORMANCE)], [], [], id="of no other group"
        ),
        pytest.param([placed("AMP900", 2)], [placed("AMP101", 3)], [], [], id="come to light"),
    ],
)  # fmt: skip
def test_what_is_new(
    before: list[Finding], after: list[Finding], fixed: list[Finding], new: list[int]
) -> None:
    texts = Edited({"a.py": Text(BEFORE)}, {"a.py": AFTER})
    rules = [replace(rule("AMP900"), supersedes=("AMP101",))]
    found = new_mistakes(before, after, fixed, texts, rules)
    assert found == [after[number] for number in new]


def test_what_is_found_after_fixes_is_known_once_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [rename("AMP900", "old", "next"), rename("AMP901", "next", "hash")]
    asked = request(tmp_path, rules, a="old(1)\nbad(2)\n")
    asked = replace(asked, cache=Cache(tmp_path / "cache"))
    engine.run(asked)
    analysed, count = engine.analysed, itertools.count()

    def counted(*given: Any) -> AnalysisResult:
        next(count)
        return analysed(*given)

    monkeypatch.setattr(engine, "analysed", counted)
    first = fix_project(asked)
    assert next(count) == 2  # a round each
    fixed = fix_project(asked)
    assert fixed.after == first.after == {"a.py": "hash(1)\nbad(2)\n"}
    assert write_project(asked, fixed)[1] == ()
    assert engine.run(asked).findings == first.outcome.findings
    assert next(count) == 3  # nothing was analysed since


def test_fixes_are_made_once_for_the_same_files_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fix` shows what `fix --apply` writes: what the one has come to, the other takes."""
    rules = [rename("AMP900", "old", "hash"), rename("AMP901", "bad", "id", Safety.UNSAFE)]
    asked = request(tmp_path, rules, a="old(1)\nbad(2)\n")
    asked = replace(asked, cache=Cache(tmp_path / "cache"))
    rounds, count = single_round.fix_round, itertools.count()

    def counted(*given: Any) -> single_round.RoundOfFixes:
        next(count)
        return rounds(*given)

    monkeypatch.setattr("amplint.fix.rounds.fix_round", counted)
    first = fix_project(asked)
    assert next(count) == 2
    again = fix_project(asked)
    assert (again.after, again.applied, again.rest) == (first.after, first.applied, first.rest)
    assert next(count) == 3  # none was made
    assert fix_project(asked, unsafe=True).after == {"a.py": "hash(1)\nid(2)\n"}
    (tmp_path / "a.py").write_text("old(3)\n")
    assert fix_project(asked).after == {"a.py": "hash(3)\n"}
    assert next(count) == 8  # two for each of the two


@pytest.mark.parametrize(
    ("width", "said"),
    [(23, ("a.py: 1 line longer than 23 characters: format the file",)), (24, ())],
)
def test_lines_that_a_fix_makes_too_long_for_a_formatter_are_named(
    width: int, said: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "setup.cfg").write_text(f"[flake8]\nmax-line-length = {width}\n")
    text = "x = 'a line that is long already'\nold(10_000_000_000_000)\n"
    asked = request(tmp_path, [rename("AMP900", "old", "hash")], a=text)
    assert write_project(asked, fix_project(asked))[0].outcome.notices == said


# ------------------------------------------------------------------------------- bytes

CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "crlf": lambda data: data.replace(b"\n", b"\r\n"),
    "cr": lambda data: data.replace(b"\n", b"\r"),
    "bom": lambda data: b"\xef\xbb\xbf" + data,
    "no last line end": lambda data: data.rstrip(b"\n"),
    "tabs": lambda data: data.replace(b"    ", b"\t"),
    "form feed": lambda data: b"\x0c\n" + data,
    "non-ASCII": lambda data: "'é€' # ソ\n".encode() + data,
    "latin-1": lambda data: "# coding: latin-1\n'é'\n".encode("latin-1") + data,
    "shift-jis": lambda data: "# coding: shift-jis\n'表ソ'\n".encode("shift-jis") + data,
    "odd line ends": lambda data: b"'\xe2\x80\xa8 \x1c' # \xe2\x80\xa9\r\n" + data,
}
PIECES = st.sampled_from(
    [
        "old(1)\n",
        "x = old(\n    a,  # c\n    old(2))\n",
        "class A:\n    @old(3)\n    def f(self):\n        return old(4)\n",
        "if a: old(5); b  # c\n",
        "f = '''\nold(6)\n    ''' + old(7)\n",
        "async def g():\n    await old(8)\n",
        "bad(9)\n",
    ]
)


@pytest.mark.parametrize("change", sorted(CHANGES))
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_fixing_commutes_with_a_change_of_bytes(
    change: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    before = "".join(data.draw(st.lists(PIECES, min_size=1, max_size=3))).encode()
    rules = [
        rename("AMP900", "old", "repr"),
        on_calls("AMP901", "bad", lambda call, src: [src.edits.add_argument(call, "k=1")]),
    ]
    transform = CHANGES[change]

    def fixed(content: bytes) -> bytes:
        directory = tmp_path_factory.mktemp("project")
        asked = request(directory, rules, a=content)
        assert write_project(asked, fix_project(asked))[1] == ()
        return (directory / "a.py").read_bytes()

    assert fixed(transform(before)) == transform(fixed(before))
