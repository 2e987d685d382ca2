"""The process that analyses: looks come in on standard input, answers go out on standard output.

It ends when its input does, so that it never outlives the server.
"""

from __future__ import annotations

import gc
import queue
import sys
import threading
from typing import BinaryIO

from amplint.server.explaining import explain
from amplint.server.looking import Looker, SupersededError
from amplint.server.messages import (
    Explain,
    Look,
    Supersede,
    body_from,
    framed,
    request_in,
    reserved_output,
)

# Seconds without a look, after which what the last looks have left is cleaned up, if there were as
# many as `LOOKS`: 30 MB each for timm 1.0.30, where it takes some seconds.
IDLE = 30.0
LOOKS = 10
# Without such a pause it is cleaned up when the memory has grown by this factor since the last
# time.
ROOM = 2


class Inbox:
    """The looks that wait, read in a thread of its own: who waits for none may say so at any time.

    Args:
        stream: where they come from.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._waiting: queue.SimpleQueue[Look | Explain | None] = queue.SimpleQueue()
        self._superseded = 0
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def take(self, timeout: float | None) -> Look | Explain | None:
        """The next request; None when there are no more. Raises queue.Empty after the timeout."""
        return self._waiting.get(timeout=timeout)

    def is_superseded(self, number: int) -> bool:
        """Whether nobody waits for the answer to this look any more."""
        return number <= self._superseded

    def _read(self) -> None:
        while body := body_from(self._stream):
            request = request_in(body)
            if isinstance(request, Supersede):
                self._superseded = request.number
            else:
                self._waiting.put(request)
        self._waiting.put(None)


def serve(inbox: Inbox, answers: BinaryIO) -> None:
    """Answer looks until there are no more."""
    current = 0

    def check() -> None:
        if inbox.is_superseded(current):
            raise SupersededError

    looker = Looker(check)
    timeout: float | None = None
    looks, blocks = 0, 0
    while True:
        try:
            request = inbox.take(timeout)
        except queue.Empty:
            blocks = cleaned_up()
            timeout, looks = None, 0
            continue
        if request is None:
            return
        current = request.number
        answered = explain(request) if isinstance(request, Explain) else looker.look(request)
        for answer in answered:
            answers.write(framed(answer))
            answers.flush()
        gc.disable()  # a run has enabled it
        looks += 1
        blocks = blocks or sys.getallocatedblocks()
        if sys.getallocatedblocks() > ROOM * blocks:
            blocks, looks = cleaned_up(), 0
        timeout = IDLE if looks >= LOOKS else None


def cleaned_up() -> int:
    """Free what nobody can use any more; how many blocks of memory are in use then."""
    gc.collect()
    return sys.getallocatedblocks()


def main() -> None:
    """Serve the process that has started this one."""
    with reserved_output() as answers:
        serve(Inbox(sys.stdin.buffer), answers)
