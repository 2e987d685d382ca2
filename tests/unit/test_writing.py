"""The files of a run of `fix` on the disk: what is written, what is left, what is said of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from amplint.fix.project_fixes import FixOutcome, fix_project, write_project
from amplint.fix.writing import write_texts
from amplint.run.request import Request
from amplint.util.replacing import Replacement
from amplint.util.text import Text
from tests.unit.test_fixing import rename, request

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = "old()\n", "next()\n"


def test_every_promise_is_held_by_a_test() -> None:
    _, _, promises = (ROOT / "docs" / "safe-fixes.md").read_text().partition("## What a run of")
    held = re.findall(r"^\| .+ \| `(\w+\.py)`: `(\w+)` \|$", promises, re.MULTILINE)
    assert len(held) == promises.count("\n| ") - 1  # but for the head of the table
    for module, test in held:
        assert f"def {test}(" in (ROOT / "tests" / "unit" / module).read_text(), test


def fix_two(directory: Path) -> tuple[Request, FixOutcome]:
    asked = request(directory, [rename("AMP900", "old", "next")], a=OLD, b=OLD)
    return asked, fix_project(asked)


def texts(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


def test_a_project_is_written_as_far_as_it_can_be(tmp_path: Path) -> None:
    asked, outcome = fix_two(tmp_path)
    (tmp_path / "a.py").write_text("old()  # edited meanwhile\n")
    written, problems = write_project(asked, outcome)
    assert problems == ("a.py: not fixed: the file has changed since it was read",)
    assert texts(tmp_path) == {"a.py": "old()  # edited meanwhile\n", "b.py": NEW}
    assert (written.fixed, list(written.after)) == (1, ["b.py"])
    assert [finding.path for finding in written.outcome.findings] == ["a.py"]


def test_a_file_in_which_there_is_nothing_left_to_fix_is_no_problem(tmp_path: Path) -> None:
    """Another run has fixed it meanwhile, together with an edit."""
    asked, outcome = fix_two(tmp_path)
    (tmp_path / "a.py").write_text("next()  # edited meanwhile\n")
    written, problems = write_project(asked, outcome)
    assert problems == ()
    assert not written.outcome.problems
    assert not written.outcome.findings
    assert (written.fixed, list(written.after)) == (1, ["b.py"])


def test_what_another_run_has_fixed_counts_for_that_one(tmp_path: Path) -> None:
    asked, outcome = fix_two(tmp_path)
    first = write_project(asked, outcome)
    second = write_project(asked, outcome)
    assert (first[1], second[1]) == ((), ())
    assert (first[0].fixed, second[0].fixed) == (2, 0)
    assert second[0].after == {}
    assert second[0].outcome.status == 0


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    asked, outcome = fix_two(tmp_path)
    (tmp_path / "a.py").unlink()
    assert write_project(asked, outcome)[1] == (
        "a.py: not fixed: cannot be written: No such file or directory",
    )
    assert texts(tmp_path) == {"b.py": NEW}


def test_a_directory_that_has_become_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").write_text(OLD)
    before = {"sub/a.py": Text(OLD)}
    (tmp_path / "sub" / "a.py").unlink()
    (tmp_path / "sub").rmdir()
    (tmp_path / "sub").write_text("mine")
    written = write_texts(tmp_path, before, {"sub/a.py": NEW})
    assert written.refused == {"sub/a.py": "cannot be written: Not a directory"}
    assert texts(tmp_path) == {"sub": "mine"}


def test_of_a_symbolic_link_the_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(OLD)
    (tmp_path / "sub").mkdir()
    link = tmp_path / "sub" / "link.py"
    link.symlink_to("../a.py")
    written = write_texts(tmp_path, {"sub/link.py": Text(OLD)}, {"sub/link.py": NEW})
    assert written.paths == {"sub/link.py"}
    assert link.readlink() == Path("../a.py")
    assert (tmp_path / "a.py").read_text() == NEW
    assert list(link.parent.iterdir()) == [link]


def test_a_file_that_is_named_twice_is_written_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(OLD)
    (tmp_path / "link.py").symlink_to("a.py")
    both = ("a.py", "link.py")
    written = write_texts(tmp_path, dict.fromkeys(both, Text(OLD)), dict.fromkeys(both, NEW))
    assert written.refused == {}
    assert written.paths == {"a.py"}


def test_the_other_names_of_a_file_keep_their_text_and_that_is_said(tmp_path: Path) -> None:
    asked, outcome = fix_two(tmp_path)
    (tmp_path / "copy").hardlink_to(tmp_path / "a.py")
    written, problems = write_project(asked, outcome)
    assert problems == ()
    assert texts(tmp_path) == {"a.py": NEW, "b.py": NEW, "copy": OLD}
    assert written.outcome.notices == (
        "a.py: it is no longer one file with its other names (hard links)",
    )


def test_a_read_only_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, outcome = fix_two(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    assert write_project(asked, outcome)[1] == (
        "a.py: not fixed: cannot be written: the file is read-only",
        "b.py: not fixed: cannot be written: the file is read-only",
    )
    assert texts(tmp_path) == {"a.py": OLD, "b.py": OLD}


def test_no_file_is_replaced_before_all_are_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, outcome = fix_two(tmp_path)
    seen = []
    prepare = Replacement.prepare

    def prepared(one: Replacement) -> None:
        prepare(one)
        seen.append({path.name: path.read_text() for path in tmp_path.glob("[!.]*")})

    monkeypatch.setattr(Replacement, "prepare", prepared)
    assert write_project(asked, outcome)[1] == ()
    assert seen == [{"a.py": OLD, "b.py": OLD}] * 2


@pytest.mark.parametrize(
    ("step", "at", "said", "held"),
    [
        ("prepare", 1, "written: nothing; not written: a.py, b.py", (OLD, OLD)),
        ("prepare", 2, "written: nothing; not written: a.py, b.py", (OLD, OLD)),
        ("move", 1, "written: a.py; not written: b.py", (NEW, OLD)),
        ("move", 2, "written: a.py, b.py; not written: nothing", (NEW, NEW)),
    ],
)
def test_an_interruption_says_what_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    at: int,
    said: str,
    held: tuple[str, str],
) -> None:
    """It comes right after the step, which is the worst moment to know that."""
    asked, outcome = fix_two(tmp_path)
    original = getattr(Replacement, step)
    calls = []

    def interrupted(one: Replacement) -> object:
        result = original(one)
        calls.append(one)
        if len(calls) == at:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(Replacement, step, interrupted)
    with pytest.raises(KeyboardInterrupt, match=f"^{said}$"):
        write_project(asked, outcome)
    assert texts(tmp_path) == {"a.py": held[0], "b.py": held[1]}
