"""Files of a repository that somebody else may have made, read so that none of them stops a run.

A name says nothing of what stands behind it: reading a pipe waits for its writer, and
reading a device may never end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 64_000_000  # of a file under analysis: a notebook holds pictures
MOST_OF_SETTINGS = 4_000_000  # of a file that configures something


def read(path: Path | str, most: int) -> bytes:
    """The bytes of a regular file that has no more than `most`. Raises OSError."""
    check(os.stat(path), most)  # noqa: PTH116
    # By strings: `Path` costs as much again as the reading of a small file.
    with open(path, "rb") as stream:  # noqa: PTH123
        content = stream.read(most + 1)  # what /proc holds has no size
    if len(content) > most:
        raise too_large(most)
    return content


def read_text(path: Path | str) -> str:
    """The text of a file that configures something. Raises OSError and UnicodeDecodeError."""
    text = read(path, MOST_OF_SETTINGS).decode("utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check(state: os.stat_result, most: int) -> None:
    """Raise OSError for what is not a regular file, or too large."""
    if not stat.S_ISREG(state.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if state.st_size > most:
        raise too_large(most)


def too_large(most: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {most:,} bytes")


def leads_out(path: Path | str, root: Path | str) -> bool:
    """Whether links lead from a path below a directory to what is not below it."""
    real, top = (os.path.normcase(os.path.realpath(each)) for each in (path, root))
    return real != top and not real.startswith(top.rstrip(os.sep) + os.sep)
