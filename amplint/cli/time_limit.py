"""A limit on the time of a command: what takes longer is interrupted as by Ctrl-C."""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
from collections.abc import Iterator

from amplint.util.errors import Failure


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Let the main thread work so long at most.

    Args:
        seconds: of the clock; None for no limit.

    Raises:
        Failure: the time is over. Nothing is reported then: half a report looks like a whole one.
    """
    if seconds is None:
        yield
        return
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        interrupt()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if not is_over.is_set():
            raise
        late = f"stopped after {seconds:g} s, so nothing is reported (--timeout)"
        raise Failure(late) from None
    finally:
        timer.cancel()


def interrupt() -> None:
    """Interrupt the main thread; where there are signals, what it waits for in the system too."""
    identity = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and identity is not None:
        signal.pthread_kill(identity, signal.SIGINT)
    else:
        _thread.interrupt_main()
