"""The process that analyses: looks come in on standard input, answers go out on standard output.

It ends when its input does, so that it never outlives the server.
"""

from __future__ import annotations

import gc
import os
import queue
import sys
import threading
from typing import BinaryIO

from amplint.server.looking import Looker, SupersededError
from amplint.server.messages import Look, Supersede, body_from, framed, request_in

IDLE = 3.0  # seconds without a look, after which what is left of the last ones is cleaned up


class Inbox:
    """The looks that wait, read in a thread of its own: who waits for none may say so at any time.

    Args:
        stream: where they come from.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._waiting: queue.SimpleQueue[Look | None] = queue.SimpleQueue()
        self._superseded = 0
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def take(self, timeout: float | None) -> Look | None:
        """The next look; None when there are no more. Raises queue.Empty after the timeout."""
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
    while True:
        try:
            look = inbox.take(timeout)
        except queue.Empty:
            clean_up()
            timeout = None
            continue
        if look is None:
            return
        current = look.number
        for answer in looker.look(look):
            answers.write(framed(answer))
            answers.flush()
        timeout = IDLE


def clean_up() -> None:
    """Find the garbage that runs have left in cycles."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def main() -> None:
    """Serve the process that has started this one."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever is printed by mistake must not come between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(Inbox(sys.stdin.buffer), answers)
