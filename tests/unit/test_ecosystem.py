"""The runner over real packages: what it makes of a run, of two states, and of all packages."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import ecosystem
from benchmarks.ecosystem import (
    CI,
    Change,
    Checked,
    Found,
    Ran,
    changes,
    comparison,
    judged,
    line_of,
    read_findings,
    read_results,
    slow,
    summary,
    totals,
    verdict,
    write_findings,
    write_results,
)
from benchmarks.packages import Package, load

PACKAGE = Package("some", "1.0", ("some",))
A = Found("a.py", 3, 5, "AMP101", "`x.item()` waits", "safe 01234567")
B = Found("a.py", 9, 5, "AMP101", "`y.item()` waits")
C = Found("b.py", 1, 1, "AMP501", "`torch.zeros(...)` is built on the CPU")
ROW = Checked("1.0", 4000, 1, False, 2.0, 0.5, 100, [], [], {"AMP101": 2})
HANG = replace(ROW, hang=True, status=-24, seconds=600.0, per_1000_lines=150.0, findings=None)
FAULT = replace(ROW, status=2, faults=["amplint: error: a.py: amplint failed on `f`: KeyError"])


def entry(found: Found) -> dict[str, object]:
    """A finding as `amplint check --format json` prints it."""
    place = {"row": found.row, "column": found.column}
    return {
        "code": found.code,
        "message": found.message,
        "filename": found.path,
        "location": place,
        "fix": {"safety": "safe", "edits": [{"content": "y"}]} if found.fix else None,
    }


def ran(status: int = 1, stdout: str = "[]", stderr: str = "", stopped: bool = False) -> Ran:
    return Ran(status, stopped, 2.0, 100, stdout, stderr)


# ------------------------------------------------------------------------------ one run


def test_a_run_with_findings() -> None:
    row, found = judged(PACKAGE, 4000, ran(stdout=json.dumps([entry(C), entry(A)])))
    assert [replace(one, fix="") for one in found] == [replace(A, fix=""), C]
    assert row == replace(ROW, findings={"AMP101": 1, "AMP501": 1})
    assert not row.bad


def test_the_digest_of_a_fix_follows_its_edits() -> None:
    one, other = entry(A), entry(A)
    other["fix"] = {"safety": "safe", "edits": [{"content": "z"}]}
    _, (first, second) = judged(PACKAGE, 1, ran(stdout=json.dumps([one, other])))
    assert first.fix.startswith("safe ") and second.fix.startswith("safe ")
    assert first.fix != second.fix


@pytest.mark.parametrize(
    ("end", "fault"),
    [
        (ran(2, stderr="amplint: error: a.py: amplint failed on `f`: KeyError: 1"), "KeyError: 1"),
        (ran(1, stderr="amplint: error: a.py: not read"), "a.py: not read"),
        (ran(1, stderr="Traceback (most recent call last):\n  File x\nOSError: no"), "OSError: no"),
        (ran(2, stdout="", stderr="Usage: amplint"), "ended with status 2: Usage: amplint"),
        (ran(-9, stdout=""), "ended with status -9"),
        (ran(0, stdout="not JSON"), "printed no findings"),
    ],
)
def test_a_fault_is_told_once(end: Ran, fault: str) -> None:
    row, _ = judged(PACKAGE, 4000, end)
    assert row.bad and not row.hang
    assert [text for text in row.faults if fault in text] == row.faults != []


def test_a_run_that_was_stopped_hangs() -> None:
    row, found = judged(PACKAGE, 4000, ran(-24, stdout="", stopped=True))
    assert row.hang and row.bad and row.faults == [] and row.findings is None and found == ()


def test_notices_and_timing_are_no_faults() -> None:
    row, _ = judged(PACKAGE, 4000, ran(stderr="amplint: 1.2 s on the clock\n  0.1  read 3 files"))
    assert not row.bad and row.given_up == []


def test_functions_that_were_given_up_are_listed() -> None:
    row, _ = judged(PACKAGE, 4000, ran(stderr="amplint: 3 s\n  given up: a.py, `train`: 900 paths"))
    assert row.given_up == ["given up: a.py, `train`: 900 paths"]


def test_findings_of_a_package_for_status_only_are_not_read() -> None:
    package = replace(PACKAGE, status_only=True)
    row, found = judged(package, 4000, ran(stdout=json.dumps([entry(A)])))
    assert (row.findings, found, row.bad) == (None, (), False)


def checkout(root: Path, code: str) -> Path:
    """A checkout whose amplint is this code."""
    for name, text in (("amplint", ""), ("rules", "NAME = 'rules of the checkout'")):
        (root / name).mkdir()
        (root / name / "__init__.py").write_text(text)
    (root / "amplint" / "__main__.py").write_text(code)
    return root


def test_the_checkout_runs_with_its_own_rules(tmp_path: Path) -> None:
    code = "import sys\nfrom amplint.rules import NAME\nprint(NAME, sys.argv[1:])\nsys.exit(1)"
    done = ecosystem.run(["check", "."], tmp_path, checkout(tmp_path, code), limit=60)
    assert (done.status, done.stopped, done.stderr) == (1, False, "")
    assert done.stdout == "rules of the checkout ['check', '.']\n"
    assert 0 < done.seconds < 60 and done.megabytes > 1


def test_a_process_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    done = ecosystem.run([], tmp_path, checkout(tmp_path, "while True: pass"), limit=1)
    assert done.stopped and done.seconds >= 0.9


def test_a_process_that_sleeps_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ecosystem, "WALL", 0.5)
    root = checkout(tmp_path, "import time\ntime.sleep(60)")
    done = ecosystem.run([], tmp_path, root, limit=1)
    assert done.stopped and done.seconds < 1


# ------------------------------------------------------------------------------ two states


def test_equal_states_have_no_changes() -> None:
    assert changes([A, B, C], [C, B, A]) == []


def test_came_and_went() -> None:
    assert changes([A, B], [A, C]) == [Change("went", B), Change("came", C)]


def test_one_of_two_equal_findings_goes() -> None:
    assert changes([A, A], [A]) == [Change("went", A)]


def test_a_finding_with_the_same_message_elsewhere_in_the_file_has_moved() -> None:
    moved = replace(A, row=7)
    assert changes([A], [moved]) == [Change("moved", moved, A)]
    assert {change.kind for change in changes([A], [replace(A, path="b.py")])} == {"came", "went"}


def test_another_message_or_fix_at_the_same_place_is_a_change() -> None:
    for other in (replace(A, message="`x.item()` stops"), replace(A, fix="unsafe 01234567")):
        assert changes([A], [other]) == [Change("changed", other, A)]


def test_a_change_in_place_goes_before_a_move() -> None:
    """Of two equal messages, the one at the old place is not taken for the one that moved."""
    unsafe, added = replace(A, fix="unsafe 01234567"), replace(A, row=1, fix="unsafe 01234567")
    assert changes([A], [added, unsafe]) == [Change("came", added), Change("changed", unsafe, A)]


def test_the_list_of_changes_names_places_rules_and_messages() -> None:
    moved, safer = replace(A, row=7), replace(C, fix="safe 89abcdef", message="moved")
    listed = "\n".join(comparison("some", changes([A, B, C], [moved, safer])))
    assert listed == (
        "some: 1 changed, 1 moved, 1 went\n"
        "  moved   a.py:7:5  AMP101  `x.item()` waits\n"
        "          was at 3:5\n"
        "  went    a.py:9:5  AMP101  `y.item()` waits\n"
        "  changed b.py:1:1  AMP501  moved\n"
        "          was: `torch.zeros(...)` is built on the CPU\n"
        "          fix: safe 89abcdef, was: none"
    )


def test_without_changes_nothing_is_listed() -> None:
    assert list(comparison("some", [])) == []


# ------------------------------------------------------------------------------ all packages


def test_a_hang_a_fault_or_an_unaccepted_change_fails() -> None:
    assert verdict({"some": ROW}, {"some": []}) == 0
    assert verdict({"some": HANG}, {}) == 1
    assert verdict({"some": ROW, "other": FAULT}, {}) == 1
    assert verdict({"some": ROW}, {"some": changes([A], [])}) == 1


def test_packages_slower_than_five_medians_are_named() -> None:
    rows = {f"p{number}": ROW for number in range(5)}
    rows["edge"] = replace(ROW, per_1000_lines=2.5)
    rows["over"] = replace(ROW, per_1000_lines=2.6)
    rows["hang"] = HANG
    rows["tiny"] = replace(ROW, lines=300, per_1000_lines=9.0)
    assert slow(rows) == ["over"]


def test_the_sums_leave_out_findings_that_were_not_read() -> None:
    sums = totals({"some": ROW, "hang": HANG, "fault": FAULT})
    assert sums["findings"] == {"AMP101": 4}
    assert sums["bad"] == ["fault", "hang"]
    assert sums["lines"] == 12000


def test_the_table() -> None:
    head, some, hang = (
        line.split() for line in (ecosystem.HEADER, line_of("some", ROW), line_of("hang", HANG))
    )
    assert some == ["some", "4000", "1", "2.0", "0.500", "100", "2", "0", "0"]
    assert hang == ["hang", "4000", "hang", "600.0", "150.000", "100", "-", "0", "0"]
    assert head[0] == "package" and head[-1] == "faults"


def test_the_summary_names_what_is_wrong() -> None:
    late = replace(ROW, seconds=40.0, per_1000_lines=10.0)
    text = "\n".join(summary({"some": ROW, "hang": HANG, "fault": FAULT, "late": late}))
    assert "4 packages, 16,000 lines, 644.0 s of CPU; median 0.5 s per 1,000 lines" in text
    assert "slow: late takes 20.0 times the median" in text
    assert "hang: hang, stopped after 600.0 s of CPU" in text
    assert "fault: fault: amplint: error: a.py: amplint failed on `f`: KeyError" in text


def test_a_hang_alone_has_a_summary() -> None:
    assert "median 0.0 s" in next(summary({"hang": HANG}))


def test_what_is_stored_is_read_back(tmp_path: Path) -> None:
    findings = {"some": [A, B], "none": []}
    write_findings(tmp_path / "f.json", findings)
    assert read_findings(tmp_path / "f.json") == findings
    rows = {"some": ROW, "hang": HANG}
    write_results(tmp_path / "r.json", rows)
    assert read_results(tmp_path / "r.json") == rows
    assert read_findings(None) == read_findings(tmp_path / "missing") == {}


# ------------------------------------------------------------------------------ the packages


def test_there_are_sixty_packages_and_twelve_for_ci() -> None:
    assert len(load(among=None)) >= 60
    in_ci = {package.name for package in load(among="ci")}
    assert len(in_ci) == 12
    assert set(read_findings(CI)) == in_ci


def test_each_package_is_pinned_by_hash_or_is_the_standard_library() -> None:
    for package in load(among=None):
        assert (len(package.sha256) == 64) != package.standard_library, package.name
        assert package.version and package.roots
    names = [package.name for package in load(among=None)]
    assert len(names) == len(set(names))


def test_the_standard_library_of_another_python_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (library,) = (package for package in load(among=None) if package.standard_library)
    monkeypatch.setattr("platform.python_version", lambda: "3.0.1")
    with pytest.raises(SystemExit, match=r"this is Python 3\.0\.1"):
        ecosystem.fetch(library, tmp_path)
