"""A file is replaced whole or not at all, and what is left of that is found and deleted."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from amplint.util import replacing
from amplint.util.replacing import (
    ChangedOnDiskError,
    Replacement,
    beside,
    delete,
    is_left,
    left_in,
    replace_file,
)

OLD, NEW = b"old\n", b"new\n"
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(OLD)
    return path


@pytest.fixture
def fixed_file(file: Path) -> Iterator[Path]:
    """A file in a directory in which nothing can be made, not even by root."""
    try:
        subprocess.run(["chattr", "+i", file.parent], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no directory can be made immutable here")
    yield file
    subprocess.run(["chattr", "-i", file.parent], check=True)


def replaced(file: Path, expected: bytes | None = OLD) -> bool:
    one = Replacement(file, NEW, expected)
    try:
        one.prepare()
        return one.move()
    finally:
        one.discard()


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def is_as_it_was(file: Path) -> bool:
    return file.read_bytes() == OLD and names(file.parent) == [file.name]


# ------------------------------------------------------------------------------ the new file


def test_mode_bits_stay_and_nothing_is_left_beside(file: Path) -> None:
    file.chmod(0o751)
    assert replaced(file)
    assert file.read_bytes() == NEW
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert names(file.parent) == ["a.py"]


@needs_root
def test_owner_and_group_stay(file: Path) -> None:
    os.chown(file, 1234, 2345)
    file.chmod(0o640)
    assert replaced(file)
    made = file.stat()
    assert (made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)) == (1234, 2345, 0o640)


@needs_root
def test_a_file_whose_owner_cannot_be_kept_is_left(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(file, 1234, 2345)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(PermissionError, match="its owner and group cannot be kept"):
        replaced(file)
    assert is_as_it_was(file)


def test_attributes_stay(file: Path) -> None:
    try:
        os.setxattr(file, "user.note", b"mine")
    except (AttributeError, OSError):
        pytest.skip("the file system has no attributes")
    assert replaced(file)
    assert os.getxattr(file, "user.note") == b"mine"


def test_what_is_written_can_be_read_by_nobody_else_before_it_has_the_mode_bits(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.chmod(0o600)
    modes = []

    def fsync(handle: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(handle).st_mode))

    monkeypatch.setattr(os, "fsync", fsync)
    assert replaced(file)
    assert modes == [0o600]


def test_the_content_is_on_the_disk_before_it_takes_its_place(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = []

    def fsync(handle: int) -> None:
        flushed.append((os.fstat(handle).st_size, file.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    assert replaced(file)
    assert flushed == [(len(NEW), OLD)]


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    file = tmp_path / ("é" * 126 + ".py")  # 255 bytes
    file.write_bytes(OLD)
    assert replaced(file)
    assert file.read_bytes() == NEW


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    replace_file(tmp_path / "a.py", NEW)
    assert (tmp_path / "a.py").read_bytes() == NEW
    usual = tmp_path / "usual"
    usual.touch()
    assert (tmp_path / "a.py").stat().st_mode == usual.stat().st_mode


# ------------------------------------------------------------------------------ it stays as it was


def test_a_file_that_has_changed_is_left(file: Path) -> None:
    with pytest.raises(ChangedOnDiskError):
        replaced(file, b"older\n")
    assert is_as_it_was(file)


def test_a_file_that_changes_at_the_last_moment_is_left(file: Path) -> None:
    one = Replacement(file, NEW, OLD)
    one.prepare()
    file.write_bytes(b"newer\n")
    with pytest.raises(ChangedOnDiskError):
        one.move()
    one.discard()
    assert file.read_bytes() == b"newer\n"
    assert names(file.parent) == ["a.py"]


def test_a_file_that_holds_the_new_content_is_not_replaced(file: Path) -> None:
    one = Replacement(file, NEW, OLD)
    one.prepare()
    file.write_bytes(NEW)
    number = file.stat().st_ino
    assert not one.move()
    assert file.stat().st_ino == number


def test_a_file_that_vanishes_does_not_come_back(file: Path) -> None:
    one = Replacement(file, NEW, OLD)
    one.prepare()
    file.unlink()
    with pytest.raises(FileNotFoundError):
        one.move()
    one.discard()
    assert names(file.parent) == []


@pytest.mark.parametrize("step", ["attributes", "fsync", "replace"])
def test_a_disk_that_is_full_leaves_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if step == "attributes":
        monkeypatch.setattr(replacing, "take_after", full)
    elif step == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        replaced(file)
    assert is_as_it_was(file)


def test_an_interruption_while_it_is_written_leaves_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replaced(file)
    assert is_as_it_was(file)


def test_a_directory_in_which_nothing_can_be_made_leaves_the_file(fixed_file: Path) -> None:
    with pytest.raises(OSError, match=r"denied|not permitted"):
        replaced(fixed_file)
    assert is_as_it_was(fixed_file)


def test_a_pipe_is_not_waited_for(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(OSError, match="not a regular file"):
        replaced(file)


# ------------------------------------------------------------------------------ what is left


def test_names_that_are_given_are_known_again(tmp_path: Path) -> None:
    for name in ("a.py", "é" * 126 + ".py", "\udcff.py", "a\nb.py", "."):
        assert is_left(beside(tmp_path / "x" if name == "." else tmp_path / name).name)


@pytest.mark.parametrize(
    "name",
    [
        "a.py",
        ".amplint",
        ".a.py.amplint",
        ".a.py.settings.amplint",  # as long a name as `mkstemp` once gave
        f".a.py.{'0' * 32}.amplint",
        f".a.py.{'0123456789abcdef' * 2}.amplint",
    ],
)
def test_no_file_of_a_user_is_taken_for_one(name: str) -> None:
    assert not is_left(name)


def test_a_name_is_known_as_a_whole_alone() -> None:
    name = beside(Path("/a.py")).name
    assert is_left(name)
    assert not any(map(is_left, (f"{name}~", name[1:], name.upper())))


def test_only_files_are_deleted(tmp_path: Path, file: Path) -> None:
    left, directory, link = (beside(file) for _ in range(3))
    left.write_bytes(NEW)
    directory.mkdir()
    link.symlink_to(file)
    assert delete(left_in(tmp_path)) == 1
    assert sorted(tmp_path.iterdir()) == sorted([file, directory, link])
    assert left_in(tmp_path / "not there") == []


def test_a_run_that_begins_takes_nothing_from_one_that_writes(file: Path) -> None:
    """It cannot know that the other still lives."""
    one = Replacement(file, NEW, OLD)
    one.prepare()
    assert delete(left_in(file.parent)) == 1
    assert one.move()
    assert file.read_bytes() == NEW
    assert names(file.parent) == ["a.py"]


def test_a_directory_that_is_gone_ends_the_tries(file: Path) -> None:
    one = Replacement(file.parent / "sub" / "b.py", NEW)
    one.target.parent.mkdir()
    one.prepare()
    delete(left_in(one.target.parent))
    one.target.parent.rmdir()
    with pytest.raises(FileNotFoundError):
        one.move()
