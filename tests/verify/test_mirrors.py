"""Mirrors: what they hold, and that nothing run in them writes the tree they were made of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from amplint_verify.runs import mirrors
from amplint_verify.runs.mirrors import mirror
from tests.helpers import write

TREE = {
    "pkg/__init__.py": b"",
    "pkg/a.py": b"from . import b\nHERE = __file__\n",
    "pkg/b.py": b"x = 1\r\n",
    "pkg/__pycache__/a.pyc": b"old",
    ".git/config": b"",
    "env/pyvenv.cfg": b"",
    "env/lib/c.py": b"",
    "data/words.txt": b"some words",
    "pyproject.toml": b"",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(TREE, tmp_path / "tree")


def test_copies_and_overlays(tree: Path, tmp_path: Path) -> None:
    copy = mirror(tree, tmp_path / "copy", overlays={"pkg/b.py": b"x = 2\r\n"})
    held = {p.relative_to(copy.root).as_posix() for p in copy.root.rglob("*") if p.is_file()}
    assert held == {
        "pkg/__init__.py", "pkg/a.py", "pkg/b.py", "data/words.txt", "pyproject.toml",
    }  # fmt: skip
    assert (copy.root / "pkg/b.py").read_bytes() == b"x = 2\r\n"
    assert (tree / "pkg/b.py").read_bytes() == b"x = 1\r\n"
    assert copy.linked == ()
    assert copy.line("pkg/a.py", 2) == "HERE = __file__"
    assert (copy.line("pkg/a.py", 3), copy.line("no.py", 1)) == ("", "")


def test_what_is_large_is_linked(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory with Python files of the project is copied all the same, and so are those."""
    monkeypatch.setattr(mirrors, "LARGE_FILE", 20)
    monkeypatch.setattr(mirrors, "LARGE_DIRECTORY", 50)
    write({"pkg/weights.bin": b"0" * 60, "images/1.png": b"0" * 60, "big.py": b"#" * 60}, tree)
    copy = mirror(tree, tmp_path / "copy", files=["pkg/a.py", "big.py"])
    assert copy.linked == ("images/", "pkg/weights.bin")
    assert (copy.root / "images/1.png").read_bytes() == b"0" * 60
    assert not (copy.root / "big.py").is_symlink()
    assert (copy.root / "images/1.png").is_symlink()
    (copy.root / "images/new").mkdir()
    assert not (tree / "images/new").exists()


def test_many_files_are_linked(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "MANY_FILES", 3)
    write({f"images/{number}.png": b"" for number in range(4)}, tree)
    assert mirror(tree, tmp_path / "copy", files=["pkg/a.py"]).linked == ("images/",)


def test_links_lead_into_the_copy(tree: Path, tmp_path: Path) -> None:
    outside = write({"x.txt": b""}, tmp_path / "outside")
    (tree / "inside").symlink_to("pkg")
    (tree / "outside").symlink_to(outside)
    (tree / "loop").symlink_to("loop")
    copy = mirror(tree, tmp_path / "copy")
    assert (copy.root / "inside").resolve() == copy.root.resolve() / "pkg"
    assert (copy.root / "outside").resolve() == outside.resolve()
    assert (copy.root / "loop").is_symlink()


def test_mirror_within_its_tree(tree: Path) -> None:
    """Ex) the directory for temporary files lies in the project"""
    copy = mirror(tree, tree / "tmp" / "copy")
    assert not (copy.root / "tmp" / "copy").exists()
    assert (copy.root / "pkg/a.py").is_file()


def test_overlay_of_a_linked_or_read_only_file(tree: Path, tmp_path: Path) -> None:
    (tree / "pkg/b.py").chmod(0o444)
    (tree / "pkg/link.py").symlink_to(tree / "pkg/a.py")
    copy = mirror(tree, tmp_path / "copy", overlays={"pkg/b.py": b"new", "pkg/link.py": b"new too"})
    assert (copy.root / "pkg/b.py").read_bytes() == b"new"
    assert (copy.root / "pkg/a.py").read_bytes() == TREE["pkg/a.py"]
    assert (tree / "pkg/a.py").read_bytes() == TREE["pkg/a.py"]


WRITES = {
    "open": "open(tree + '/pkg/b.py', 'w')",
    "append": "open(tree + '/pkg/b.py', 'a')",
    "os.open": "os.open(tree + '/new', os.O_CREAT | os.O_WRONLY)",
    "pathlib": "pathlib.Path(tree, 'pkg', 'b.py').write_text('')",
    "bytes": "open(os.fsencode(tree + '/pkg/b.py'), 'wb')",
    "remove": "os.remove(tree + '/pkg/b.py')",
    "rename": "os.rename(tree + '/pkg/b.py', copy + '/b.py')",
    "replace": "os.replace(copy + '/pkg/b.py', tree + '/pkg/b.py')",
    "mkdir": "os.makedirs(tree + '/runs/1')",
    "rmtree": "shutil.rmtree(tree + '/pkg')",
    "through a link": "open('images/1.png', 'w')",
    "torch.save": "torch.save([1], tree + '/pkg/b.py')",
    "torch.save through a link": "torch.save([1], pathlib.Path('images/1.png'))",
}
ALLOWED = {
    "reading": "open(tree + '/pkg/b.py').read()",
    "writing the copy": "open('pkg/b.py', 'w').write('new')",
    "a checkpoint": "os.makedirs('runs/1'); torch.save([1], 'runs/1/last.pt')",
    "a buffer": "torch.save([1], io.BytesIO())",
    "elsewhere": "open(os.devnull, 'w').write('')",
}


def test_guard(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing below the tree can be written, everything else can."""
    pytest.importorskip("torch")
    monkeypatch.setattr(mirrors, "MANY_FILES", 0)
    write({"images/1.png": b"image"}, tree)
    copy = mirror(tree, tmp_path / "copy", files=["pkg/a.py"])
    before = contents(tree)
    program = f"""
import io, json, os, pathlib, shutil, sys, torch
from amplint_verify.runs.mirrors import Mirror, guard
tree, copy = {str(tree)!r}, {str(copy.root)!r}
guard(Mirror(pathlib.Path(copy), pathlib.Path(tree)))
errors = dict()
for name, statement in json.load(sys.stdin).items():
    try:
        exec(statement)
    except Exception as error:
        errors[name] = repr(error)
print(json.dumps(errors))
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        input=json.dumps(WRITES | ALLOWED),
        cwd=copy.root,
        capture_output=True,
        text=True,
        check=True,
    )
    errors = json.loads(done.stdout)
    assert errors.keys() == WRITES.keys()
    assert all(
        error.startswith("PermissionError('amplint does not let") for error in errors.values()
    )
    assert contents(tree) == before


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
