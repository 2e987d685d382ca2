"""Write down which parts of some files run, down to the expression.

A line that ran says little of what stands on it: of `x = f(x) if mask is not None else x`, `f(x)`
may never have run. So instructions are traced, and the code says what part of the text each of
them is for (PEP 657; Python 3.10 knows the line only).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

NO_COLUMN = -1
# Row and column where an instruction's text begins and where it ends. Rows count from 1, columns
# are bytes of UTF-8, as `ast` has them; NO_COLUMN where Python knows the row only.
Place = tuple[int, int, int, int]


class Tracer:
    """Sees the instructions of some files, in all threads that the process starts meanwhile.

    Args:
        path_of: the file of a code, as `files` names it; None for others.
        files: those that are traced.
    """

    def __init__(self, path_of: Callable[[CodeType], str | None], files: Collection[str]) -> None:
        self.path_of = path_of
        self.files = files
        # By file too: a code equals the same one of another file.
        self.ran: dict[tuple[str, CodeType], set[int]] = {}

    def numbers_of(self, code: CodeType) -> set[int] | None:
        """Where to write down what runs of a code: the offsets of its instructions, and in Python
        3.10 its rows. None for a code of other files."""
        path = self.path_of(code)
        return None if path not in self.files else self.ran.setdefault((path or "", code), set())

    def parts(self) -> dict[str, tuple[Place, ...]]:
        """The parts that ran, by file."""
        by_path: dict[str, set[Place]] = {}
        for (path, code), numbers in self.ran.items():
            by_path.setdefault(path, set()).update(places(code, numbers))
        return {path: tuple(sorted(own)) for path, own in sorted(by_path.items())}


def places(code: CodeType, numbers: Collection[int]) -> Iterator[Place]:
    """The places of the instructions at these offsets; of these rows in Python 3.10."""
    if sys.version_info < (3, 11):
        yield from ((row, NO_COLUMN, row, NO_COLUMN) for row in numbers)
        return
    for at, position in enumerate(code.co_positions()):
        place = placed(position) if at * 2 in numbers else None
        if place is not None:
            yield place


def placed(position: tuple[int | None, int | None, int | None, int | None]) -> Place | None:
    """A position as `co_positions` has it, which orders its numbers otherwise."""
    row, end_row, column, end_column = position
    if row is None:
        return None
    if end_row is None or column is None or end_column is None:
        return row, NO_COLUMN, row, NO_COLUMN
    return row, column, end_row, end_column


@contextmanager
def traced(tracer: Tracer) -> Iterator[None]:
    """Trace what is inside; nothing if there are no files to trace."""
    if not tracer.files:
        yield
    elif sys.version_info >= (3, 12):
        with monitored(tracer):
            yield
    else:
        step = entering(tracer)
        threading.settrace(step)
        sys.settrace(step)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)


def entering(tracer: Tracer) -> Any:
    """The function for `sys.settrace`."""
    offsets = sys.version_info >= (3, 11)
    event_of_step = "opcode" if offsets else "line"

    def enter(frame: FrameType, _: str, __: Any) -> Any:
        numbers = tracer.numbers_of(frame.f_code)
        if numbers is None:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = offsets, not offsets

        def step(frame: FrameType, event: str, _: Any) -> Any:
            if event == event_of_step:
                numbers.add(frame.f_lasti if offsets else frame.f_lineno)
            return step

        return step

    return enter


@contextmanager
def monitored(tracer: Tracer) -> Iterator[None]:
    """By PEP 669: an instruction that was seen once costs nothing from then on."""
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009  (mypy checks for Python 3.10)
    events = monitoring.events
    # Coverage and debuggers have numbers of their own.
    tool = next(number for number in range(6) if monitoring.get_tool(number) is None)
    monitoring.use_tool_id(tool, "amplint")

    def start(code: CodeType, _: int) -> Any:
        if tracer.numbers_of(code) is not None:
            monitoring.set_local_events(tool, code, events.INSTRUCTION)
        return monitoring.DISABLE

    def step(code: CodeType, offset: int) -> Any:
        numbers = tracer.numbers_of(code)
        if numbers is not None:
            numbers.add(offset)
        return monitoring.DISABLE

    monitoring.register_callback(tool, events.PY_START, start)
    monitoring.register_callback(tool, events.INSTRUCTION, step)
    monitoring.set_events(tool, events.PY_START)
    try:
        yield
    finally:
        for _, code in tracer.ran:
            monitoring.set_local_events(tool, code, events.NO_EVENTS)
        monitoring.set_events(tool, events.NO_EVENTS)
        monitoring.free_tool_id(tool)
