"""Paths as they are written, those of Windows too: `ntpath` is the `os.path` of that system."""

from __future__ import annotations

import ntpath
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from amplint.project import discover
from amplint.project.config import ConfigError, Settings, directories
from amplint.server import addresses
from amplint.util import paths
from amplint.util.errors import Failure

WORK = r"C:\Work\proj"


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these modules see of Windows; whatever is not about paths is this system's."""
    system = SimpleNamespace(path=ntpath, sep="\\", PathLike=os.PathLike)
    for module in (paths, discover):
        monkeypatch.setattr(module, "os", system)


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize(
    ("directory", "path", "seen"),
    [
        (WORK, r"C:\Work\proj\src\a.py", "src/a.py"),
        (WORK, "C:/Work/proj/src/a.py", "src/a.py"),
        (WORK, r"c:\work\PROJ\src\a.py", "src/a.py"),
        (WORK, r"C:\Work\other\a.py", "../other/a.py"),
        (WORK, r"D:\other\a.py", "D:/other/a.py"),
        (WORK, r"\\host\share\a.py", "//host/share/a.py"),
    ],
)
def test_a_path_of_windows(directory: str, path: str, seen: str) -> None:
    """For one of another drive, `os.path.relpath` ended the command."""
    assert paths.seen_from(directory, path) == seen


def test_a_path_of_this_system() -> None:
    assert paths.seen_from("/home/proj", "/home/other\\s/a.py") == "../other\\s/a.py"
    assert paths.without_drive("c:/a.py") == "c:/a.py"


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("file", [r"C:\Work\proj\src\a.py", r"D:\src\a.py", r"C:\Work\src\a.py"])
def test_patterns_meet_the_path_below_the_drive(file: str) -> None:
    """As they meet the path below all `..`, where the settings are of another directory."""
    assert Settings(Path(WORK)).relative(Path(file), "exclude") == "src/a.py"


@pytest.mark.usefixtures("windows")
def test_paths_on_several_drives_are_refused() -> None:
    assert discover.above_all([r"C:\Work\a", r"c:\work\b"]) == r"C:\Work"
    with pytest.raises(Failure, match="several drives"):
        discover.above_all([r"C:\Work", r"D:\Work"])


def test_roots_have_forward_slashes() -> None:
    """With others, they met no directory, without a word."""
    with pytest.raises(ConfigError, match="is not a directory like"):
        directories(["packages\\*"], "`roots`")


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c%3A/Users/M%C3%BCller/a.py", "c:/Users/Müller/a.py"),
        ("file:///C:/a%20b.py", "c:/a b.py"),
        ("file://host/share/a.py", "//host/share/a.py"),
    ],
)
def test_an_editor_names_a_file_of_windows(
    monkeypatch: pytest.MonkeyPatch, uri: str, path: str
) -> None:
    monkeypatch.setattr(addresses, "os", SimpleNamespace(name="nt", fsdecode=os.fsdecode))
    assert addresses.path_of(uri) == path
