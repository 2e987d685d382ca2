"""The seal on entries of the cache: entries are signed with the user's key.

A cache lies in the project, so one may come with the files of a stranger, who knows amplint and all
that the names of entries are made of. Findings could be hidden by it, and fixes put in their place.
The key lies where no project does, or in a variable, for those who carry a cache between machines.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

from amplint.util import files

VARIABLE = "AMPLINT_CACHE_KEY"
FILE = "amplint/cache-key"
SIZE = 32


def seal(key: bytes, name: str, body: bytes) -> str:
    """The text in front of an entry of this name."""
    sealed = hashlib.blake2b(name.encode() + b"\n", key=key, digest_size=SIZE)
    sealed.update(body)
    return sealed.hexdigest()


def key_of_user() -> bytes:
    """The key; it is made when it is first asked for. Raises OSError where it has no place."""
    if secret := os.environ.get(VARIABLE):
        return hashlib.blake2b(os.fsencode(secret)).digest()
    file = state_directory() / FILE
    if not file.exists():
        make(file)
    key = files.read(file, SIZE)
    if len(key) != SIZE:
        raise OSError(errno.EINVAL, f"{file} is damaged; delete it")
    return key


def state_directory() -> Path:
    """The directory where programs keep what is no setting, by the XDG Base Directory rules."""
    directory = Path(os.environ.get("XDG_STATE_HOME", ""))
    if directory.is_absolute():
        return directory
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "there is no home directory") from error


def make(file: Path) -> None:
    """Write a new key, unless another process has been faster."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"new-{os.urandom(8).hex()}")
    try:
        with open(new, "xb", opener=for_this_user_alone) as stream:
            stream.write(os.urandom(SIZE))
        try:
            os.link(new, file)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def for_this_user_alone(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)
