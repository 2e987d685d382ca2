"""The end of a watched program before it is killed, so that it can report what it saw.

An exception ends it. Raised anywhere, the exception would be lost at times: Python ignores it where
a generator is closed or an object is deleted, and torch calls Python from C++ that expects no
exception and aborts the process (`find_torch_dispatch_rule` in torch 2.13). 4 of 36 runs of a small
program were aborted that way.
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

from amplint_verify.recording.raised import OutOfTime

# Fractions of the time limit: from the first on, the program is ended where that is safe; from the
# second on, anywhere.
IN_TIME, AT_LAST = 0.9, 0.94
# Seconds until the next look whether it is safe, and until the next exception where one was lost.
LOOK, AGAIN = 0.01, 0.1
NOT_THE_PROGRAM = tuple(
    f"{path}{os.sep}" for path in (Path(torch.__file__).parent, Path(__file__).parents[1])
)


@contextmanager
def ended_in_time(watcher: Any, root: Path, start: float, seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the block when its time is nearly up.

    On Windows nothing is raised: what takes too long is killed.

    Args:
        watcher: raises at the next call of torch that the program makes, once it has `out_of_time`.
        root: of the program, without symbolic links.
        start: when its time began, by `time.monotonic`.
        seconds: the limit, in wall time.
    """
    timer: Any = getattr(signal, "setitimer", None)
    if timer is None:
        yield
        return
    text, inside = f"no end within {seconds:g} s", f"{root}{os.sep}"

    def ring(_: int, frame: FrameType | None) -> None:
        watcher.out_of_time = text
        if is_of_program(frame, inside) or time.monotonic() > start + seconds * AT_LAST:
            timer(signal.ITIMER_REAL, AGAIN, AGAIN)
            raise OutOfTime(text)

    before = signal.signal(signal.SIGALRM, ring)
    try:
        timer(signal.ITIMER_REAL, max(start + seconds * IN_TIME - time.monotonic(), LOOK), LOOK)
        yield
    finally:
        while signal.getsignal(signal.SIGALRM) is ring:
            try:
                timer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            except OutOfTime:  # the signal came meanwhile
                continue
        watcher.out_of_time = ""


def is_of_program(frame: FrameType | None, inside: str) -> bool:
    """Whether an exception raised in a frame reaches the program: its own code runs, or a library
    that it called, but neither torch nor amplint.

    Args:
        frame: the one that runs.
        inside: how the paths of the program's files begin.
    """
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(NOT_THE_PROGRAM):
            return False
        if path.startswith(inside):
            return True
        frame = frame.f_back
    return False
