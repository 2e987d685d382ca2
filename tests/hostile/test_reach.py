"""No file outside of the project is written or deleted, and none is read that nobody has named."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.adoption import baseline
from amplint.run import seal, watched
from amplint.run.cache import MAGIC, MOST_AGE, NAME, TAG
from amplint.util import files
from tests.command import LEGACY, Amplint

Shot = dict[str, tuple[bytes, int, int]]


def shot(directory: Path) -> Shot:
    """All that is known of the files below a directory."""
    return {
        str(file.relative_to(directory)): (
            file.read_bytes() if file.is_file() else b"",
            file.lstat().st_mode,
            file.lstat().st_mtime_ns,
        )
        for file in sorted(directory.rglob("*"))
    }


@pytest.fixture
def private(home: Path) -> Path:
    """The home directory with files that nobody has touched for long."""
    for name in ("id_rsa", "notes.txt", TAG):
        (home / name).write_text(f"{name} of the user\n")
        then = time.time() - 2 * MOST_AGE
        os.utime(home / name, (then, then))
    return home


# ------------------------------------------------------------------------------------- the cache


def test_a_cache_that_is_a_link_is_neither_written_nor_emptied(
    repository: Path, private: Path, amplint: Amplint
) -> None:
    before = shot(private)
    (repository / NAME).symlink_to(private, target_is_directory=True)
    done = amplint("check")
    assert done.status == 1
    assert f"{NAME} cannot be written: it is a link" in done.err
    amplint("fix", "--apply")
    assert "there is no" in amplint("clean").err
    assert shot(private) == before


def test_links_in_the_cache_are_not_followed(
    repository: Path, private: Path, amplint: Amplint
) -> None:
    amplint("check")
    (entry,) = (each for each in (repository / NAME).iterdir() if len(each.name) == 32)
    (repository / NAME / ".gitignore").unlink()
    (repository / NAME / ".gitignore").symlink_to(private / "made")
    entry.unlink()
    entry.symlink_to(private / "id_rsa")
    (repository / NAME / "old").symlink_to(private / "notes.txt")
    before = shot(private)
    done = amplint("check")
    assert "a link stands in place" in done.err
    assert done.status == 1
    assert shot(private) == before
    assert not entry.is_symlink()


def test_an_entry_that_is_no_file_or_too_large_is_ignored(
    repository: Path, amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = amplint("check")
    (entry,) = (each for each in (repository / NAME).iterdir() if len(each.name) == 32)
    entry.unlink()
    os.mkfifo(entry)
    done = amplint("check")
    assert "is ignored: it is not a regular file" in done.err
    assert (done.status, done.out) == (first.status, first.out)
    monkeypatch.setattr("amplint.run.cache.MOST_BYTES", 10)
    assert "is ignored: it has more than 10 bytes" in amplint("check").err


def forged(name: str, body: bytes, key: bytes) -> bytes:
    return MAGIC + seal.seal(key, name, body).encode() + b"\n" + body


@pytest.mark.parametrize("command", [("check",), ("fix", "--apply")], ids=" ".join)
def test_a_cache_that_came_with_the_repository_hides_nothing_and_fixes_nothing(
    repository: Path, amplint: Amplint, command: tuple[str, ...]
) -> None:
    """A stranger runs the same amplint on the same files, and puts other findings in the entry."""
    amplint("check")
    (entry,) = (each for each in (repository / NAME).iterdir() if len(each.name) == 32)
    _, _, body = entry.read_bytes().partition(b"\n")
    assert b"AMP" in body
    clean = b'{"findings":[],"problems":[],"notices":[]}'
    evil = body.replace(b"torch.amp.autocast", b"evil.run").replace(b"amp.autocast", b"evil.run")
    assert evil != body
    for forgery in (clean, evil):
        (repository / "a.py").write_text(LEGACY)
        entry.write_bytes(forged(entry.name, forgery, b"the stranger's own key"))
        done = amplint(*command)
        assert "is ignored: it was not written by amplint for this user" in done.err
        assert (done.status == 1) is (command == ("check",))
        assert "evil" not in (repository / "a.py").read_text() + done.out
    # With the key of the user it would count: it is the key that holds this.
    (repository / "a.py").write_text(LEGACY)
    entry.write_bytes(forged(entry.name, clean, seal.key_of_user()))
    assert amplint("check").status == 0


@pytest.mark.usefixtures("repository")
def test_who_says_that_a_project_is_checked_decides_nothing(
    amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that another process can say to a run is that there may be something in the cache."""
    found = amplint("check", "--no-cache")
    monkeypatch.setattr(watched, "is_checked", lambda *_: True)
    assert amplint("check") == found


# ------------------------------------------------------------------------------------- its key


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs keep what they need, with no key in a variable."""
    monkeypatch.delenv(seal.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_key_is_made_once_and_for_this_user_alone(state: Path) -> None:
    key = seal.key_of_user()
    assert key == seal.key_of_user()
    (file,) = (state / "amplint").iterdir()
    assert file.read_bytes() == key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_key_that_another_process_has_made_meanwhile_stays(state: Path) -> None:
    key = seal.key_of_user()
    seal.make(state / seal.FILE)
    assert seal.key_of_user() == key
    assert len(list((state / "amplint").iterdir())) == 1


def test_a_key_may_be_given(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(seal.VARIABLE, "one")
    one = seal.key_of_user()
    monkeypatch.setenv(seal.VARIABLE, "two")
    assert seal.key_of_user() != one
    assert not state.exists()


def test_the_key_never_lies_in_the_project(
    repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(seal.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(home))
    seal.key_of_user()
    assert not (repository / "relative").exists()
    assert (home / ".local" / "state" / seal.FILE).is_file()


def test_without_a_place_for_the_key_nothing_is_kept(
    state: Path, repository: Path, amplint: Amplint
) -> None:
    state.write_text("no directory")
    done = amplint("check")
    assert done.status == 1
    assert f"{NAME} is not used: it has no key" in done.err
    assert not (repository / NAME).exists()


@pytest.mark.usefixtures("repository")
def test_a_damaged_key_is_told(state: Path, amplint: Amplint) -> None:
    seal.key_of_user()
    (state / seal.FILE).write_bytes(b"short")
    assert f"{seal.FILE} is damaged; delete it" in amplint("check").err


# ------------------------------------------------------------------------------------- baseline


@pytest.mark.parametrize("named", ["../home/notes.txt", "{home}/notes.txt", "inside/notes.txt"])
def test_the_configuration_names_no_baseline_outside(
    repository: Path, private: Path, amplint: Amplint, named: str
) -> None:
    (repository / "inside").symlink_to(private, target_is_directory=True)
    settings = f'[tool.amplint]\nbaseline = "{named.format(home=private)}"\n'
    (repository / "pyproject.toml").write_text(settings)
    before = shot(private)
    for command in (("baseline",), ("baseline", "--update"), ("check",), ("fix",)):
        done = amplint(*command)
        assert done.status == 2
        assert "lies outside of the project; name it by --baseline" in done.err
    assert shot(private) == before


@pytest.mark.usefixtures("repository")
def test_the_user_may_name_a_baseline_anywhere(home: Path, amplint: Amplint) -> None:
    assert amplint("baseline", "--baseline", str(home / "known.json")).status == 0
    assert amplint("check", "--baseline", str(home / "known.json")).status == 0


def test_a_baseline_that_is_a_link_out_of_the_project_is_refused(
    repository: Path, private: Path, amplint: Amplint
) -> None:
    (repository / baseline.NAME).symlink_to(private / "notes.txt")
    before = shot(private)
    assert amplint("baseline").status == 2
    assert amplint("check").status == 2
    assert shot(private) == before


def test_a_link_in_the_place_of_the_new_baseline_is_not_followed(
    repository: Path, private: Path, amplint: Amplint
) -> None:
    planted = repository / f".{baseline.NAME}.{os.getpid()}.amplint"
    planted.symlink_to(private / "notes.txt")
    before = shot(private)
    amplint("baseline")
    assert shot(private) == before


# ------------------------------------------------------------------------------------- sources


def test_fix_writes_through_no_link_out_of_the_project(
    repository: Path, home: Path, amplint: Amplint
) -> None:
    (home / "mine.py").write_text(LEGACY)
    (repository / "b.py").symlink_to(home / "mine.py")
    (repository / "src").symlink_to(home, target_is_directory=True)
    before = shot(home)
    for named in ((), ("b.py",), ("src",), ("src/mine.py",)):
        amplint("fix", "--apply", *named)
        amplint("check", "--add-ignores", "known", *named)
        assert shot(home) == before
    done = amplint("fix", "--apply", "b.py")
    assert done.status == 2
    assert "b.py: not fixed: it is a link to a file outside of the project" in done.err


def test_a_walk_shows_nothing_of_a_file_outside(
    repository: Path, private: Path, amplint: Amplint
) -> None:
    (repository / "key.py").symlink_to(private / "id_rsa")
    (repository / "inner").symlink_to(private, target_is_directory=True)
    done = amplint("check", "--no-cache")
    assert "of the user" not in done.out + done.err
    assert "links that lead out of the project were not followed (1)" in done.err


@pytest.mark.parametrize(
    ("path", "root", "out"),
    [
        ("r/a", "r", False),
        ("r", "r", False),
        ("r/a", "/", False),
        ("ra", "r", True),
        ("r/../b", "r", True),
        ("r/out", "r", True),
        ("r/out/a", "r", True),
        ("r/in/a", "r", False),
        ("to-r/a", "r", False),
        ("r/a", "to-r", False),
    ],
)
def test_leads_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, root: str, out: bool
) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "out").symlink_to(tmp_path)
    (tmp_path / "r" / "in").symlink_to(tmp_path / "r")
    (tmp_path / "to-r").symlink_to("r")
    monkeypatch.chdir(tmp_path)
    assert files.leads_out(path, root) is out


# ------------------------------------------------------------------------------------- no files

SPECIAL: list[Callable[[Path], None]] = [
    os.mkfifo,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/dev/stdin"),
    lambda path: path.symlink_to(path.name),
    Path.mkdir,
]
KINDS = ["pipe", "zeros", "input", "circle", "directory"]
READ_UNASKED = (
    "b.py", "b.ipynb", ".gitignore", "setup.cfg", "setup.py", "requirements.txt", ".flake8",
    "ruff.toml", "tox.ini",
)  # fmt: skip


@pytest.mark.parametrize("make", SPECIAL, ids=KINDS)
@pytest.mark.parametrize("command", [("check",), ("fix", "--apply")], ids=" ".join)
def test_what_only_looks_like_a_file_stops_nothing(
    repository: Path, amplint: Amplint, make: Callable[[Path], None], command: tuple[str, ...]
) -> None:
    (repository / "pyproject.toml").unlink()
    (repository / ".git").mkdir()
    for name in (*READ_UNASKED, NAME, baseline.NAME):
        if name != baseline.NAME:
            make(repository / name)
    done = amplint(*command)
    assert done.status == (1 if command == ("check",) else 0)


@pytest.mark.parametrize("make", SPECIAL, ids=KINDS)
@pytest.mark.parametrize("name", ["b.py", "pyproject.toml", baseline.NAME])
def test_what_is_named_and_is_no_file_is_refused(
    repository: Path, amplint: Amplint, make: Callable[[Path], None], name: str
) -> None:
    (repository / name).unlink(missing_ok=True)
    make(repository / name)
    arguments = {"b.py": ("b.py",), "pyproject.toml": ("--config", name)}.get(name, ())
    done = amplint("check", *arguments)
    is_directory = name == "b.py" and (repository / name).is_dir()
    assert done.status == (0 if is_directory else 2)


@pytest.mark.usefixtures("repository")
def test_a_file_that_is_too_large_is_reported(
    amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amplint.project.reading.MOST_CHARACTERS", len(LEGACY) - 1)
    done = amplint("check", "--no-cache", "--format", "concise")
    assert (done.status, done.out) == (0, "")
    assert "a.py: not checked: it has more than" in done.err
    monkeypatch.setattr(files, "MOST_BYTES", len(LEGACY) - 1)
    done = amplint("check", "--no-cache")
    assert done.status == 2
    assert f"a.py: cannot be read: it has more than {len(LEGACY) - 1} bytes" in done.err
