"""Results of earlier runs, kept on disk.

An entry is a file behind a line with its seal. It is there whole or not at all, so that processes
may share a directory without a lock; it is plain data, and nothing in it is code. Keys, and what
entries say of what they depend on, name contents, never times or absolute paths, so that a
directory may be carried to another machine.

The directory lies in a project that may be a stranger's: an entry counts only with the seal of this
user (see `seal.py`), and nothing is read, written or deleted behind a link.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
import time
import zlib
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import msgspec

import amplint
from amplint.rule import packages as rule_packages
from amplint.run.seal import VARIABLE, key_of_user, seal
from amplint.util import files, replacing

NAME = ".amplint_cache"
TAG = "CACHEDIR.TAG"  # https://bford.info/cachedir/: backups leave such a directory out
SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n# Made by amplint. It may be deleted.\n"
OWN = {".gitignore": b"*\n", TAG: SIGNATURE}  # what is no entry
MAGIC = b"amplint-cache 2 "
MOST_AGE = 14 * 24 * 3600  # seconds since an entry was last of use
LEVEL = 1  # of compression: it takes as long as to write what it saves
MOST_BYTES = 128 * 1024 * 1024  # of all entries

Entry = TypeVar("Entry")


class Cache:
    """The entries in one directory.

    Args:
        directory: where they are; it is made when the first one is written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.notices: list[str] = []

    def get(self, key: str, kind: type[Entry]) -> Entry | None:
        """The entry of a key; None without one, or with one that is damaged."""
        body = self.read(key)
        if body is None:
            return None
        try:
            return msgspec.json.decode(body, type=kind)
        except (RecursionError, msgspec.MsgspecError) as error:
            self._ignore(key, error)
            return None

    def put(self, key: str, entry: object) -> None:
        """Keep an entry. Where that is not possible, the next run takes its time."""
        # The name of a file may be no text in UTF-8, and then its findings are not kept.
        with contextlib.suppress(UnicodeEncodeError):
            self.write({key: msgspec.json.encode(entry)})

    def read(self, key: str) -> bytes | None:
        """The bytes of the entry of a key; None without one, or with one that is damaged."""
        file = self.directory / key
        if self._key is None or not file.exists() or self._is_behind_link(key):
            return None
        try:
            head, _, body = files.read(file, MOST_BYTES).partition(b"\n")
        except OSError as error:
            self._ignore(key, error.strerror or error)
            return None
        if head != MAGIC + seal(self._key, key, body).encode():
            self._ignore(key, "it was not written by amplint for this user")
            return None
        with contextlib.suppress(OSError):
            os.utime(file)  # it is of use
        return body

    def get_packed(self, key: str, kind: type[Entry]) -> Entry | None:
        """The entry of a key that was kept by `put_packed`; None without one, or with one that is
        damaged or of another amplint."""
        body = self.read(key)
        if body is None:
            return None
        try:
            return msgspec.msgpack.decode(zlib.decompress(body), type=kind)
        except (zlib.error, msgspec.MsgspecError):  # written by another amplint
            return None

    def put_packed(self, entries: Mapping[str, object]) -> None:
        """Keep large entries, by key, packed: compressed, and no JSON."""
        # A path, or a line of code, may be no text in UTF-8.
        with contextlib.suppress(UnicodeEncodeError):
            bodies = {key: msgspec.msgpack.encode(entry) for key, entry in entries.items()}
            self.write({key: zlib.compress(body, LEVEL) for key, body in bodies.items()})

    def write(self, entries: Mapping[str, bytes]) -> None:
        """Keep entries that are bytes, by key. Where that is not possible, the next run takes its
        time."""
        if self._key is None:
            return
        try:
            self._make()
            for key, body in entries.items():
                content = MAGIC + seal(self._key, key, body).encode() + b"\n" + body
                file = self.directory / key
                if file.exists() and not file.is_file():  # a pipe that amplint has not made
                    file.unlink()
                # An entry that a loss of power takes away is found anew.
                replacing.replace_file(file, content, lasting=False)
            self.prune()
        except OSError as error:
            reason = error.strerror or str(error)
            self.notices.append(f"{NAME} cannot be written: {reason} (--no-cache runs without it)")

    def show(self, name: str, text: str) -> Path | None:
        """Write a text for the user to look at, over the last one of the name. It is no entry, and
        never read. Returns its file; None where it cannot be written."""
        file = self.directory / name
        try:
            self._make()
            if file.is_symlink():
                file.unlink()
            replacing.replace_file(file, text.encode("utf-8", "backslashreplace"), lasting=False)
        except OSError:
            return None
        return file

    def _ignore(self, key: str, reason: object) -> None:
        self.notices.append(f"{NAME}/{key} is ignored: {reason}")

    @cached_property
    def _key(self) -> bytes | None:
        """The key of the user; without one nothing is kept."""
        try:
            return key_of_user()
        except OSError as error:
            reason = error.strerror or str(error)
            hint = f"{VARIABLE} can hold one"
            self.notices.append(f"{NAME} is not used: it has no key: {reason} ({hint})")
            return None

    def _is_behind_link(self, key: str) -> bool:
        behind = self.directory.is_symlink() or (self.directory / key).is_symlink()
        if behind:
            self._ignore(key, "a link stands in place of what amplint wrote")
        return behind

    def _make(self) -> None:
        self.directory.mkdir(exist_ok=True)
        if self.directory.is_symlink():
            raise OSError(errno.ELOOP, "it is a link")
        for name, content in OWN.items():
            file = self.directory / name
            if not file.exists():
                replacing.replace_file(file, content, lasting=False)

    def prune(self) -> None:
        """Delete what has been of no use for long, and the oldest where there is too much."""
        now, room = time.time(), MOST_BYTES
        for age, size, file in sorted(self._entries(now)):
            room -= size
            if room < 0 or age > MOST_AGE:
                with contextlib.suppress(OSError):  # another process was faster
                    file.unlink()

    def _entries(self, now: float) -> Iterable[tuple[float, int, Path]]:
        """How long each was of no use, its size, and where it is. One of the future is as old as
        it is far away: the clock was set back."""
        for entry in os.scandir(self.directory):
            if entry.name not in OWN and not replacing.is_left(entry.name):
                with contextlib.suppress(OSError):
                    state = entry.stat(follow_symlinks=False)
                    yield abs(now - state.st_mtime), state.st_size, Path(entry.path)

    def sweep(self) -> None:
        """Delete what processes have left that were killed while they wrote."""
        if not self.directory.is_symlink():
            replacing.delete(replacing.left_in(self.directory))

    def clean(self) -> bool:
        """Delete the directory; False where there is none that amplint has made, as where there is
        a link. Raises OSError."""
        self.sweep()
        if self.directory.is_symlink() or not is_own(self.directory):
            return False
        with contextlib.suppress(FileNotFoundError):  # another process deletes it, too
            shutil.rmtree(self.directory)
        return True


def is_own(directory: Path) -> bool:
    """Whether amplint has made a directory, be it that it was killed before it wrote into it."""
    try:
        return not any(directory.iterdir()) or (directory / TAG).read_bytes() == OWN[TAG]
    except OSError:
        return False


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def key_of(*parts: object) -> str:
    """A key of these parts, of which JSON can be made, and of no others."""
    return digest(json.dumps(parts, sort_keys=True).encode())


@cache
def environment() -> list[str]:
    """All that decides on findings beside the files and the settings: amplint's own code, LibCST,
    and the Python whose grammar reads the files."""
    spec = find_spec("libcst")
    version = Path(spec.origin).with_name("_version.py") if spec and spec.origin else None
    libcst = version.read_bytes() if version is not None and version.is_file() else b""
    code = hashlib.blake2b(digest_size=16)
    for path in own_code():
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (of 500, each faster so)
            code.update(file.read())
    python = sys.implementation.name, *map(str, sys.version_info[:2])
    return [code.hexdigest(), digest(libcst), *python]


@cache
def outside_rules() -> list[object]:
    """All that decides on findings by way of rules that other packages bring: their files,
    which change without its version in an editable installation, and whatever else is installed,
    for they may rest on it. Empty without such rules."""
    installed = rule_packages.installed()
    if not installed.packages:
        return []
    names = [[str(package), package.modules] for package in installed.packages]
    modules = {module for package in installed.packages for module in package.modules}
    code = hashlib.blake2b(digest_size=16)
    for package in installed.packages:
        with contextlib.suppress(OSError):
            code.update((package.info / "RECORD").read_bytes())  # names all files with digests
    for module in sorted(modules):
        for name, file in rule_packages.files(module):
            code.update(f"{name}\n{digest(file.read_bytes())}\n".encode())
    return [names, installed.names, code.hexdigest()]


def own_code() -> list[str]:
    """All modules of amplint and of its rules, which lie in a directory of their own in a checkout,
    and its models of frameworks.

    They are found by walking: a list of directories would leave out the code that is added to a
    new one, and findings of older code would be shown.
    """
    rules = find_spec("amplint.rules")
    roots = [Path(amplint.__file__).parent]
    if rules is not None:
        roots += map(Path, rules.submodule_search_locations or ())
    paths = [
        os.path.join(directory, name)  # noqa: PTH118
        for root in roots
        for directory, _, names in os.walk(root)  # in a fifth of the time that `rglob` takes
        for name in names
        if name.endswith((".py", ".toml"))
    ]
    return sorted(paths)
