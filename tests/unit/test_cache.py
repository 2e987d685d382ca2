"""What is kept of earlier runs: when it is taken, when it is not, and that nothing can break it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import amplint
from amplint.cli import main as cli
from amplint.output import FORMATS
from amplint.run import cache as caching
from amplint.run import session
from amplint.run.cache import NAME, OWN, TAG, Cache, key_of
from amplint.run.request import AnalysisResult
from amplint.run.seal import key_of_user, seal
from amplint.util.replacing import beside, left_in
from tests.command import LEGACY, MODERN, Amplint, Ran

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").touch()
    (root / "a.py").write_text(LEGACY)
    (root / "b.py").write_text("x = 1\n")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each analysis."""
    counted: list[int] = []
    original = session.analyse

    def analyse(*arguments: object) -> object:
        counted.append(1)
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "analyse", analyse)
    return counted


Check = Callable[..., Ran]


@pytest.fixture
def check(amplint: Amplint) -> Check:
    return lambda *arguments: amplint("check", "--format", "concise", *arguments)


def entries(root: Path) -> list[Path]:
    return [file for file in (root / NAME).iterdir() if file.name not in (TAG, ".gitignore")]


def test_the_second_run_says_the_same_and_analyses_nothing(check: Check, runs: list[int]) -> None:
    for format_ in FORMATS:
        first = check("--format", format_)
        runs.clear()
        assert check("--format", format_) == first
        assert not runs


@pytest.mark.parametrize(
    "arguments",
    [
        ["--select", "AMP1"],
        ["--target-torch", "2.0"],
        ["--per-file-ignores", "a.py:AMP7"],
    ],
)
def test_other_questions_are_other_runs(
    check: Check, runs: list[int], arguments: list[str]
) -> None:
    check()
    check(*arguments)
    assert len(runs) == 2
    check(*arguments)
    assert len(runs) == 2


def test_a_check_of_all_files_answers_for_some(check: Check, runs: list[int], tree: Path) -> None:
    """As a hook asks, which is given the files of a commit."""
    (tree / "c.py").write_text(LEGACY)
    alone = [check("--no-cache", *paths) for paths in (["a.py"], ["b.py", "c.py"])]
    check()
    runs.clear()
    assert [check("a.py"), check("b.py", "c.py")] == alone
    assert not runs
    (tree / "b.py").write_text("x = 2\n")
    assert check("a.py") == alone[0]
    assert runs


def test_an_answer_for_some_files_is_none_for_all(check: Check, tree: Path) -> None:
    (tree / "c.py").write_text(LEGACY)
    check("a.py")
    assert check()[1].count("AMP701") == 2


def test_a_change_and_its_undoing(tree: Path, check: Check, runs: list[int]) -> None:
    first = check()
    (tree / "a.py").write_text(MODERN)
    assert check()[0] == 0
    assert len(runs) == 2
    (tree / "a.py").write_text(LEGACY)
    assert check() == first
    assert len(runs) == 2


def test_a_new_file_and_one_that_is_gone_are_changes(
    tree: Path, check: Check, runs: list[int]
) -> None:
    check()
    (tree / "c.py").write_text("x = 1\n")
    check()
    (tree / "b.py").unlink()
    check()
    assert len(runs) == 3


def test_no_cache_takes_nothing_and_keeps_nothing(
    tree: Path, check: Check, runs: list[int]
) -> None:
    check("--no-cache")
    assert not (tree / NAME).exists()
    check()
    check("--no-cache")
    assert len(runs) == 3


def test_another_amplint_takes_nothing_of_this_one(
    check: Check, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    monkeypatch.setattr(caching, "environment", lambda: ["another"])
    check()
    assert len(runs) == 2


def test_a_wrong_setting_is_an_error_each_time(check: Check) -> None:
    for _ in range(2):
        status, _, err = check("--select", "AMP999")
        assert status == 2
        assert "there is no rule `AMP999`" in err


def test_a_directory_may_be_carried_elsewhere(
    tree: Path, check: Check, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = check()
    tree.rename(tree.with_name("elsewhere"))
    monkeypatch.chdir(tree.with_name("elsewhere"))
    assert check() == first
    assert len(runs) == 1


def sealed(name: str, body: bytes) -> bytes:
    """An entry with the seal of this user."""
    return caching.MAGIC + seal(key_of_user(), name, body).encode() + b"\n" + body


@pytest.mark.parametrize(
    "content",
    [
        lambda *_: b"",
        lambda *_: b"\x80\x04\x95 as a pickle begins",
        lambda *_: os.urandom(200),
        lambda name, _: sealed(name, b"[]"),
        lambda name, _: sealed(name, b'{"findings": 1}'),
        lambda name, _: sealed(name, b'{"findings": [], "problems": [], "notices": [1]}'),
        lambda _, entry: sealed("another", entry.partition(b"\n")[2]),
        lambda _, entry: entry[:-10],
    ],
    ids=["empty", "pickle", "random", "list", "wrong type", "wrong inside", "renamed", "cut"],
)
def test_a_damaged_or_foreign_entry_is_ignored_with_a_word(
    tree: Path,
    check: Check,
    runs: list[int],
    content: Callable[[str, bytes], bytes],
) -> None:
    status, out, _ = check()
    (entry,) = entries(tree)
    entry.write_bytes(content(entry.name, entry.read_bytes()))
    again = check()
    assert again[:2] == (status, out)
    assert f"{NAME}/{entry.name} is ignored" in again[2]
    assert len(runs) == 2
    assert check() == (status, out, "")  # it was written anew
    assert len(runs) == 2


def test_a_place_that_cannot_be_written_is_no_error(tree: Path, check: Check) -> None:
    (tree / NAME).write_text("a file, where the directory would be")
    status, _, err = check()
    assert status == 1
    assert "cannot be written" in err


def test_problems_are_told_each_time(check: Check) -> None:
    first = check("a.py", "gone.py")
    assert first[0] == 2
    assert check("a.py", "gone.py") == first


def test_entries_of_no_use_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path / NAME)
    told = AnalysisResult((), (), ("x" * 1000,))
    for name in ("old", "older", "used"):
        cache.put(name, told)
        then = time.time() - caching.MOST_AGE - 60
        os.utime(tmp_path / NAME / name, (then, then))
    assert cache.get("used", AnalysisResult) == told  # which makes it of use
    cache.put("new", told)
    assert sorted(file.name for file in entries(tmp_path)) == ["new", "used"]
    monkeypatch.setattr(caching, "MOST_BYTES", 2500)
    os.utime(tmp_path / NAME / "used", (then + 3600, then + 3600))
    cache.put("newer", told)
    assert sorted(file.name for file in entries(tmp_path)) == ["new", "newer"]
    assert not cache.notices


def test_an_entry_of_the_future_is_no_newer_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock was set back: such entries would hold their room until that time has come."""
    cache = Cache(tmp_path / NAME)
    told = AnalysisResult((), (), ("x" * 1000,))
    for name, days in (("next week", 7), ("next year", 365), ("yesterday", -1)):
        cache.put(name, told)
        then = time.time() + days * 24 * 3600
        os.utime(tmp_path / NAME / name, (then, then))
    cache.put("new", told)
    assert sorted(file.name for file in entries(tmp_path)) == ["new", "next week", "yesterday"]
    size = (tmp_path / NAME / "new").stat().st_size
    monkeypatch.setattr(caching, "MOST_BYTES", 3 * size + size // 2)
    cache.put("newer", told)
    assert sorted(file.name for file in entries(tmp_path)) == ["new", "newer", "yesterday"]


@pytest.mark.parametrize("days", [0, 7, -7])
def test_times_of_files_say_nothing(tree: Path, check: Check, days: int) -> None:
    """The content has changed, its size has not, and the time is as it was, or is set back."""
    (tree / "a.py").write_text(MODERN + "x = 1\n" * 9)
    before = (tree / "a.py").stat()
    assert check()[0] == 0
    (tree / "a.py").write_text(LEGACY.ljust(before.st_size))
    then = before.st_mtime + days * 24 * 3600
    os.utime(tree / "a.py", (then, then))
    assert (tree / "a.py").stat().st_size == before.st_size
    cached = check()
    assert cached[0] == 1
    assert check("--no-cache") == cached


def test_an_entry_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / NAME)
    cache.put("known", AnalysisResult((), (), ()))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    cache.put("new", AnalysisResult((), (), ()))
    assert cache.notices == [
        f"{NAME} cannot be written: No space left on device (--no-cache runs without it)"
    ]
    assert [file.name for file in entries(tmp_path)] == ["known"]


def test_a_directory_that_was_made_and_not_marked_is_taken_up_and_can_be_cleaned(
    tree: Path, check: Check
) -> None:
    """The run was killed before it wrote into it."""
    (tree / NAME).mkdir()
    assert cli.main(["clean"]) == 0
    assert not (tree / NAME).exists()
    (tree / NAME).mkdir()
    beside(tree / NAME / TAG).write_text("Signa")
    check()
    assert {name: (tree / NAME / name).read_bytes() for name in OWN} == OWN
    assert not left_in(tree / NAME)


def test_clean_of_a_link_says_that_there_is_none(
    tree: Path, tmp_path: Path, amplint: Amplint
) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / TAG).write_bytes(OWN[TAG])
    left = beside(place / "entry")
    left.touch()
    (tree / NAME).symlink_to(place)
    ran = amplint("clean")
    assert ran.status == 0 and "there is no" in ran.err
    assert sorted(place.iterdir()) == sorted([left, place / TAG])


def test_clean_leaves_a_directory_that_another_tool_has_marked(
    tree: Path, amplint: Amplint
) -> None:
    (tree / NAME).mkdir()
    (tree / NAME / TAG).write_text(
        "Signature: 8a477f597d28d172789f06886806bc55\n# Made by cargo.\n"
    )
    ran = amplint("clean")
    assert ran.status == 0 and "there is no" in ran.err
    assert (tree / NAME / TAG).exists()


def test_a_directory_that_cannot_be_deleted_is_2(
    tree: Path, check: Check, amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    check()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "rmdir", refuse)
    ran = amplint("clean")
    assert ran.status == 2 and f"{tree / NAME}: cannot be deleted: Permission denied" in ran.err


def test_clean_deletes_what_amplint_has_made_and_nothing_else(tree: Path, check: Check) -> None:
    assert cli.main(["clean"]) == 0
    check()
    assert (tree / NAME / ".gitignore").read_text() == "*\n"
    (tree / "inner").mkdir()
    assert cli.main(["clean", "inner"]) == 0
    assert not (tree / NAME).exists()
    (tree / NAME).mkdir()
    (tree / NAME / "mine.txt").write_text("not made by amplint")
    assert cli.main(["clean"]) == 0
    assert (tree / NAME / "mine.txt").exists()


def test_a_new_file_in_a_new_room_is_another_amplint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "room").mkdir()
    for path in ("__init__.py", "room/module.py"):
        (tmp_path / path).write_text("x = 1\n")
    monkeypatch.setattr(amplint, "__file__", str(tmp_path / "__init__.py"))
    environments = [caching.environment.__wrapped__()]
    (tmp_path / "new" / "inner").mkdir(parents=True)
    (tmp_path / "new" / "inner" / "module.py").write_text("x = 1\n")
    environments.append(caching.environment.__wrapped__())
    (tmp_path / "new" / "inner" / "module.py").write_text("x = 2\n")
    environments.append(caching.environment.__wrapped__())
    assert len(set(map(tuple, environments))) == 3


def test_keys_tell_parts_apart() -> None:
    assert key_of("a", "b") == key_of("a", "b")
    assert len({key_of("a", "b"), key_of("ab"), key_of(["a", "b"]), key_of("b", "a")}) == 4


COMMAND = [
    sys.executable,
    "-c",
    f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r});"
    "from amplint.cli.main import main; status = main();"
    "print(sorted({'libcst', 'torch', 'amplint.rules', 'amplint.run.session'} & set(sys.modules)),"
    "file=sys.stderr); sys.exit(status)",
    "check",
    "--format",
    "json",
]


def test_many_processes_at_once_say_the_same(tree: Path) -> None:
    """As pre-commit runs them: batches of files, in parallel, in one project."""
    for number in range(6):
        (tree / f"m{number}.py").write_text(LEGACY)
    batches = [["m0.py", "m1.py"], ["m2.py"], ["m3.py", "m4.py"], ["m5.py"], ["."], ["."]]
    started = [
        subprocess.Popen([*COMMAND, *batch], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for batch in batches
    ]
    for batch, process in zip(batches, started, strict=True):
        out, _ = process.communicate(timeout=120)
        found = sorted(one["filename"] for one in json.loads(out))
        asked = batch if batch != ["."] else ["a.py", *(f"m{number}.py" for number in range(6))]
        assert found == sorted(asked)
        assert process.returncode == 1
    assert not left_in(tree / NAME)


def test_a_run_from_the_cache_imports_neither_libcst_nor_the_rules() -> None:
    first, second = (
        subprocess.run(COMMAND, capture_output=True, check=False, timeout=120) for _ in range(2)
    )
    assert first.stdout == second.stdout
    assert b"libcst" in first.stderr
    assert second.stderr.splitlines() == [b"[]"]


def test_a_directory_that_another_process_cleans_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / NAME)

    def cleaned(directory: Path) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(directory))

    monkeypatch.setattr(os, "scandir", cleaned)
    cache.put("key", AnalysisResult((), (), ()))
    assert cache.notices == [
        f"{NAME} cannot be written: No such file or directory (--no-cache runs without it)"
    ]
