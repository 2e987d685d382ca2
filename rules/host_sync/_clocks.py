"""Clocks: who reads one, and what is there to be timed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import FunctionTexts
from amplint import libcst as cst
from amplint.knowledge.vocabulary import MEASURES

from .._shared.waits import CLOCKS

if TYPE_CHECKING:
    from amplint import Heat, View

# The clocks of the host, and the events of the device, where nothing but text can be had.
READS_CLOCK = re.compile(
    r"\b(time\.time|perf_counter|monotonic|default_timer|datetime\.now|elapsed_time)(_ns)?\b"
)


def _reads_clock(call: View) -> bool:
    """Ex) time.time(), perf_counter(), start.elapsed_time(end)"""
    return call.method == "elapsed_time" or call.callee in CLOCKS


def measures(at: View) -> bool:
    """Whether the file, class or function around a place is one whose purpose is to measure."""
    src = at.source
    return MEASURES.search(f"{src.path} {src.layout.scope(at.cst)}") is not None


def is_timed(at: View, heat: Heat) -> bool:
    """Whether a hot place may be there for a measurement: a clock is read in the same iteration, by
    its function or one that calls it, or its file, class or function is one that measures."""
    if measures(at):
        return True
    loop = _own_loop(at, heat)
    if loop is not None:
        return any(_reads_clock(at.of(call)) for call in at.source.calls(loop))
    return any(READS_CLOCK.search(text) for text in _hot_texts(at, heat))


def _own_loop(at: View, heat: Heat) -> cst.For | cst.While | None:
    """The batch loop that makes a place hot, where it is in the same function."""
    src, place = at.source, heat.chain[0].place if heat.chain else None
    for ancestor in src.ancestors(at.cst):
        if isinstance(ancestor, cst.FunctionDef | cst.Lambda | cst.ClassDef) or place is None:
            return None
        if isinstance(ancestor, cst.For | cst.While):
            start = src.related(heat.chain[0]).span.start
            if place.path == src.path and src.span(ancestor).start == start:
                return ancestor
    return None


def _hot_texts(at: View, heat: Heat) -> Iterator[str]:
    """The texts of the functions on the chain that makes a place hot, its own included."""
    own = at.source.function(at.cst)
    if own is not None:
        yield at.source.text(own)
    for evidence in heat.chain:
        yield at.fact(FunctionTexts).around(evidence.place)
