"""Files that are replaced whole or not at all, and what a killed process leaves of that.

The new content is written beside the file and then moved into its place. A process that is killed
in between leaves the file beside, which the next run deletes. It need not ask whether that process
still lives: a process that finds the file beside gone writes it once more.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

SUFFIX = ".amplint"
LEFT = re.compile(rf"\..*\.([0-9a-f]{{16}})([0-9a-f]{{16}}){re.escape(SUFFIX)}", re.DOTALL)
SHOWN = 40  # characters of the file's own name; the whole may be as long as a name can be
TRIES = 10  # runs that may each take away the file beside, once, when they begin


class ChangedOnDiskError(Exception):
    """The file is no longer what was read."""


@dataclass
class Replacement:
    """New content of a file, on its way there.

    Args:
        target: the file, and no link to it.
        content: all that it is to hold.
        expected: what it holds; None where that does not matter, and the file need not be there.
        lasting: whether the content is to be there after a loss of power, too.
    """

    target: Path
    content: bytes
    expected: bytes | None = None
    lasting: bool = True
    _beside: Path | None = field(default=None, init=False)

    def prepare(self) -> None:
        """Write the content beside the file, with the mode bits, the owner and the attributes that
        the file has. Raises OSError."""
        self.discard()
        self._beside = beside(self.target)
        try:
            before = self._before()
            mode = 0o666 if before is None else 0o600
            with open(os.open(self._beside, FRESH, mode), "wb") as stream:  # noqa: PTH123
                stream.write(self.content)
                if self.lasting:
                    stream.flush()
                    os.fsync(stream.fileno())
            if before is not None:
                take_after(self._beside, self.target, before)
        except BaseException:
            self.discard()
            raise

    def move(self) -> bool:
        """Put the content into the file's place; False where another run has done that.

        Raises ChangedOnDiskError where the file does not hold what is expected, and OSError.
        """
        assert self._beside is not None
        for tries_left in reversed(range(TRIES)):
            if self.expected is not None:
                on_disk = self.target.read_bytes()
                if on_disk == self.content:
                    return False
                if on_disk != self.expected:
                    raise ChangedOnDiskError(str(self.target))
            try:
                self._beside.replace(self.target)
            except FileNotFoundError:
                if not tries_left:
                    raise
                self.prepare()
            else:
                self._beside = None
                break
        return True

    def discard(self) -> None:
        """Leave the file as it is, and nothing beside it."""
        if self._beside is not None:
            with contextlib.suppress(OSError):
                self._beside.unlink()
            self._beside = None

    def _before(self) -> os.stat_result | None:
        try:
            before = self.target.stat()
        except FileNotFoundError:
            if self.expected is None:
                return None
            raise
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return before


FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def replace_file(target: Path, content: bytes, lasting: bool = True) -> None:
    """Make a file, or replace all that it holds. Raises OSError."""
    replacement = Replacement(target, content, lasting=lasting)
    try:
        replacement.prepare()
        replacement.move()
    finally:
        replacement.discard()


def take_after(new: Path, old: Path, before: os.stat_result) -> None:
    """Give a new file the owner, the attributes and the mode bits of an old one."""
    status = new.stat()
    if (status.st_uid, status.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.chown(new, before.st_uid, before.st_gid)
        except OSError as error:
            raise PermissionError(errno.EPERM, "its owner and group cannot be kept") from error
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):  # the file system has none, or they are not the user's
            for name in os.listxattr(old):
                os.setxattr(new, name, os.getxattr(old, name))
    new.chmod(stat.S_IMODE(before.st_mode))


# ------------------------------------------------------------------------------ what is left


def beside(target: Path) -> Path:
    """A new name for a file beside this one, which `is_left` knows again."""
    token = os.urandom(8).hex()
    return target.with_name(f".{target.name[:SHOWN]}.{token}{proof(token)}{SUFFIX}")


def is_left(name: str) -> bool:
    """Whether the name is one that `beside` makes. No file of a user has one by chance."""
    if not name.endswith(SUFFIX):  # as nearly none does
        return False
    match = LEFT.fullmatch(name)
    return match is not None and proof(match[1]) == match[2]


def proof(token: str) -> str:
    """The other half of a token."""
    return hashlib.blake2b(token.encode(), digest_size=8, person=b"amplint new").hexdigest()


def left_in(directory: str | Path) -> list[str]:
    """The files in a directory that killed processes have left."""
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if is_left(entry.name)]
    except OSError:
        return []


def left_below(root: Path) -> Iterator[str]:
    """The files that killed processes have left in a directory and in all below it, those that no
    run enters included."""
    for directory, _, names in os.walk(root):
        for name in filter(is_left, names):
            yield os.path.join(directory, name)  # noqa: PTH118


def delete(paths: Iterable[str]) -> int:
    """Delete what killed processes have left, as far as that is possible; how many these are."""
    count = 0
    for path in paths:
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.lstat(path).st_mode):
                os.unlink(path)  # noqa: PTH108
                count += 1
    return count
