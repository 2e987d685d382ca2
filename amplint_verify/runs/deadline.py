"""The end of a watched program before it is killed, so that it can report what it saw.

An exception ends it. Raised anywhere, it would be lost at times: Python ignores it where a
generator is closed or an object is deleted, and torch calls Python from C++ that expects none and
aborts the process (`find_torch_dispatch_rule` in torch 2.13; so 4 of 36 runs of a small program
ended).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

# Parts of the time that a program has: from when it is ended where that is safe, and anywhere.
IN_TIME, AT_LAST = 0.9, 0.94
# Seconds until the next look whether it is safe, and until the next exception where one was lost.
LOOK, AGAIN = 0.01, 0.1
UNSAFE = tuple(
    f"{path}{os.sep}" for path in (Path(torch.__file__).parent, Path(__file__).parents[1])
)


class OutOfTime(BaseException):
    """The time is nearly up: what was seen until now is worth more than the rest."""


@contextmanager
def ended_in_time(watcher: Any, root: Path, seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the block when its time is nearly up.

    On Windows nothing does: what takes too long is killed.

    Args:
        watcher: which raises its `ending` at the next call of torch that the program makes.
        root: of the program, without symbolic links.
        seconds: of wall time from now on, after which the process is killed.
    """
    timer: Any = getattr(signal, "setitimer", None)
    if timer is None:
        yield
        return
    last = time.monotonic() + seconds * AT_LAST
    inside = f"{root}{os.sep}"

    def ring(_: int, frame: FrameType | None) -> None:
        watcher.ending = OutOfTime(f"no end within {seconds:g} s")
        if is_of_program(frame, inside) or time.monotonic() > last:
            timer(signal.ITIMER_REAL, AGAIN, AGAIN)
            raise watcher.ending

    signal.signal(signal.SIGALRM, ring)
    timer(signal.ITIMER_REAL, seconds * IN_TIME, LOOK)
    try:
        yield
    finally:
        timer(signal.ITIMER_REAL, 0)
        watcher.ending = None


def is_of_program(frame: FrameType | None, inside: str) -> bool:
    """Whether what is raised in a frame reaches the program: it runs code of the program, or what
    that calls, neither torch nor amplint.

    Args:
        frame: the one that runs.
        inside: how the paths of the program's files begin.
    """
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(inside):
            return True
        if path.startswith(UNSAFE):
            return False
        frame = frame.f_back
    return False
