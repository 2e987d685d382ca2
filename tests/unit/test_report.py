"""What readers and machines are shown."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint import Cost, Edit, Finding, Fix, Group, Related, Safety
from amplint.output.formats import FORMATS, Report, render
from amplint.output.formats.gitlab import identity_in
from amplint.output.ordering import ordered
from amplint.rule.of_engine import ENGINE_RULES
from amplint.run.fingerprint import fingerprints
from amplint.run.request import Outcome
from amplint.util.escaping import is_control
from amplint.util.positions import Position, Span
from amplint.util.text import Text
from tests.unit.test_html_report import ROOT, SOURCE


def span_of(source: str, part: str) -> Span:
    """The span of the one place where `part` stands."""
    assert source.count(part) == 1
    text, start = Text(source), source.index(part)
    return Span(text.position(start), text.position(start + len(part)))


def finding(source: str, part: str, **others: Any) -> Finding:
    values: dict[str, Any] = {
        "code": "AMP101",
        "name": "host-read",
        "group": Group.PERFORMANCE,
        "cost": Cost.STEP,
        "path": "src/train.py",
        "span": span_of(source, part),
        "message": f"`{part}` waits for the device",
        "url": "docs/rules/AMP101.md",
    }
    return Finding(**{**values, **others})


def outcome(source: str, *findings: Finding, problems: Iterable[str] = ()) -> Outcome:
    files = ("src/train.py", "src/other.py")
    texts = {"src/train.py": Text(source)}
    return Outcome(ROOT, findings, tuple(problems), ("a notice",), files, texts)


def shown(name: str, source: str, *findings: Finding, directory: Path = ROOT) -> str:
    return click.unstyle(render(name, Report(outcome(source, *findings), ENGINE_RULES, directory)))


def replaced(part: str, text: str) -> Edit:
    start = SOURCE.index(part)
    return Edit(start, start + len(part), text)


FULL = finding(
    SOURCE,
    "loss.item()",
    scope="Trainer.run",
    fix=Fix(
        "Read the loss once, after the loop",
        (replaced("loss.item()", "loss.detach()"), replaced("total)", "total.item())")),
        Safety.UNSAFE,
    ),
    related=(Related("src/other.py", span_of("x\nfor", "for"), "hot: the loop over `loader`"),),
)


# ------------------------------------------------------------------------------ text


def test_text_shows_the_line_what_it_rests_on_and_the_fix() -> None:
    assert shown("text", SOURCE, FULL) == (
        "src/train.py:3:14 AMP101 host-read: `loss.item()` waits for the device\n"
        "  3 |     total += loss.item()\n"
        "    |              ^^^^^^^^^^^\n"
        "  src/other.py:2:1: hot: the loop over `loader`\n"
        "  fix: Read the loss once, after the loop (unsafe)\n"
        "\n"
        "2 files, 1 finding (1 performance); fixable: 1 unsafe"
    )


@pytest.mark.parametrize(
    ("safety", "word"),
    [(Safety.SAFE, "safe"), (Safety.UNSAFE, "unsafe"), (Safety.SUGGEST, "suggestion")],
)
def test_text_says_how_safe_a_fix_is(safety: Safety, word: str) -> None:
    proven = ("it is so", "nothing else is") if safety is Safety.SAFE else ()
    one = finding(SOURCE, "loss.item()", fix=Fix("Do it", (), safety, proven))
    text = shown("text", SOURCE, one)
    assert f"  fix: Do it ({word})\n" in text
    assert "it is so" not in text, "what makes a fix safe is in the JSON, and in `amplint explain`"
    (entry,) = json.loads(shown("json", SOURCE, one))
    assert entry["fix"]["proven"] == list(proven)


def test_text_says_what_to_do_where_there_is_no_fix() -> None:
    one = finding(SOURCE, "loss.item()", help="read it once")
    assert shown("text", SOURCE, one).splitlines()[3] == "  help: read it once"
    assert "help" not in shown("text", SOURCE, replace(FULL, help="read it once"))
    assert "help" not in shown("text", SOURCE, finding(SOURCE, "loss.item()"))


ODD = finding(
    SOURCE,
    "step",
    path="src/<a>&\"'.py",
    message="a `x[0](1)`\n::error::<b>&\"' 100% \x1b[31m \ud800 \ufffe ]]>",
    help="do \n::error::<this>",
    related=(Related("::error::b\nc.py", span_of("x", "x"), "hot\n::error::\x1b"),),
)


@pytest.mark.parametrize("name", ["text", "concise", "github"])
def test_nothing_in_a_line_is_acted_upon(name: str) -> None:
    """No escape of a terminal, and no command of a workflow but those that are meant."""
    text = render(name, Report(outcome(SOURCE, ODD), ENGINE_RULES, ROOT))
    lines = click.unstyle(text).split("\n")
    assert not any(is_control(character) for line in lines for character in line)
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert [line.split(" ")[0] for line in commands] == ["::warning"] * (name == "github")


def test_xml_of_anything_is_xml() -> None:
    suites = ElementTree.fromstring(shown("junit", SOURCE, ODD))
    (case,) = suites.iter("testcase")
    assert case.get("file") == ODD.path
    (failure,) = case
    mark = "\N{REPLACEMENT CHARACTER}"
    assert failure.get("message") == (
        f"a `x[0](1)`{mark}::error::<b>&\"' 100% {mark}[31m {mark} {mark} ]]>"
    )
    assert failure.text is not None
    _, chain, advice = failure.text.split("\n")
    assert chain == f"./::error::b{mark}c.py:1:1: hot{mark}::error::{mark}"
    assert advice == f"help: do {mark}::error::<this>"


@given(st.text(), st.text())
def test_xml_of_any_message_and_path_is_xml(message: str, path: str) -> None:
    one = finding(SOURCE, "step", message=message, path=f"{path}.py")
    ElementTree.fromstring(shown("junit", SOURCE, one))


def test_the_summary_counts_by_group_and_safety() -> None:
    safe = Fix("Do it", (Edit(0, 1, "x"),), Safety.SAFE, ("it is so",))
    found = [
        finding(SOURCE, "loader", fix=safe),
        finding(SOURCE, "step", group=Group.CORRECTNESS, fix=safe),
        finding(SOURCE, "print", fix=Fix("Do it", (), Safety.SUGGEST)),
    ]
    last = shown("text", SOURCE, *found).splitlines()[-1]
    assert last == "2 files, 3 findings (1 correctness, 2 performance); fixable: 2 safe"
    assert shown("text", SOURCE) == "2 files, no findings"


@pytest.mark.parametrize(
    ("line", "part", "code", "carets"),
    [
        ("x = y.item()", "y.item()", "x = y.item()", "    ^^^^^^^^"),
        ("\tx = y.item()", "y.item()", "    x = y.item()", "        ^^^^^^^^"),
        ("a\tb = y", "y", "a   b = y", "        ^"),
        ("数 = y.item()", "y.item()", "数 = y.item()", "     ^^^^^^^^"),
        ("x = '数値', y", "'数値'", "x = '数値', y", "    ^^^^^^"),
        ("x = 'e\u0301', y", "y", "x = 'e\u0301', y", "         ^"),
        ("x = '\x1b[31m', y", "y", "x = '\ufffd[31m', y", "             ^"),
        ("x = y.item()\f", "y.item()", "x = y.item()\ufffd", "    ^^^^^^^^"),
    ],
)
def test_carets_stand_under_the_code(line: str, part: str, code: str, carets: str) -> None:
    frame = shown("text", line, finding(line, part, message="m")).splitlines()[1:3]
    assert frame == [f"  1 | {code}", f"    | {carets}"]


def test_of_a_long_line_the_part_around_the_finding_is_shown() -> None:
    line = f"x = [{'1, ' * 500}y.item(), {'2, ' * 500}]"
    code, carets = shown("text", line, finding(line, "y.item()", message="m")).splitlines()[1:3]
    assert len(code) < 150
    assert code.index("y.item()") == carets.index("^^^^^^^^")


def test_of_a_long_finding_the_first_line_is_marked() -> None:
    source = "x = f(\n    1,\n)\n"
    frame = shown("text", source, finding(source, "f(\n    1,\n)", message="m")).splitlines()[1:3]
    assert frame == ["  1 | x = f(", "    |     ^^"]


def test_a_finding_without_extent_has_one_caret() -> None:
    source = "x = (\n"
    at = Text(source).position(5)
    frame = shown("text", source, finding(source, "x", span=Span(at, at))).splitlines()[1:3]
    assert frame == ["  1 | x = (", "    |      ^"]


TWICE = "a = x.item()\nb = x.item(), y.item()\nc = y.to(d)\n"


def at(row: int, column: int, length: int, **others: Any) -> Finding:
    span = Span(Position(row, column), Position(row, column + length))
    return replace(finding(TWICE, "a"), span=span, message="`x` waits", **others)


def test_what_costs_time_once_takes_one_line_each() -> None:
    once = [at(3, 5, 7, cost=Cost.ONCE, code="AMP501"), at(3, 7, 2, cost=Cost.ONCE, code="AMP502")]
    assert shown("text", TWICE, at(1, 5, 8), *once).splitlines()[4:7] == [
        "src/train.py:3:5: AMP501 host-read: `x` waits",
        "src/train.py:3:7: AMP502 host-read: `x` waits",
        "",
    ]
    crash = at(3, 5, 7, cost=Cost.ONCE, group=Group.CORRECTNESS)
    assert "^^^^^^^" in shown("text", TWICE, crash), "only what costs time is short"


def test_rules_that_are_off_have_one_line() -> None:
    one = at(1, 5, 8)
    off = replace(
        outcome(TWICE, one), off=(("a.py", "AMP106"), ("a.py", "AMP102"), ("b.py", "AMP106"))
    )
    text = render("text", Report(off, ENGINE_RULES, ROOT))
    assert text.splitlines()[-1] == ("3 more in rules that are off: --extend-select AMP102,AMP106")
    compared = replace(off, left_out=("2 known findings",))
    assert "rules that are off" not in render("text", Report(compared, ENGINE_RULES, ROOT))
    assert "AMP106" not in render("concise", Report(off, ENGINE_RULES, ROOT))


def test_what_is_within_more_loops_of_the_step_comes_first() -> None:
    source = (
        "for epoch in epochs:\n"
        "    for batch in loader:\n"
        "        loss = step(batch)\n"
        "        total += loss.item()\n"
        "        for name in names:\n"
        "            if name:\n"
        "                print(norms[name].item())\n"
        "def helper(x):\n"
        "    while x.item():\n"
        "        x.cpu()\n"
    )
    loop = Related("src/train.py", span_of(source, "for batch"), "the training loop", leads=True)
    found = [
        finding(source, part, related=(loop,), cost=cost)
        for part, cost in (
            ("loss.item()", Cost.STEP),
            ("norms[name].item()", Cost.STEP),
            ("x.item()", Cost.STEP),
            ("x.cpu()", Cost.STEP),
            ("step(batch)", Cost.RUN),
        )
    ]
    inner = ordered(found, "first-screen", {"src/train.py": Text(source)})
    assert [each.span.start.row for each in inner] == [3, 7, 10, 4, 9]
    assert ordered(found, "first-screen") == (found[-1], *found[:-1]), "without texts"


def test_repeats_are_one_block() -> None:
    text = shown("text", TWICE, at(1, 5, 8), at(2, 5, 8), at(3, 5, 7))
    assert text.count("AMP101") == 1
    assert "  also at lines 2, 3\n" in text
    assert "3 findings" in text
    assert len(json.loads(shown("json", TWICE, at(1, 5, 8), at(2, 5, 8)))) == 2
    loop = (Related("src/other.py", span_of("x\nfor", "for"), "the training loop"),)
    losses = [at(1, 5, 8, related=loop), replace(at(2, 5, 8, related=loop), message="`y` waits")]
    assert "also at line 2" in shown("text", TWICE, *losses)
    crashes = [replace(one, group=Group.CORRECTNESS) for one in losses]
    assert "also at" not in shown("text", TWICE, *crashes), "each says what goes wrong"
    different = shown("text", TWICE, at(1, 5, 8), at(2, 5, 8, help="do something else"))
    assert "also at" not in different


def test_two_rules_on_one_expression_are_one_block() -> None:
    whole, part = at(2, 5, 18, code="AMP202"), at(2, 5, 8, help="compute it on the host")
    lines = shown("text", TWICE, whole, part).splitlines()
    assert [line.split()[1] for line in lines[:2]] == ["AMP202", "AMP101"]
    assert lines[4:6] == ["  help: compute it on the host", ""]


def test_of_a_long_chain_two_places_are_shown() -> None:
    chain = tuple(Related("src/other.py", span_of("x\ny\nz", one), f"at {one}") for one in "xyz")
    lines = shown("text", TWICE, at(1, 5, 8, related=chain)).splitlines()
    assert lines[3:5] == [
        "  src/other.py:1:1: at x",
        "  src/other.py:2:1: at y (and 1 more: `amplint explain --at src/train.py:1`)",
    ]
    assert len(json.loads(shown("json", TWICE, at(1, 5, 8, related=chain)))[0]["related"]) == 3


def test_paths_are_shown_from_where_the_reader_stands() -> None:
    assert shown("concise", SOURCE, FULL, directory=ROOT / "src").startswith("train.py:3:14: ")
    assert shown("concise", SOURCE, FULL, directory=ROOT / "doc").startswith("../src/train.py:3")


# ------------------------------------------------------------------------------ concise, github


def test_concise_is_one_line_a_finding_and_marks_safe_fixes() -> None:
    safe = finding(SOURCE, "step", fix=Fix("Do it", (), Safety.SAFE, ("it is so",)))
    assert shown("concise", SOURCE, safe, FULL) == (
        "src/train.py:2:12: AMP101 [*] host-read: `step` waits for the device\n"
        "src/train.py:3:14: AMP101 host-read: `loss.item()` waits for the device"
    )


def test_github_shows_findings_as_annotations() -> None:
    assert shown("github", SOURCE, FULL) == (
        "::warning file=src/train.py,line=3,endLine=3,col=14,endColumn=25,title=AMP101 host-read"
        "::src/train.py:3:14: AMP101 `loss.item()` waits for the device"
        "%0Asrc/other.py:2:1: hot: the loop over `loader`"
        "%0Afix: Read the loss once, after the loop (unsafe)"
    )
    helped = finding(SOURCE, "loss.item()", help="read it once")
    assert shown("github", SOURCE, helped).endswith("waits for the device%0Ahelp: read it once")


def test_github_escapes_what_would_end_a_command() -> None:
    odd = finding(
        SOURCE, "step", path="a,b:c.py", group=Group.CORRECTNESS, message="100%\nof it: x, y"
    )
    text = shown("github", SOURCE, odd)
    assert text.startswith("::error file=a%2Cb%3Ac.py,line=2,")
    assert text.endswith("::a,b:c.py:2:12: AMP101 100%25%0Aof it: x, y")


# ------------------------------------------------------------------------------ json


def test_json_is_shaped_like_that_of_ruff() -> None:
    assert json.loads(shown("json", SOURCE, FULL)) == [
        {
            "code": "AMP101",
            "name": "host-read",
            "message": "`loss.item()` waits for the device",
            "filename": "src/train.py",
            "location": {"row": 3, "column": 14},
            "end_location": {"row": 3, "column": 25},
            "scope": "Trainer.run",
            "line": "total += loss.item()",
            "severity": "warning",
            "group": "performance",
            "cost": "step",
            "help": "",
            "url": "docs/rules/AMP101.md",
            "fix": {
                "title": "Read the loss once, after the loop",
                "safety": "unsafe",
                "proven": [],
                "needs_torch": None,
                "edits": [
                    {
                        "content": "loss.detach()",
                        "location": {"row": 3, "column": 14},
                        "end_location": {"row": 3, "column": 25},
                    },
                    {
                        "content": "total.item())",
                        "location": {"row": 5, "column": 7},
                        "end_location": {"row": 5, "column": 13},
                    },
                ],
            },
            "related": [
                {
                    "filename": "src/other.py",
                    "location": {"row": 2, "column": 1},
                    "message": "hot: the loop over `loader`",
                }
            ],
            "noqa_row": 3,
        }
    ]


def test_json_columns_are_characters_and_noqa_row_ends_the_string() -> None:
    source = 'é = """\n数 {}\n""".format(x.item())\n'
    (entry,) = json.loads(shown("json", source, finding(source, "é")))
    assert entry["location"] == {"row": 1, "column": 1}
    assert entry["noqa_row"] == 3
    assert entry["fix"] is None
    (entry,) = json.loads(shown("json", source, finding(source, "{}")))
    assert entry["location"] == {"row": 2, "column": 3}


def test_json_of_nothing_is_an_empty_array() -> None:
    assert json.loads(shown("json", SOURCE)) == []


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "text"])
def test_formats_for_machines_hold_no_terminal_styles(name: str) -> None:
    text = render(name, Report(outcome(SOURCE, FULL), [*ENGINE_RULES, *rule_101()], ROOT))
    assert "\x1b" not in text


def rule_101() -> list[Any]:
    return [replace(ENGINE_RULES[0], code="AMP101", name="host-read")]


# ------------------------------------------------------------------------------ gitlab, junit


def test_gitlab_has_what_its_documentation_asks_for() -> None:
    helped = finding(SOURCE, "step", help="do it once", group=Group.CORRECTNESS)
    one, other = json.loads(shown("gitlab", SOURCE, FULL, helped))
    (identity, _) = prints(SOURCE, FULL, helped)
    assert one == {
        "description": "AMP101 `loss.item()` waits for the device; "
        "fix: Read the loss once, after the loop (unsafe)",
        "check_name": "AMP101 host-read",
        "fingerprint": identity_in("src/train.py", identity),
        "severity": "minor",
        "location": {"path": "src/train.py", "lines": {"begin": 3, "end": 3}},
    }
    assert other["description"].endswith("; help: do it once")
    assert other["severity"] == "critical"
    assert {one["severity"], other["severity"]} <= {"info", "minor", "major", "critical", "blocker"}
    assert json.loads(shown("gitlab", SOURCE)) == []


def test_gitlab_tells_equal_lines_of_two_files_apart() -> None:
    texts = {path: Text(SOURCE) for path in ("a.py", "b.py")}
    found = [finding(SOURCE, "loss.item()", path=path) for path in texts]
    whole = Outcome(ROOT, tuple(found), (), (), tuple(texts), texts)
    one, other = json.loads(render("gitlab", Report(whole, ENGINE_RULES, ROOT)))
    assert one["fingerprint"] != other["fingerprint"]


def test_junit_has_a_failed_test_for_each_finding_of_a_file() -> None:
    other = finding(SOURCE, "step", path="a.py")
    suites = ElementTree.fromstring(shown("junit", SOURCE, FULL, other, FULL))
    assert [(suite.get("name"), suite.get("tests")) for suite in suites] == [
        ("a.py", "1"),
        ("src/train.py", "2"),
    ]
    assert {**suites.attrib} == {"name": "amplint", "tests": "3", "failures": "3", "errors": "0"}
    case = suites[1][0]
    assert case.attrib == {
        "classname": "src.train",
        "name": "AMP101 host-read 3:14",
        "file": "src/train.py",
        "line": "3",
    }
    assert case[0].text == (
        "src/train.py:3:14: `loss.item()` waits for the device\n"
        "src/other.py:2:1: hot: the loop over `loader`\n"
        "fix: Read the loss once, after the loop (unsafe)"
    )


def test_junit_of_nothing_is_a_test_that_passed() -> None:
    suites = ElementTree.fromstring(shown("junit", SOURCE))
    assert (suites.get("tests"), suites.get("failures")) == ("1", "0")
    assert [case.get("name") for case in suites.iter("testcase")] == ["no findings"]


def test_junit_does_not_pass_where_amplint_has_failed() -> None:
    failed = outcome(SOURCE, problems=("a.py: cannot <be> read\n",))
    suites = ElementTree.fromstring(render("junit", Report(failed, ENGINE_RULES, ROOT)))
    assert (suites.get("tests"), suites.get("errors")) == ("1", "1")
    (error,) = suites.iter("error")
    assert error.get("message") == "a.py: cannot <be> read\N{REPLACEMENT CHARACTER}"


# ------------------------------------------------------------------------------ fingerprints


def prints(source: str, *findings: Finding) -> list[str]:
    return fingerprints(findings, {"src/train.py": Text(source)})


def test_a_fingerprint_survives_what_happens_around_the_line() -> None:
    moved = "import torch\n\n" + SOURCE.replace("    total += ", "\t\ttotal   +=  ")
    other = finding(moved, "loss.item()", scope="Trainer.run", group=Group.CORRECTNESS, message="m")
    assert prints(SOURCE, FULL) == prints(moved, other)


@pytest.mark.parametrize(
    "change", [{"code": "AMP102"}, {"scope": "Other.run"}, {"span": span_of(SOURCE, "step")}]
)
def test_a_fingerprint_changes_with_what_it_is_made_of(change: dict[str, Any]) -> None:
    values = {"scope": "Trainer.run", **change}
    assert prints(SOURCE, FULL) != prints(SOURCE, finding(SOURCE, "loss.item()", **values))


def test_fingerprints_do_not_depend_on_the_order() -> None:
    twice = "x = y.item()\nz = 1\nx = y.item()\n"
    at = [Span(Position(row, 5), Position(row, 13)) for row in (1, 3)]
    first, second = (finding(twice, "z", span=span) for span in at)
    one, other = prints(twice, first, second)
    assert one != other
    assert prints(twice, second, first) == [other, one]


def test_equal_findings_are_told_apart_by_their_number() -> None:
    one, other = prints(SOURCE, FULL, FULL)
    assert one != other
    assert [one, other] == prints(SOURCE, FULL, FULL)
