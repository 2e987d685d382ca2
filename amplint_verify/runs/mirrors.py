"""Copies of the user's tree to run in, so that the tree itself is never written.

A mirror holds real copies of all Python files and of everything small; what is large is linked to.
An import hook that lays the fixed texts over the tree was rejected: `inspect`, `torch.jit` and
`linecache` read the disk, and workers that are spawned do not have the hook.

What is linked to could be written through the link, and any file by its absolute path. Hence the
process that runs the user's code calls `guard`, which refuses what Python opens for writing below
the user's tree. What native code or other programs write is out of its reach.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from amplint.project.discover import SUFFIXES
from amplint.util.paths import lies_in
from amplint.util.text import Text, UndecodableError

LARGE_FILE = 16 << 20  # bytes; what is larger is linked to
LARGE_DIRECTORY = 64 << 20  # bytes in all its files
MANY_FILES = 2000
LEFT_OUT = frozenset({
    ".git", ".hg", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv",
    "__pycache__", "node_modules", "venv",
})  # fmt: skip


@dataclass(frozen=True)
class Mirror:
    """A copy of a tree.

    Args:
        root: the directory of the copy.
        of: the directory that it is a copy of.
        linked: what is linked to, not copied, relative to both; a directory ends with "/".
    """

    root: Path
    of: Path
    linked: tuple[str, ...] = ()

    def lines(self, path: str) -> list[str]:
        """The lines of a file; none where there is no such text."""
        try:
            return Text.read(self.root / path).text.splitlines()
        except (OSError, UndecodableError):
            return []

    def line(self, path: str, row: int) -> str:
        """One line, without the white space around it; "" if there is none."""
        lines = self.lines(path)
        return lines[row - 1].strip() if 0 < row <= len(lines) else ""


def mirror(
    of: Path, root: Path, files: Iterable[str] = (), overlays: Mapping[str, bytes] | None = None
) -> Mirror:
    """Copy a tree, and lay other texts over some of its files.

    Args:
        of: the tree.
        root: where the copy is to be; must not exist.
        files: the Python files of the project, relative to `of`: directories that hold one are
            copied however large they are.
        overlays: what the copy holds instead of the original's bytes, by path.

    Raises OSError for what cannot be read or written.
    """
    of, overlays = Path(os.path.realpath(of)), overlays or {}
    parents = {
        str(parent) for path in (*files, *overlays) for parent in PurePosixPath(path).parents
    }
    linked: list[str] = []
    pending = [""]
    while pending:
        directory = pending.pop()
        (root / directory).mkdir(parents=True)
        with os.scandir(of / directory) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
        for child in children:
            path = str(PurePosixPath(directory, child.name))
            if is_left_out(child) or lies_in(str(root), child.path):
                continue
            if child.is_symlink():
                copy_link(child.path, root / path, of, root)
            elif child.is_dir() and path not in parents and is_large(child.path):
                link(Path(child.path), root / path)
                linked.append(f"{path}/")
            elif child.is_dir():
                pending.append(path)
            elif child.is_file() and is_large_file(child):
                (root / path).symlink_to(child.path)
                linked.append(path)
            elif child.is_file():  # and no socket or device
                shutil.copy2(child.path, root / path)
    for path, data in overlays.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # it may be a link, or read-only
        target.write_bytes(data)
    return Mirror(root, of, tuple(sorted(linked)))


def link(directory: Path, copy: Path) -> None:
    """Link to what a directory holds, so that new files can lie beside it: runs of a program often
    write into a directory of earlier ones. If it holds too much even for that, link to itself."""
    children = list(islice(directory.iterdir(), MANY_FILES + 1))
    if len(children) > MANY_FILES:
        copy.symlink_to(directory, target_is_directory=True)
        return
    copy.mkdir()
    for child in children:
        (copy / child.name).symlink_to(child)


def is_left_out(child: os.DirEntry[str]) -> bool:
    """Whether this is of tools, or a virtual environment of any name."""
    return child.name in LEFT_OUT or Path(child.path, "pyvenv.cfg").is_file()


def copy_link(link: str, copy: Path, of: Path, root: Path) -> None:
    """A link into the tree leads into the copy, any other to where it led."""
    target = os.path.realpath(link)
    if lies_in(target, str(of)):
        copy.symlink_to(root / os.path.relpath(target, of))
    else:
        copy.symlink_to(target)


def is_large_file(file: os.DirEntry[str]) -> bool:
    return file.stat().st_size > LARGE_FILE and not file.name.endswith(SUFFIXES)


def is_large(directory: str) -> bool:
    """Whether a directory holds so much that a copy would take long. Looks no further than that."""
    size = count = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            count += 1
            size += os.lstat(Path(parent, name)).st_size
            if size > LARGE_DIRECTORY or count > MANY_FILES:
                return True
    return False


# ------------------------------------------------------------------------------------- the guard

# Audit events of what changes a file, and which of their arguments is its path.
CHANGES: Mapping[str, tuple[int, ...]] = {
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.utime": (0,),
    "shutil.rmtree": (0,),
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def guard(mirror: Mirror) -> None:
    """From here on this process may not write below the mirrored tree: PermissionError.

    There is no way back, and native code is not covered; `torch.save`, whose writer is native, is.
    """
    sys.addaudithook(partial(refuse, mirror))
    import torch  # noqa: PLC0415

    save = torch.save

    def guarded_save(obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
        refuse(mirror, "os.truncate", (f,))
        save(obj, f, *args, **kwargs)

    torch.save = guarded_save


def refuse(mirror: Mirror, event: str, args: tuple[Any, ...]) -> None:
    """The audit hook: raises PermissionError for what would change the mirrored tree."""
    if event == "open":
        indices: tuple[int, ...] = (0,) if args[2] & WRITING else ()
    else:
        indices = CHANGES.get(event, ())
    for index in indices:
        path = args[index]
        if isinstance(path, (str, bytes, os.PathLike)) and is_of_the_tree(
            os.fsdecode(path), mirror
        ):
            raise PermissionError(
                f"amplint does not let this run write {os.fsdecode(path)}: it is in "
                f"{mirror.of}, and not in the copy that is run"
            )


def is_of_the_tree(path: str, mirror: Mirror) -> bool:
    real = os.path.realpath(path)
    return lies_in(real, str(mirror.of)) and not lies_in(real, os.path.realpath(mirror.root))
