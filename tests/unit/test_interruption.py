"""Runs that are stopped, that meet each other, or that the system refuses: nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from amplint.fix import writing
from amplint.run.cache import NAME, OWN
from amplint.util.replacing import Replacement, beside, left_below
from benchmarks.robustness import kills
from tests.command import LEGACY, MODERN, Amplint

ROOT = Path(__file__).resolve().parents[2]
ON_POSIX = pytest.mark.skipif(os.name != "posix", reason="the system has no such thing")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is also the current directory."""
    root = tmp_path / "project"
    fill(root)
    monkeypatch.chdir(root)
    return root


def fill(root: Path, names: Sequence[str] = ("a.py", "b.py", "c.py")) -> None:
    root.mkdir(exist_ok=True)
    (root / "pyproject.toml").touch()
    for name in names:
        (root / name).write_text(LEGACY)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A project on a file system of its own, with room for little more."""
    place = tmp_path / "mounted"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", place]
    if not ran_well(command):
        pytest.skip("only root may mount")
    fill(place)
    yield place
    subprocess.run(["umount", place], check=True)


def ran_well(command: Sequence[str | Path]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def process(
    *arguments: str, first: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`amplint` as a process of its own, in which some code runs first."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{first}\n"
        "from amplint.cli.main import main; sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
        cwd=cwd,
    )


def texts(root: Path) -> dict[str, str]:
    """All files of a project, but for what the cache keeps."""
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in root.rglob("*")
        if path.is_file() and path.parent.name != NAME and path.name != "pyproject.toml"
    }


# ------------------------------------------------------------------------------ stopped


@ON_POSIX
def test_kills_leave_each_file_old_or_new_and_nothing_after_the_next_run() -> None:
    """`python -m benchmarks.robustness kills` does the same 500 times."""
    figures = kills.measured(20)
    assert figures["failures"] == []
    assert figures["kills"] == 20


INTERRUPT_AT = """
import os, signal
from amplint.util.replacing import Replacement
move, calls = Replacement.move, []
def moved(one):
    if one.expected is not None:
        calls.append(one)
        if len(calls) == {number}:
            os.kill(os.getpid(), signal.SIGINT)
    return move(one)
Replacement.move = moved
"""


@ON_POSIX
@pytest.mark.parametrize(
    ("number", "said"),
    [
        (1, "written: nothing; not written: a.py, b.py, c.py"),
        (2, "written: a.py; not written: b.py, c.py"),
    ],
)
def test_ctrl_c_says_what_is_written(project: Path, number: int, said: str) -> None:
    ran = process("fix", "--apply", first=INTERRUPT_AT.format(number=number))
    assert ran.returncode == 130
    assert ran.stderr.splitlines()[-1] == f"amplint: interrupted: {said}"
    assert "Traceback" not in ran.stderr
    new = number - 1
    held = [MODERN] * new + [LEGACY] * (3 - new)
    assert list(dict(sorted(texts(project).items())).values()) == held


# ------------------------------------------------------------------------------ what was left


@pytest.mark.parametrize("command", [["check"], ["fix"], ["fix", "--apply"], ["clean"]])
def test_what_a_killed_run_has_left_goes_with_the_next_one(
    amplint: Amplint, project: Path, command: list[str]
) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "d.py").write_text(MODERN)
    amplint("check")
    entry = next(path for path in (project / NAME).iterdir() if path.name not in OWN)
    for file in (project / "a.py", project / "sub" / "d.py", entry):
        beside(file).write_text("half of a fi")
    (project / ".a.py.settings.amplint").write_text("mine")
    amplint(*command)
    assert list(left_below(project)) == []
    assert (project / ".a.py.settings.amplint").read_text() == "mine"


def test_what_is_left_where_no_walk_comes_goes_when_the_file_is_read_again(
    amplint: Amplint, project: Path
) -> None:
    """By a link to it, or by its name."""
    left = []
    for directory, name in (("build", "d.py"), ("dist", "e.py")):
        (project / directory).mkdir()
        (project / directory / name).write_text(MODERN)
        left.append(beside(project / directory / name))
        left[-1].touch()
    (project / "d.py").symlink_to("build/d.py")
    amplint("check")
    assert [one.exists() for one in left] == [False, True]
    amplint("check", "dist/e.py")
    assert not left[1].exists()


def test_clean_says_what_it_deletes(amplint: Amplint, project: Path) -> None:
    beside(project / "a.py").touch()
    assert amplint("clean").err == (
        f"there is no {NAME} in {project}\ndeleted 1 file left by a fix that was killed\n"
    )


# ------------------------------------------------------------------------------ two at once


def test_a_run_that_finds_all_fixed_by_another_ends_as_one_that_had_nothing_to_do(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = []
    prepared = writing.prepared

    def meanwhile(one: Replacement) -> bool:
        if not others:
            others.append(process("fix", "--apply"))
        return prepared(one)

    monkeypatch.setattr(writing, "prepared", meanwhile)
    ran = amplint("fix", "--apply")
    assert (others[0].returncode, others[0].stderr) == (0, "fixed 3 findings in 3 files\n")
    assert (ran.status, ran.err) == (0, "nothing to fix\n")
    assert texts(project) == dict.fromkeys(("a.py", "b.py", "c.py"), MODERN)


def test_what_a_user_writes_meanwhile_stays(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = LEGACY.replace("pass", "x = 1")
    prepared = writing.prepared

    def meanwhile(one: Replacement) -> bool:
        (project / "b.py").write_text(mine)
        return prepared(one)

    monkeypatch.setattr(writing, "prepared", meanwhile)
    ran = amplint("fix", "--apply")
    assert ran.status == 2
    assert texts(project) == {"a.py": MODERN, "b.py": mine, "c.py": MODERN}
    assert "b.py: not fixed: the file has changed since it was read" in ran.err
    assert "fixed 2 findings in 2 files" in ran.err


def test_many_at_once_end_well(project: Path) -> None:
    names = [f"m{number}.py" for number in range(12)]
    fill(project, names)
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from amplint.cli.main import main"
    command = [sys.executable, "-c", f"{code}; sys.exit(main())", "fix", "--apply"]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for one in started:
        out, err = one.communicate(timeout=120)
        assert one.returncode == 0, out + err
    assert texts(project) == dict.fromkeys(("a.py", "b.py", "c.py", *names), MODERN)


# ------------------------------------------------------------------------------ refused


LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"


@ON_POSIX
def test_no_room_for_a_file_leaves_all_as_they_were(project: Path) -> None:
    before = texts(project)
    ran = process("fix", "--apply", first=LIMIT.format(size=20))
    assert ran.returncode == 2
    for name in before:
        assert f"{name}: not fixed: cannot be written: File too large" in ran.stderr
    assert f"{NAME} cannot be written: File too large" in ran.stderr
    assert texts(project) == before
    assert list(left_below(project)) == []


def test_a_disk_that_is_full_leaves_files_whole(mounted: Path) -> None:
    kept = dict.fromkeys(("a.py", "b.py", "c.py"), LEGACY + "# " * 4000)
    for name, text in kept.items():  # the disk has 8 blocks, of which they take 6
        (mounted / name).write_text(text)
    ran = process("fix", "--apply", cwd=mounted)
    assert ran.returncode == 2
    assert "not fixed: cannot be written: No space left on device" in ran.stderr
    held = texts(mounted)
    for name, text in kept.items():
        was_told = f"{name}: not fixed" in ran.stderr
        assert held.pop(name) == (text if was_told else text.replace(LEGACY, MODERN))
    assert held == {}


def test_a_file_system_that_is_read_only_leaves_all_as_they_were(mounted: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    ran = process("fix", "--apply", cwd=mounted)
    assert ran.returncode == 2
    assert "a.py: not fixed: cannot be written: the file is read-only" in ran.stderr
    assert f"{NAME} cannot be written: Read-only file system" in ran.stderr
    assert set(texts(mounted).values()) == {LEGACY}


def test_a_cache_may_lie_on_another_file_system(amplint: Amplint, project: Path) -> None:
    (project / NAME).mkdir()
    if not ran_well(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", project / NAME]):
        pytest.skip("only root may mount")
    try:
        first = amplint("check")
        assert first.err == ""
        assert len(list((project / NAME).iterdir())) > len(OWN)
        assert amplint("check") == first
    finally:
        subprocess.run(["umount", project / NAME], check=True)
