"""New texts of files are written: each file whole or not at all, and all files in one go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from amplint.util.files import leads_out
from amplint.util.replacing import ChangedOnDiskError, Replacement
from amplint.util.text import Text

PARTED = "it is no longer one file with its other names (hard links)"


@dataclass(frozen=True)
class WriteOutcome:
    """The outcome of writing new texts.

    Args:
        paths: the files that were written; those that held their new texts already are not.
        refused: why others could not be written, by path.
        changed: those of the refused that no longer hold what was read.
        notices: what else the user has to know.
    """

    paths: frozenset[str]
    refused: Mapping[str, str]
    changed: frozenset[str]
    notices: tuple[str, ...]


def write_texts(root: Path, before: Mapping[str, Text], after: Mapping[str, str]) -> WriteOutcome:
    """Write new texts of files. All are prepared before the first file is replaced, so that what
    takes long, or fails for want of room, happens while every file is as it was.

    Raises KeyboardInterrupt that says which files are written.

    Args:
        root: the directory that paths are relative to.
        before: the texts as they were read, by path.
        after: the new texts.
    """
    outside = {path for path in after if leads_out(root / path, root)}
    replacements = {
        path: replacement(root / path, before[path], after[path])
        for path in after
        if path not in outside
    }
    refused = dict.fromkeys(outside, "it is a link to a file outside of the project")
    changed: set[str] = set()

    def done(path: str, step: Callable[[], bool]) -> bool:
        try:
            return step()
        except ChangedOnDiskError:
            changed.add(path)
            refused[path] = "the file has changed since it was read"
        except OSError as error:
            refused[path] = f"cannot be written: {error.strerror or error}"
        return False

    try:
        ready = [path for path in replacements if done(path, partial(prepared, replacements[path]))]
        linked = [path for path in ready if has_other_names(replacements[path].target)]
        paths = [path for path in ready if done(path, replacements[path].move)]
    except KeyboardInterrupt:
        raise KeyboardInterrupt(account(replacements)) from None
    finally:
        for one in replacements.values():
            one.discard()
    notices = tuple(f"{path}: {PARTED}" for path in linked if path in paths)
    return WriteOutcome(frozenset(paths), refused, frozenset(changed), notices)


def replacement(path: Path, before: Text, new: str) -> Replacement:
    """The new content of a file. Of a symbolic link, the target is written and the link stays."""
    target = Path(os.path.realpath(path))
    return Replacement(target, before.encode(new), before.encode(before.text))


def prepared(one: Replacement) -> bool:
    """Make the new content ready. Raises OSError."""
    if one.target.exists() and not os.access(one.target, os.W_OK):
        raise PermissionError(0, "the file is read-only", str(one.target))
    one.prepare()
    return True


def has_other_names(path: Path) -> bool:
    try:
        return path.stat().st_nlink > 1
    except OSError:
        return False


def account(replacements: Mapping[str, Replacement]) -> str:
    """Ex) written: a.py, b.py; not written: c.py"""
    written = [path for path, one in replacements.items() if holds(one.target, one.content)]
    return f"written: {listed(written)}; not written: {listed(replacements.keys() - written)}"


def holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def listed(paths: Iterable[str]) -> str:
    return ", ".join(sorted(paths)) or "nothing"
