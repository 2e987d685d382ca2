"""How far a run has come: a line at the foot of a terminal, which is gone when the run is done.

A stage says how to ask how far it is, and a thread asks now and then, so that who works has
nothing to report. In a process that is forked there is no such thread: it writes nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from mmap import mmap

Item = TypeVar("Item")
Result = TypeVar("Result")
Gauge = Callable[[], tuple[int, int]]  # how many are done, and how many there are

DELAY = 1.0  # seconds until anything is shown: most runs are done by then
EVERY = 0.2  # seconds between two looks
BAR = 20  # characters
NOTE = 64  # bytes, for what a process says of how far it is
COLUMNS = 80  # of a terminal that does not say


@dataclass(frozen=True)
class Stage:
    """The stage that a run is at.

    Args:
        name: what is done: "judging files".
        gauge: returns how many of them are done.
        notes: what the processes say that work on it.
    """

    name: str
    gauge: Gauge
    notes: Callable[[], Sequence[str]] = tuple

    def __str__(self) -> str:
        done, total = self.gauge()
        return "; ".join((f"{self.name} {done:,}/{total:,}", *self.notes()))

    @property
    def bar(self) -> str:
        """How much is done, as a picture."""
        done, total = self.gauge()
        return f"[{'#' * (BAR * done // max(total, 1)):-<{BAR}}]"


class Progress:
    """The stage that a run is at.

    Args:
        watched: whether anybody looks.
    """

    def __init__(self, watched: bool) -> None:
        self.watched = watched
        self.stage: Stage | None = None

    def at(self, name: str, gauge: Gauge) -> None:
        """A stage begins."""
        if self.watched:
            self.stage = Stage(name, gauge)

    def counted(
        self, name: str, work: Callable[[Item], Result], items: Sequence[Item]
    ) -> Callable[[Item], Result]:
        """A stage begins: the work for each item, which counts them in whatever process."""
        if not self.watched:
            return work
        done = shared_memory(len(items))
        numbers = {item: number for number, item in enumerate(items)}

        def counting(item: Item) -> Result:
            result = work(item)
            done[numbers[item]] = 1
            return result

        self.stage = Stage(name, lambda: (done[:].count(1), len(items)))
        return counting

    def noted(
        self, name: str, work: Callable[[Item], Result], items: Sequence[Item]
    ) -> Callable[[Item], Result]:
        """A stage begins whose items have processes of their own, in which other stages begin: the
        work for each item, which notes how far these are."""
        if not self.watched:
            return work
        notes = {item: shared_memory(NOTE) for item in items}

        def noting(item: Item) -> Result:
            self.stage = None
            with now_and_then(lambda: write(notes[item], str(self.stage or "")), EVERY):
                result = work(item)
            write(notes[item], "")
            return result

        counting = self.counted(name, noting, items)
        assert self.stage is not None
        self.stage = replace(self.stage, notes=lambda: [*filter(None, map(read, notes.values()))])
        return counting


SILENT = Progress(watched=False)


@contextlib.contextmanager
def terminal_progress(stream: TextIO, is_on: bool = True) -> Iterator[Progress]:
    """A progress that is shown where the stream is a terminal, until the context is left."""
    if not is_on or not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield SILENT
        return
    line, begun = TerminalLine(stream), time.monotonic()
    progress = Progress(watched=True)

    def tell() -> None:
        if (stage := progress.stage) is not None:
            line.put(f"{time.monotonic() - begun:.0f} s {stage.bar} {stage}")

    try:
        with now_and_then(tell, DELAY):
            yield progress
    finally:
        line.erase()


class TerminalLine:
    """The line of a terminal in which the cursor is."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0
        self._lock = threading.RLock()

    def put(self, text: str) -> None:
        """Show a text in the place of what is shown."""
        text = text[: self._columns() - 1]  # where nothing is in the last one, nothing wraps
        with self._lock:
            self._stream.write(f"\r{text:{self._width or 1}}")
            self._stream.flush()
            self._width = len(text)

    def erase(self) -> None:
        """Leave the line as it was."""
        with self._lock:
            if self._width:
                self.put("")
                self._stream.write("\r")
                self._stream.flush()

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or COLUMNS
        except OSError:
            return COLUMNS


@contextlib.contextmanager
def now_and_then(tell: Callable[[], None], delay: float) -> Iterator[None]:
    """Report something after a while, and again, in a thread, until the context is left."""
    over = threading.Event()

    def telling() -> None:
        wait = delay
        while not over.wait(wait):
            tell()
            wait = EVERY

    thread = threading.Thread(target=telling, name="amplint-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# ------------------------------------------------------------------------------- between processes


def shared_memory(size: int) -> mmap:
    """Bytes that processes have in common which are forked from now on."""
    from mmap import mmap  # noqa: PLC0415  (most runs have no terminal, or are in the cache)

    return mmap(-1, max(size, 1))


def write(memory: mmap, text: str) -> None:
    memory[:] = text.encode()[: len(memory)].ljust(len(memory), b"\0")


def read(memory: mmap) -> str:
    return memory[:].rstrip(b"\0").decode(errors="replace")
