"""Write down which of some rows run, and which functions of their files are entered.

That costs little where `tracing` is dear, before Python 3.12: a function is traced only until each
row that is asked for has run, and most hold none.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from amplint_verify.recording.tracing import Tracer, traced

# Lines of a function that are looked at before Python 3.12, a tenth of a second's worth. A row that
# has not run by then is taken to have run, so that nothing is said of it.
PATIENCE = 100_000


class Reach:
    """Knows what ran of some files.

    Args:
        path_of: the file of a code, as `target_rows` names it; None for others.
        target_rows: the rows, by file.
    """

    def __init__(
        self, path_of: Callable[[CodeType], str | None], target_rows: Mapping[str, Collection[int]]
    ) -> None:
        self.path_of = path_of
        self.target_rows = {path: frozenset(rows) for path, rows in target_rows.items()}
        self.rows: dict[str, set[int]] = {}
        self.functions: dict[str, set[int]] = {}

    def enter(self, path: str, code: CodeType) -> None:
        self.functions.setdefault(path, set()).add(code.co_firstlineno)

    def run(self, path: str, rows: Collection[int]) -> None:
        self.rows.setdefault(path, set()).update(rows)

    def forget(self) -> None:
        """Something else has traced the program from some line on: nothing is known."""
        self.rows, self.functions = {}, {}

    def fields(self) -> dict[str, Any]:
        """The fields of an `Observation`."""
        return {
            "reached": {path: tuple(sorted(rows)) for path, rows in sorted(self.rows.items())},
            "entered": {path: tuple(sorted(own)) for path, own in sorted(self.functions.items())},
        }


@contextmanager
def reaching(reach: Reach) -> Iterator[None]:
    """Write down what is reached inside; nothing if nothing is asked for."""
    if not reach.target_rows:
        yield
    elif sys.version_info >= (3, 12):
        tracer = Tracer(reach.path_of, reach.target_rows.keys())
        try:
            with traced(tracer):
                yield
        finally:
            take(reach, tracer)
    else:
        step = entering(reach)
        threading.settrace(step)
        sys.settrace(step)
        try:
            yield
        finally:
            if sys.gettrace() is not step:  # such as a measurement of coverage
                reach.forget()
            sys.settrace(None)
            threading.settrace(None)


def take(reach: Reach, tracer: Tracer) -> None:
    """Keep what a tracer has seen."""
    for path, code in tracer.ran:
        reach.enter(path, code)
    for path, places in tracer.parts().items():
        reach.run(path, reach.target_rows[path].intersection(row for row, *_ in places))


def entering(reach: Reach) -> Any:
    """The function for `sys.settrace`."""
    # By identity, with the code: comparing codes takes long.
    steps: dict[int, tuple[CodeType, Any]] = {}

    def enter(frame: FrameType, _: str, __: Any) -> Any:
        code = frame.f_code
        path = reach.path_of(code)
        if path is None or path not in reach.target_rows:
            return None
        entry = steps.get(id(code))
        if entry is None:
            reach.enter(path, code)
            entry = steps[id(code)] = code, stepping(reach, path, code)
        return entry[1](frame, "call", None)

    return enter


def stepping(reach: Reach, path: str, code: CodeType) -> Any:
    """The function that traces a code, until each row that is asked for has run."""
    remaining = {row for _, _, row in code.co_lines() if row in reach.target_rows[path]}
    patience = PATIENCE

    def step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal patience
        if event == "line":
            patience -= 1
            if frame.f_lineno in remaining:
                remaining.discard(frame.f_lineno)
                reach.run(path, (frame.f_lineno,))
            if remaining and patience < 0:
                reach.run(path, remaining)
                remaining.clear()
        if not remaining:
            frame.f_trace_lines = False
            return None
        return step

    return step
