"""The same work for many items, spread over processes where that pays.

Processes are forks of this one, so that they have all that was read and linked at no cost. Where
the system cannot fork (Windows), or may not safely (macOS, whose libraries start threads), one
process does it all.
"""

from __future__ import annotations

import gc
import os
import pickle
import selectors
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# To judge as much takes about half a second (timm: 5.6 s for 4.4 million), and a fork that holds
# all trees of timm 0.03 s.
LEAST_WEIGHT = 400_000  # characters of code


def available() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def spread(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    weights: Sequence[int],
    most: int,
    least: int = LEAST_WEIGHT,
) -> list[Result]:
    """The result of the work for each item, in the order of the items.

    Args:
        work: gives what can be pickled; it may change nothing that others see.
        items: what to work on.
        weights: how much work each is, in characters of code.
        most: how many processes may work on it.
        least: the weight for which another process is worth starting.
    """
    processes = min(most, 1 + sum(weights) // max(least, 1), len(items))
    shares = divide(weights, processes) if processes > 1 else [list(range(len(items)))]
    started = [start(work, [items[i] for i in share]) for share in shares[1:]]
    done = {i: work(items[i]) for i in shares[0]}
    for share, process in zip(shares[1:], started, strict=True):
        results: list[Result] | None = collect(process)
        if results is None:  # it was killed, for want of memory perhaps
            results = [work(items[i]) for i in share]
        done.update(zip(share, results, strict=True))
    return [done[i] for i in range(len(items))]


def each(
    work: Callable[[Item], Result], items: Sequence[Item], weights: Sequence[int]
) -> list[Result]:
    """The same, each item in a process of its own, whose memory is free again when it is done; as
    many at a time as there are processors, those with most work first."""
    if sys.platform != "linux":
        return [work_and_forget(work, item) for item in items]
    waiting = sorted(range(len(items)), key=lambda i: (weights[i], -i))
    results: dict[int, Result] = {}
    with selectors.DefaultSelector() as selector:
        while waiting or selector.get_map():
            while waiting and len(selector.get_map()) < available():
                number = waiting.pop()
                process, reading = start(work, [items[number]])
                selector.register(reading, selectors.EVENT_READ, Running(number, process))
            for key, _ in selector.select():
                running: Running = key.data
                if chunk := os.read(key.fd, CHUNK):
                    running.written.append(chunk)
                    continue
                selector.unregister(key.fd)
                os.close(key.fd)
                found: list[Result] | None = ended(running.process, b"".join(running.written))
                # It was killed, for want of memory perhaps.
                results[running.number] = work(items[running.number]) if found is None else found[0]
    return [results[i] for i in range(len(items))]


def work_and_forget(work: Callable[[Item], Result], item: Item) -> Result:
    """Do it here, and give back the memory that is left in cycles, frozen or not."""
    result = work(item)
    gc.unfreeze()
    gc.collect()
    return result


CHUNK = 1 << 20


@dataclass(frozen=True)
class Running:
    """A process that works on one item, and what it has written so far."""

    number: int
    process: int
    written: list[bytes] = field(default_factory=list)


def divide(weights: Sequence[int], shares: int) -> list[list[int]]:
    """The items by number, in shares of about equal weight: the heaviest first, each to the share
    that has the least by then."""
    divided: list[list[int]] = [[] for _ in range(shares)]
    loads = [0] * shares
    for item in sorted(range(len(weights)), key=lambda i: (-weights[i], i)):
        least = loads.index(min(loads))
        divided[least].append(item)
        loads[least] += weights[item]
    return divided


def start(work: Callable[[Item], Result], items: Sequence[Item]) -> tuple[int, int]:
    """A process that works on the items; its id, and where it will write what came of it."""
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    status = 1
    try:
        os.close(reading)
        with os.fdopen(writing, "wb") as stream:
            pickle.dump([work(item) for item in items], stream, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's is to be flushed, closed or told twice


def collect(started: tuple[int, int]) -> list[Result] | None:
    """The results of a process; None if it failed."""
    process, reading = started
    with os.fdopen(reading, "rb") as stream:
        return ended(process, stream.read())


def ended(process: int, written: bytes) -> list[Result] | None:
    """The results that an ended process has written; None if it failed."""
    _, status = os.waitpid(process, 0)
    # The bytes are this program's own, through a pipe that nobody else has.
    return pickle.loads(written) if status == 0 else None
