"""Each folder in fixtures/ proves one rule; what is tested here holds for all of them."""

from __future__ import annotations

import ast
import difflib
import itertools
import re
from collections import Counter
from pathlib import Path

import pytest

from amplint.engine import Outcome
from amplint.finding import Finding, Group, Safety
from amplint.fixing import edited
from amplint.registry import all_rules
from tests.helpers import (
    APPLIED,
    FIXTURES,
    Linted,
    expectations,
    fix,
    fixture_rules,
    folders,
    lint,
    markers,
    modules,
    places,
    rule_of,
)

each_folder = pytest.mark.parametrize("folder", folders())

MESSAGE_LENGTH = 100


def test_every_rule_has_a_folder_and_every_folder_a_rule() -> None:
    assert folders() == sorted(rule.name.replace("-", "_") for rule in fixture_rules())


@each_folder
def test_a_folder_is_complete(folder: str) -> None:
    """bad.py and good.py are there, and bad.py shows the rule at work."""
    files = modules(folder)
    assert {"bad.py", "good.py"} <= files.keys()
    rule = rule_of(folder)
    assert rule is not None
    assert rule.code in {code for _, code in expectations(files["bad.py"].decode())}


@each_folder
def test_findings_equal_the_markers(folder: str, linted: Linted) -> None:
    """Both ways: nothing that is marked stays unfound, nothing is found that is not marked."""
    outcome = linted(folder)
    unfound, unmarked = [], []
    for path, data in modules(folder).items():
        expected = Counter(expectations(data.decode()))
        found = Counter(places(outcome.findings, path))
        lines = data.decode().splitlines()
        unfound += [
            f"{path}:{row} {code}: {lines[row - 1]}"
            for row, code in sorted((expected - found).elements())
        ]
        unmarked += [
            f"{path}:{row} {code}: {lines[row - 1]}"
            for row, code in sorted((found - expected).elements())
        ]
    assert not unfound and not unmarked, report_of_difference(unfound, unmarked)


def report_of_difference(unfound: list[str], unmarked: list[str]) -> str:
    return "\n".join(["", "marked, but not found:", *unfound, "found, but not marked:", *unmarked])


@each_folder
def test_known_misses_are_still_missed(folder: str, linted: Linted) -> None:
    """`# miss: CODE` fails once it is found: make it an expectation then."""
    outcome = linted(folder)
    for path, data in modules(folder).items():
        found = set(places(outcome.findings, path)) & set(markers(data.decode(), "miss"))
        assert not found, f"{path}: no longer missed: {sorted(found)}"


@each_folder
def test_good_is_silent(folder: str, linted: Linted) -> None:
    """No default rule speaks in good.py. Pedantic findings may be there, but marked."""
    pedantic = {rule.code for rule in all_rules() if rule.group is Group.PEDANTIC}
    findings = [f for f in linted(folder).findings if f.path == "good.py"]
    assert not [(f.span.start.row, f.code) for f in findings if f.group is not Group.PEDANTIC]
    assert {code for _, code in expectations(modules(folder)["good.py"].decode())} <= pedantic


@each_folder
def test_findings_are_well_formed(folder: str, linted: Linted) -> None:
    """Spans lie in their files, and the words follow the conventions."""
    outcome = linted(folder)
    rules = {rule.code: rule for rule in all_rules()}
    for finding in outcome.findings:
        text = outcome.texts[finding.path]
        assert finding.name == rules[finding.code].name
        assert finding.span.start <= finding.span.end
        assert finding.span.end.row <= text.rows
        assert message_complaint(finding.message) is None, finding.message
        assert len(finding.message) <= MESSAGE_LENGTH, finding.message
        for related in finding.related:
            assert related.path in outcome.texts
            assert related.span.end.row <= outcome.texts[related.path].rows
            assert message_complaint(related.message) is None, related.message
        if finding.fix is not None:
            assert title_complaint(finding.fix.title) is None, finding.fix.title
            for condition in finding.fix.proven:
                assert message_complaint(condition) is None, condition
            edits = sorted(finding.fix.edits)
            assert edits or finding.fix.safety is Safety.SUGGEST
            assert all(0 <= e.start <= e.end <= len(text.text) for e in edits)
            assert all(one.end <= other.start for one, other in itertools.pairwise(edits))


def message_complaint(message: str) -> str | None:
    """Messages continue a sentence: no capital at the start (but in a name), no stop at the end."""
    if not message or message != message.strip() or "\n" in message:
        return "not a line of text"
    if not re.match(r"[a-z`'\"0-9]|[A-Z]+\b|[A-Z]\w*[A-Z]\w*", message):
        return "begins with a capital"
    return "ends with a stop" if re.search(r"[.!]$", message) else None


def title_complaint(title: str) -> str | None:
    """Titles are verb phrases: `Create the tensor on its device`."""
    if not re.match(r"[A-Z][a-z]+ \S", title):
        return "does not begin with a capital verb"
    if re.match(r"(The|A|An|This|It|You|Use of|\w+ing)\b", title):
        return "does not begin with a verb in the imperative"
    return "ends with a stop" if title.endswith((".", "!")) else None


@each_folder
def test_each_fix_removes_its_finding_and_makes_no_new_one(
    folder: str, linted: Linted, tmp_path: Path
) -> None:
    """Each fix by itself. What the fixed finding outranked may speak in its place."""
    files = modules(folder)
    outcome = linted(folder)
    outranks = {rule.code: set(rule.outranks) for rule in all_rules()}
    for finding in outcome.findings:
        if finding.fix is None or finding.fix.safety not in APPLIED:
            continue
        where = f"{finding.path}:{finding.span.start.row} {finding.code}"
        text = outcome.texts[finding.path].text
        fixed = edited(text, finding.fix.edits)
        assert fixed != text, f"{where}: the fix changes nothing"
        ast.parse(fixed)
        after = lint(files, tmp_path, {finding.path: fixed})
        counted = Counter(identity(f) for f in outcome.findings)
        left = Counter(identity(f) for f in after.findings)
        assert left[identity(finding)] < counted[identity(finding)], f"{where}: still there"
        new = left - counted
        unexplained = [i for i in new if i[1] not in outranks[finding.code]]
        assert not unexplained, f"{where}: the fix makes new findings: {unexplained}"


def identity(finding: Finding) -> tuple[str, str, str]:
    """A finding without its place, which moves when lines come and go."""
    return finding.path, finding.code, finding.scope


@each_folder
@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "all"])
def test_fixing_twice_equals_once(folder: str, unsafe: bool, tmp_path: Path) -> None:
    """The fixed program parses, has nothing left to fix, and a second run leaves it alone."""
    once = fix(modules(folder), tmp_path / "once", unsafe)
    for path, data in once.items():
        compile(data, path, "exec")
    assert fix(once, tmp_path / "twice", unsafe) == once
    wanted = APPLIED if unsafe else APPLIED[:1]
    left = [f for f in lint(once, tmp_path / "left").findings if f.fix and f.fix.safety in wanted]
    assert not left


@each_folder
def test_good_is_not_changed(folder: str, tmp_path: Path) -> None:
    assert fix(modules(folder), tmp_path, unsafe=True)["good.py"] == modules(folder)["good.py"]


@each_folder
def test_report(folder: str, linted: Linted, update: bool) -> None:
    """report.txt is what amplint says, to be read by people; `pytest --update` writes it."""
    path = FIXTURES / folder / "report.txt"
    text = rendered(linted(folder))
    if update:
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), "write it with `pytest --update`"
    assert path.read_text(encoding="utf-8") == text


def rendered(outcome: Outcome) -> str:
    """The findings with their lines, related places and fixes."""
    blocks = []
    for finding in outcome.findings:
        start = finding.span.start
        lines = [
            f"{finding.path}:{start.row}:{start.column}: {finding.code} {finding.name}"
            f" ({finding.group.value})",
            f"  {finding.message}",
            f"  | {outcome.texts[finding.path].line(start.row).strip()}",
        ]
        for related in finding.related:
            at = related.span.start
            lines.append(f"  see {related.path}:{at.row}:{at.column}: {related.message}")
        if finding.fix is not None:
            lines.append(f"  fix ({finding.fix.safety.value}): {finding.fix.title}")
            if finding.fix.proven:
                lines.append(f"  safe because {'; '.join(finding.fix.proven)}")
            before = outcome.texts[finding.path].text
            lines += [f"    {line}" for line in diff(before, edited(before, finding.fix.edits))]
        blocks.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(blocks) + "\n"


def diff(before: str, after: str) -> list[str]:
    """The changed lines alone."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]
