"""A run that may be ended before it is done, by a signal or at a time: what is known by then is its
outcome. Files whose findings are known are handed on while it goes on.

The run has a thread of its own, so that this one waits for nothing else, whatever the run is at.
It is left behind where it is ended; the process that asked for it ends it. What it writes to the
cache meanwhile is right, and there whole or not at all.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import FrameType

from amplint.claim.finding import Finding
from amplint.run import engine
from amplint.run.news import Begun, Divided, Indexed, Judged
from amplint.run.request import AnalysisResult, Outcome, Request
from amplint.util.process_pool import Outlet

STACK = 64 * 1024 * 1024  # bytes, of which those are taken that are used
SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated (SIGTERM)"}
EVERY = 0.5  # seconds; Windows hands on Ctrl-C between two waits alone


@dataclass(frozen=True)
class RunEnded:
    """The run has ended by itself."""

    outcome: Outcome


@dataclass(frozen=True)
class Failed:
    """The run could not go on."""

    error: BaseException


@dataclass(frozen=True)
class Stop:
    """Somebody wants the run to end: a sentence about that begins so."""

    why: str
    signal: int | None = None


@dataclass(frozen=True)
class Limit:
    """The time that a run may take.

    Args:
        seconds: what the user has said.
        end: when it is over, by `time.monotonic`.
    """

    seconds: float
    end: float

    @classmethod
    def of(cls, seconds: float) -> Limit:
        return cls(seconds, time.monotonic() + seconds)


def run(
    request: Request,
    limit: Limit | None = None,
    found: Callable[[Outcome], object] | None = None,
) -> Outcome:
    """The outcome of a run, or of as much of it as there was time for.

    Args:
        request: what is asked.
        limit: when the run is ended.
        found: is called with the findings of each file, in the order of their paths, as soon as
            nothing can change them any more. What comes of the cache is not among them.
    """
    heard: queue.SimpleQueue[object] = queue.SimpleQueue()
    known = KnownSoFar(request)

    def work() -> None:
        try:
            heard.put(RunEnded(engine.run(replace(request, outlet=Outlet(heard.put)))))
        except BaseException as error:
            heard.put(Failed(error))

    with signals(heard.put):
        start(work)
        while True:
            match message(heard, limit):
                case RunEnded(outcome):
                    return outcome
                case Failed(error):
                    raise error
                case Stop() as stop:
                    return known.outcome(stop)
                case news:
                    known.hear(news)
            if found is not None:
                for path, findings in known.settled():
                    found(known.report(findings, [path]))


def message(heard: queue.SimpleQueue[object], limit: Limit | None) -> object:
    """The next message, be it that the time is over."""
    while limit is None or time.monotonic() < limit.end:
        left = EVERY if limit is None else min(EVERY, max(limit.end - time.monotonic(), 0))
        with contextlib.suppress(queue.Empty):
            return heard.get(timeout=left)
    return Stop(f"the time limit of {limit.seconds:g} s was reached")


def start(work: Callable[[], None]) -> None:
    before = threading.stack_size(STACK)
    try:
        threading.Thread(target=work, name="amplint-run", daemon=True).start()
    finally:
        threading.stack_size(before)


@contextlib.contextmanager
def signals(put: Callable[[Stop], object]) -> Iterator[None]:
    """Have the signals that end a run put a `Stop`; a second one does what it does otherwise.

    They raise nothing, so that no line is left half printed.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one may set them
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def handle(number: int, _: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        put(Stop(SIGNALS[signal.Signals(number)], number))

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as for what a shell runs in the background
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class KnownSoFar:
    """All that is known of a run that is not done.

    Args:
        request: what it was asked.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._waiting = sorted(request.project.reported, reverse=True)
        self._begun: Begun | None = None
        self._parts: int | None = None
        self._unread: dict[str, frozenset[str]] = {}  # by part
        self._seen: dict[str, Judged] = {}
        self._settled: dict[str, list[Finding]] = {}

    def hear(self, news: object) -> None:
        match news:
            case Begun():
                self._begun = news
                for path, seen in news.undecoded.items():
                    if path not in news.filter.texts:
                        self._seen[path] = Judged(path, seen)
            case Divided(parts):
                self._parts = parts
            case Indexed(part, unread):
                self._unread[part] = unread
            case Judged(path, seen):
                assert self._begun is not None
                refused = self._begun.undecoded.get(path)  # cells of a notebook that has others
                self._seen[path] = news if refused is None else Judged(path, refused.joined(seen))

    def settled(self) -> Iterator[tuple[str, list[Finding]]]:
        """The next files of whose findings nothing can change any more, in the order of paths."""
        while self._begun is not None and self._waiting:
            path = self._waiting[-1]
            if path in self._seen:
                findings = self._findings(path)
                if findings is None:
                    return
                self._settled[path] = findings
                yield path, findings
            elif path in self._begun.reading.paths:
                return
            self._waiting.pop()

    def _findings(self, path: str) -> list[Finding] | None:
        """The findings of a file that was judged; None if it is not known whether there are more:
        that a comment suppresses nothing is said where all files could be read."""
        assert self._begun is not None
        of, seen = self._begun.filter.findings, self._seen[path].seen
        unread = self._begun.undecoded.keys() | set().union(*self._unread.values())
        if not self._begun.filter.is_complete(path, unread):
            return of(path, seen, False)
        findings = of(path, seen, True)
        if len(self._unread) == self._parts or findings == of(path, seen, False):
            return findings
        return None

    def report(self, findings: Sequence[Finding], files: Sequence[str]) -> Outcome:
        """Findings as the outcome of a run over these files."""
        assert self._begun is not None
        return engine.outcome(
            self._request, self._begun.reading, AnalysisResult(tuple(findings), (), ()), files
        )

    def outcome(self, stop: Stop) -> Outcome:
        """All that is known, and that it is not all."""
        project = self._request.project
        judged = sorted(self._seen.keys() & project.reported)
        total = len(project.reported)
        why = (
            f"{stop.why} when {len(judged)} of {total} file{'s' * (total != 1)} were checked: "
            "nothing is known about the others"
        )
        if self._begun is None:
            return Outcome(
                project.root, (), (*project.problems, why), project.notices, (), {}, stopped=True
            )
        findings: list[Finding] = []
        problems: list[str] = []
        notices: list[str] = []
        for path in judged:
            seen = self._seen[path].seen
            if path in self._settled:
                findings += self._settled[path]
            else:
                findings += self._begun.filter.findings(path, seen, False)
            problems += seen.problems
            notices += seen.notices
        told = AnalysisResult(tuple(findings), (*problems, why), tuple(notices))
        outcome = engine.outcome(self._request, self._begun.reading, told, judged)
        return replace(outcome, stopped=True, signal=stop.signal)
