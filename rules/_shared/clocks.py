"""Clocks: who reads one, and what is there to be timed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint import libcst as cst
from amplint.knowledge.vocabulary import MEASURES

from .reads import hot_texts, own_loop

if TYPE_CHECKING:
    from amplint import Heat, Source

CLOCKS = frozenset(
    {
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "time.monotonic",
        "time.monotonic_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.time",
        "time.time_ns",
        "timeit.default_timer",
    }
)
# The same, and the events of the device, where nothing but text can be had.
READS_CLOCK = re.compile(
    r"\b(time\.time|perf_counter|monotonic|default_timer|datetime\.now|elapsed_time)(_ns)?\b"
)


def reads_clock(call: cst.Call, src: Source) -> bool:
    """Ex) time.time(), perf_counter(), start.elapsed_time(end)"""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "elapsed_time":
        return True
    return src.name(call.func) in CLOCKS


def measures(node: cst.CSTNode, src: Source) -> bool:
    """Whether the file, class or function around a node is one whose purpose is to measure."""
    return MEASURES.search(f"{src.path} {src.layout.scope(node)}") is not None


def is_timed(node: cst.CSTNode, heat: Heat, src: Source) -> bool:
    """Whether a hot node may be there for a measurement: a clock is read in the same iteration, by
    its function or one that calls it, or its file, class or function is one that measures."""
    if measures(node, src):
        return True
    loop = own_loop(node, heat, src)
    if loop is not None:
        return any(reads_clock(call, src) for call in src.calls(loop))
    return any(READS_CLOCK.search(text) for text in hot_texts(node, heat, src))
