"""A command, and how much memory it takes with all processes that it starts (Linux)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.5  # seconds between two looks
MB = 1024  # in the unit of /proc, which is kB


@dataclass(frozen=True)
class Watched:
    """What a command did.

    Args:
        status: its exit status.
        stdout, stderr: what it printed.
        seconds: on the clock.
        peak_mb: the most memory of all processes at once; what they share counts once.
        largest_mb: the most memory of one process.
        processes: the most at once.
    """

    status: int
    stdout: bytes
    stderr: str
    seconds: float
    peak_mb: int
    largest_mb: int
    processes: int


def amplint(*arguments: str | Path) -> list[str]:
    """The command that runs amplint with these arguments."""
    return [sys.executable, "-m", "amplint", *map(str, arguments)]


def watched(command: Sequence[str], directory: Path, limit: float) -> Watched:
    """Run a command in a session of its own, which is killed after so many seconds."""
    begun = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    over = threading.Event()
    peaks = [0, 0, 0]

    def look() -> None:
        while not over.wait(EVERY):
            sizes = [memory(number) for number in session(process.pid)]
            now = sum(pss for pss, _ in sizes), max((rss for _, rss in sizes), default=0)
            peaks[:] = map(max, peaks, (*now, len(sizes)))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        stdout, stderr = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
    finally:
        over.set()
        looking.join()
    seconds = round(time.monotonic() - begun, 1)
    shared, largest, processes = peaks
    said = stderr.decode(errors="replace")
    return Watched(
        process.returncode, stdout, said, seconds, shared // MB, largest // MB, processes
    )


def session(leader: int) -> Iterator[int]:
    """The processes of a session that was started for a command."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with suppress(OSError):
                if os.getsid(int(entry.name)) == leader:
                    yield int(entry.name)


def memory(process: int) -> tuple[int, int]:
    """The memory of a process in kB: its share of what it has in common with others, and all."""
    found = {"Pss:": 0, "Rss:": 0}
    with suppress(OSError), Path(f"/proc/{process}/smaps_rollup").open(encoding="ascii") as lines:
        for line in lines:
            name, *rest = line.split()
            if name in found:
                found[name] = int(rest[0])
    return found["Pss:"], found["Rss:"]
