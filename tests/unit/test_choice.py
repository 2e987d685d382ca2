"""The short run: the tests that are left to the night, and those that a change adds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import choice
from tests.conftest import WITH_TORCH, unit_of
from tests.helpers import ROOT

DEFINED = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
TESTS = {
    f"{path.relative_to(ROOT).as_posix()}::{name}"
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in DEFINED.findall(path.read_text(encoding="utf-8"))
}


def test_the_tables_name_what_is_there() -> None:
    assert choice.KEPT <= TESTS
    assert choice.ONE_IN.keys() | choice.ONE_OF_EACH.keys() <= TESTS
    assert all((ROOT / path).exists() for path in choice.AT_NIGHT)
    for places, tests in choice.CONCERNS:
        assert all((ROOT / place).exists() for place in (*places, *tests))


def test_what_takes_long_runs_at_night_unless_it_is_kept() -> None:
    slow = {test for test, took in choice.known_times().items() if took["seconds"] >= choice.SLOW}
    assert slow & choice.KEPT
    assert all(choice.is_nightly(test) for test in slow - choice.KEPT)
    assert not any(choice.is_nightly(test) for test in choice.KEPT)
    assert choice.is_nightly("tests/oracles/test_waits.py::test_of_a_table")
    assert not choice.is_nightly("tests/unit/test_new.py::test_nobody_has_timed")


def test_each_of_those_that_ask_the_same_has_its_day(monkeypatch: pytest.MonkeyPatch) -> None:
    days: dict[str, list[int]] = {
        "tests/oracles/test_pairing.py::test_segments_of_a_fixture_are_the_whole_file": [],
        "tests/verify/test_witnesses.py::test_witness": [],
    }
    for day in range(20):
        monkeypatch.setenv("AMPLINT_TEST_DAY", str(day))
        for name, numbers in days.items():
            numbers.extend(choice.of_today(name, 20))
        assert choice.of_today("tests/unit/test_new.py::test_once", 3) == range(3)
    one_in, one_of_each = days.values()
    assert sorted(one_in) == sorted([*range(20)] * 2)
    assert sorted(one_of_each) == [*range(20)]


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("amplint/inference/state.py", ("tests/oracles/", "tests/fuzz/")),
        ("amplint/view/view.py", ("tests/oracles/", "tests/fuzz/")),
        ("amplint/knowledge/casts.py", ("tests/oracles/test_torch_ops.py",)),
        ("amplint_verify/observing/claims.py", ("tests/observe/", "tests/verify/")),
        ("amplint_verify/verdict.py", ("tests/verify/",)),
        ("docs/faq.md", ()),
    ],
)
def test_what_a_change_concerns(path: str, tests: tuple[str, ...]) -> None:
    assert choice.concerned([path]) == tests


def git(directory: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *words],
        cwd=directory,
        check=True,
        capture_output=True,
    )


def test_changes_are_those_since_the_main_branch_and_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "ROOT", tmp_path)
    choice.changed.cache_clear()
    assert choice.changed() is None, "there is no repository"
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a.py").write_text("")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "x")
    git(tmp_path, "checkout", "-q", "-b", "mine")
    (tmp_path / "b.py").write_text("")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "y")
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "c.py").write_text("")
    choice.changed.cache_clear()
    assert choice.changed() == ("a.py", "b.py", "c.py")
    choice.changed.cache_clear()


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        ("tests/verify/test_lab.py::test_one", "torch"),
        ("tests/fixtures/test_fixtures.py::test_fixture[apex_amp-good_is_silent]", "apex_amp"),
        ("tests/fuzz/test_metamorphic.py::test_no_fix_loses_a_comment[apex_amp]", "apex_amp"),
        ("tests/unit/test_new.py::test_once", "tests/unit/test_new.py::test_once"),
    ],
)
def test_one_worker_runs_what_shares_an_import_or_an_outcome(test: str, unit: str) -> None:
    assert unit_of(test) == unit
    assert all((ROOT / path).exists() for path in WITH_TORCH)


def test_a_run_that_names_its_tests_is_not_cut_short() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/unit/test_units.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "short run" not in done.stdout and "deselected" not in done.stdout
    assert done.stdout.count("::test_paired_nodes_stand_in_the_same_place[") > 5
