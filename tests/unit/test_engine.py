"""The stages together: what is reported of a project, and what is not."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from amplint import Edit, Finding, Fix, Group, Related, Rule, Unrun, View, calls
from amplint.project.discover import select
from amplint.project.settings_hierarchy import SettingsHierarchy
from amplint.rule import registry
from amplint.run.engine import run
from amplint.run.filtering import without_superseded
from amplint.run.request import Outcome, Request
from amplint.util.positions import Position, Span
from tests.command import LEGACY


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)


def look(
    *paths: str, rules: Sequence[Rule] | None = None, overlays: dict[str, str] | None = None,
    **options: object,
) -> Outcome:  # fmt: skip
    known = registry.all_rules() if rules is None else rules
    given = {key.replace("_", "-"): value for key, value in options.items()}
    settings = SettingsHierarchy(given)
    found = select(paths or (".",), settings)
    return run(Request(found, settings, known, overlays or {}))


def codes(outcome: Outcome) -> list[tuple[str, int, str]]:
    return [(one.path, one.span.start.row, one.code) for one in outcome.findings]


# ------------------------------------------------------------------------------ across files

TRAIN = """\
import torch
from torch.utils.data import DataLoader

from helpers import accuracy, finish

model = torch.nn.Linear(4, 4).cuda()
for x in DataLoader([1]):
    out = model(x.cuda())
    accuracy(out)
    finish(out)
"""
HELPERS = """\
def accuracy(out):
    return out.mean().item()


def finish(out):
    out.sum().backward()
"""


def test_a_helper_is_judged_by_its_callers_whichever_files_are_named() -> None:
    Path("train.py").write_text(TRAIN)
    Path("helpers.py").write_text(HELPERS)
    everything = look()
    assert ("helpers.py", 2, "AMP101") in codes(everything)
    alone = look("helpers.py")
    assert alone.files == ("helpers.py",)
    assert alone.findings == tuple(f for f in everything.findings if f.path == "helpers.py")
    (read,) = (one for one in alone.findings if one.code == "AMP101")
    assert "train.py" in {related.path for related in read.related}


def test_the_order_of_paths_and_files_does_not_matter() -> None:
    Path("train.py").write_text(TRAIN)
    Path("helpers.py").write_text(HELPERS)
    assert look("train.py", "helpers.py").findings == look("helpers.py", "train.py").findings


def test_overlays_stand_for_files_and_leave_them_alone() -> None:
    Path("a.py").write_text(LEGACY)
    outcome = look(overlays={"a.py": "x = 1\n"})
    assert outcome.findings == ()
    assert outcome.texts["a.py"].text == "x = 1\n"
    assert Path("a.py").read_text() == LEGACY


def test_a_broken_file_elsewhere_in_the_project_is_not_reported() -> None:
    Path("a.py").write_text(LEGACY)
    Path("broken.py").write_text("x = (\n")
    Path("undecodable.py").write_bytes(b"\xff")
    outcome = look("a.py")
    assert codes(outcome) == [("a.py", 3, "AMP701")]
    assert outcome.problems == ()
    assert [code for _, _, code in codes(look())] == ["AMP701", "AMP000", "AMP000"]


# ------------------------------------------------------------------------------ settings


# ------------------------------------------------------------------------------ suppression


UNUSED = "x = 1  # amplint: ignore[AMP101]\n"


def test_a_suppression_is_not_called_unused_where_not_everything_was_looked_at() -> None:
    Path("a.py").write_text(UNUSED)
    assert codes(look()) == [("a.py", 1, "AMP001")]
    assert codes(look(select=["AMP001", "AMP7"])) == [], "AMP101 did not run"
    assert codes(look(ignore=["AMP001"])) == []
    Path("b.py").write_text("x = (\n")
    assert codes(look("a.py")) == [], "b.py may hold the loop that makes it hot"


def test_nor_where_its_own_file_had_an_error() -> None:
    Path("a.py").write_text(UNUSED + LEGACY)
    assert ("a.py", 1, "AMP001") in codes(look())
    assert ("a.py", 1, "AMP001") not in codes(look(rules=(*registry.all_rules(), failing())))


def failing() -> Rule:
    rule = Rule(
        "AMP999",
        "doc",
        Group.PERFORMANCE,
        "0.1",
        Unrun("", ""),
        name="fails",
    )

    @rule.on(calls("torch.cuda.amp.autocast"))
    def check(_: View) -> Iterator[Finding]:
        raise ValueError("no")

    return rule


def test_a_single_file_without_a_project_may_lack_its_callers(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").unlink()
    Path("a.py").write_text(UNUSED)
    assert codes(look("a.py")) == []
    assert codes(look(".")) == [("a.py", 1, "AMP001")], "a directory is a project"


def test_a_suppression_of_a_finding_that_is_ignored_elsewhere_is_not_unused() -> None:
    Path("a.py").write_text(LEGACY.replace("():", "():  # amplint: ignore[AMP701]"))
    assert look(per_file_ignores={"a.py": ["AMP701"]}).findings == ()


# ------------------------------------------------------------------------------ outranking

ONE = Span(Position(1, 1), Position(1, 20))
INSIDE = Span(Position(1, 5), Position(1, 10))
BESIDE = Span(Position(1, 20), Position(1, 25))


def rule(code: str, *supersedes: str, group: Group = Group.PERFORMANCE) -> Rule:
    return Rule(code, "doc", group, "0.1", Unrun("", ""), supersedes, name=code.lower())


def finding(code: str, span: Span, *related: Related, group: Group = Group.PERFORMANCE) -> Finding:
    return Finding(code, code.lower(), group, "a.py", span, "it is so", related=related)


def left(rules: Sequence[Rule], *findings: Finding, **options: object) -> list[str]:
    settings = SettingsHierarchy(options).at(str(Path.cwd()))
    return [one.code for one in without_superseded(findings, rules, settings, Path.cwd())]


@pytest.mark.parametrize(
    ("span", "expected"), [(ONE, ["AMP501"]), (INSIDE, ["AMP501"]), (BESIDE, ["AMP501", "AMP201"])]
)
def test_where_a_rule_speaks_those_it_comes_before_are_silent(
    span: Span, expected: list[str]
) -> None:
    rules = [rule("AMP501", "AMP201"), rule("AMP201")]
    assert left(rules, finding("AMP501", ONE), finding("AMP201", span)) == expected


def test_the_related_places_of_the_first_count_by_where_they_begin() -> None:
    rules = [rule("AMP204", "AMP201"), rule("AMP201")]
    here = Related("a.py", Span(Position(9, 5), Position(9, 30)), "the factory")
    elsewhere = Related("b.py", here.span, "the factory")
    factory = finding("AMP201", Span(Position(9, 5), Position(9, 12)))
    assert left(rules, finding("AMP204", ONE, here), factory) == ["AMP204"]
    assert left(rules, finding("AMP204", ONE, elsewhere), factory) == ["AMP204", "AMP201"]


def test_a_rule_that_is_off_silences_nothing() -> None:
    rules = [rule("AMP501", "AMP201", group=Group.PEDANTIC), rule("AMP201")]
    first = finding("AMP501", ONE, group=Group.PEDANTIC)
    assert left(rules, first, finding("AMP201", ONE)) == ["AMP501", "AMP201"]


def test_a_rule_that_is_off_for_a_file_silences_nothing_there() -> None:
    rules, given = [rule("AMP501", "AMP201"), rule("AMP201")], finding("AMP501", ONE)
    ignores = {"per-file-ignores": {"a.py": ["AMP501"]}}
    assert left(rules, given, finding("AMP201", ONE), **ignores) == ["AMP501", "AMP201"]


# ------------------------------------------------------------------------------ many runs


def test_a_file_that_did_not_change_is_indexed_once() -> None:
    Path("a.py").write_text(LEGACY)
    Path("b.py").write_text("x = 1\n")
    known = registry.all_rules()
    settings = SettingsHierarchy()
    first = Request(select(["."], settings), settings, known)
    run(first)
    before = dict(first.indexed)
    fixed = LEGACY.replace("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")')
    second = Request(
        first.selection, settings, known, overlays={"a.py": fixed}, indexed=first.indexed
    )
    assert run(second).findings == ()
    assert {path for path, _ in second.indexed.keys() - before.keys()} == {"a.py"}
    assert all(second.indexed[key] is file for key, file in before.items())


def test_findings_are_sorted_and_the_status_follows() -> None:
    Path("b.py").write_text(LEGACY)
    Path("a.py").write_text(LEGACY + LEGACY)
    outcome = look()
    assert codes(outcome) == [("a.py", 3, "AMP701"), ("a.py", 7, "AMP701"), ("b.py", 3, "AMP701")]
    assert outcome.status == 1
    assert look("b.py", select=["AMP1"]).status == 0
    assert look("gone.py").status == 2


def test_edits_of_fixes_are_offsets_into_the_text_without_its_byte_order_mark() -> None:
    Path("a.py").write_bytes(b"\xef\xbb\xbf# \xc3\xa9\r\n" + LEGACY.encode())
    (one,) = look().findings
    assert isinstance(one.fix, Fix)
    text = look().texts["a.py"].text
    edits: Sequence[Edit] = sorted(one.fix.edits, reverse=True)
    for edit in edits:
        text = text[: edit.start] + edit.text + text[edit.end :]
    assert text == "# é\r\n" + LEGACY.replace(
        "torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")'
    )


def test_a_suppression_is_unused_also_where_a_word_of_its_rule_has_another_name() -> None:
    Path("a.py").write_text("from torch import zeros as empty_handed  # amplint: ignore[AMP501]\n")
    assert codes(look()) == [("a.py", 1, "AMP001")]
