"""One function applied to many items, spread over processes where that pays.

Processes are forks of this one, so that they have all that was read and linked at no cost. Where
the system cannot fork (Windows), or may not safely (macOS, whose libraries start threads), one
process does it all. A process ends when the one that has started it does, however that ends.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# To judge as much, or to index it, takes about half a second (timm: 3 s for 4.4 million). A second
# process pays for less on no clock: what both import and find out takes 0.8 s of CPU (s3prl).
LEAST_WEIGHT = 800_000  # characters of code


def workers(jobs: int | None = None) -> int:
    """How many processes may work: those that are wanted, else the processors that there are."""
    if sys.platform != "linux":
        return 1
    return jobs or len(os.sched_getaffinity(0))


def spread(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    weights: Sequence[int],
    most: int,
    least: int | None = None,
) -> list[Result]:
    """The result of the work for each item, in the order of the items.

    Args:
        work: returns what can be pickled; it may change nothing that others see.
        items: what to work on.
        weights: how much work each is, in characters of code.
        most: how many processes may work on it.
        least: the weight for which another process is worth starting.
    """
    processes = min(most, 1 + sum(weights) // max(least or LEAST_WEIGHT, 1), len(items))
    own, *others = divide(weights, max(processes, 1))
    done: dict[int, Result] = {}

    def results_of(share: Sequence[int]) -> Iterator[tuple[int, Result]]:
        return ((number, work(items[number])) for number in share)

    children = [Child(results_of(share), done) for share in others]
    try:
        done.update(results_of(own))
        for child in children:
            child.wait()
    except BaseException:
        for child in children:
            child.kill()
        raise
    # Of a process that was killed, for want of memory perhaps, or that has failed.
    done.update(results_of([i for i in range(len(items)) if i not in done]))
    return [done[i] for i in range(len(items))]


def each(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    weights: Sequence[int],
    most: int,
) -> list[Result]:
    """The result of the work for each item, in the order of the items. Each has a process of its
    own, whose memory is free again when it is done; at most `most` run at a time, those with most
    work first."""
    if sys.platform != "linux":
        return [work_and_forget(work, item) for item in items]
    waiting = sorted(range(len(items)), key=lambda i: (weights[i], -i))
    running: dict[int, Child] = {}
    results: dict[int, Result] = {}
    over: queue.SimpleQueue[int] = queue.SimpleQueue()

    def result_of(number: int) -> Iterator[tuple[int, Result]]:
        yield number, work(items[number])

    try:
        while waiting or running:
            while waiting and len(running) < most:
                number = waiting.pop()
                running[number] = Child(result_of(number), results, partial(over.put, number))
            number = over.get()
            running.pop(number).wait()
            if number not in results:  # it was killed, for want of memory perhaps
                results[number] = work(items[number])
    except BaseException:
        for child in running.values():
            child.kill()
        raise
    return [results[i] for i in range(len(items))]


def work_and_forget(work: Callable[[Item], Result], item: Item) -> Result:
    """Do it here, and give back the memory that is left in cycles, frozen or not."""
    result = work(item)
    gc.unfreeze()
    gc.collect()
    return result


def divide(weights: Sequence[int], shares: int) -> list[list[int]]:
    """The items by number, in shares of about equal weight: the heaviest first, each to the share
    that has the least by then. A share is in the order of the items."""
    divided: list[list[int]] = [[] for _ in range(shares)]
    loads = [0] * shares
    for item in sorted(range(len(weights)), key=lambda i: (-weights[i], i)):
        least = loads.index(min(loads))
        divided[least].append(item)
        loads[least] += weights[item]
    return [sorted(share) for share in divided]


class Child:
    """A process that works, and the thread of this one that hears what comes of it.

    Args:
        work: numbers with their results, which can be pickled; it is done there.
        results: takes them here.
        over: is called when there are no more.
    """

    def __init__(
        self,
        work: Iterable[tuple[int, Any]],
        results: dict[int, Any],
        over: Callable[[], object] = lambda: None,
    ) -> None:
        lifeline = pipe_of(os.getpid())
        reading, writing = os.pipe()
        self._process = os.fork()
        if not self._process:
            try:
                os.close(reading)
                follow(lifeline)
                with os.fdopen(writing, "wb") as stream:
                    for result in work:
                        pickle.dump(result, stream, pickle.HIGHEST_PROTOCOL)
                        stream.flush()
                os._exit(0)  # nothing of the parent's is to be flushed, closed or printed twice
            finally:
                os._exit(1)
        os.close(writing)
        self._thread = threading.Thread(target=hear, args=(reading, results, over), daemon=True)
        self._thread.start()
        self._has_ended = False

    def wait(self) -> None:
        """Until it has ended, and all that it has sent was received."""
        if not self._has_ended:
            self._thread.join()
            os.waitpid(self._process, 0)
            self._has_ended = True

    def kill(self) -> None:
        """End it, and wait for that."""
        if not self._has_ended:
            os.kill(self._process, signal.SIGKILL)
            self.wait()


def hear(reading: int, results: dict[int, Any], over: Callable[[], object]) -> None:
    """Take the results that come through a pipe, one by one, until nobody writes any more."""
    with os.fdopen(reading, "rb") as stream:
        try:
            # The bytes are this program's own, through a pipe that nobody else has.
            while stream.peek(1):
                number, result = pickle.load(stream)
                results[number] = result
        except (EOFError, pickle.UnpicklingError):
            pass  # it was killed while it wrote
    over()


# --------------------------------------------------------------------------- ends with its parent


@cache
def pipe_of(process: int) -> tuple[int, int]:
    """A pipe whose end for writing this process alone has, so that it closes when that ends.

    Args:
        process: the id of this process: a fork has another one.
    """
    del process
    return os.pipe()


def follow(lifeline: tuple[int, int]) -> None:
    """End this process when its parent does; and leave it to the parent to hear of Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    reading, writing = lifeline
    os.close(writing)

    def wait() -> None:
        os.read(reading, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
