"""The host waits for the device in every iteration of a training loop, and reads nothing.

`torch.cuda.synchronize()` returns when the device has done all that it was given. Once per step,
that empties the queue of kernels which keeps the device busy while Python runs ahead.

    for x, y in loader:
        loss = train_step(x, y)
        torch.cuda.synchronize()          # waits at every step, for nothing

    for x, y in loader:
        loss = train_step(x, y)           # `loss.item()`, where it is needed, waits by itself

Also `torch.cuda.current_stream().synchronize()`, and the same of other devices. Between two reads
of a clock the wait is right and needed, and so it is before memory is read that another stream or a
`non_blocking` copy fills: the rule is silent there.

Fix safety: none is offered; what the wait was there for is for the author to say.

Known limits: silent in code that measures (a clock, a profiler or a benchmark is in sight, also in
the function that calls), in code that has streams of its own, and under a condition that asks for
it (`if args.sync`). A name that holds the function (`wait = torch.cuda.synchronize`) is followed,
but not where it may hold another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import HOT, Finding, Group, Rule, Syncs, calls
from amplint import libcst as cst
from amplint.knowledge.host_reads import SYNCHRONIZES
from amplint.knowledge.vocabulary import WISHES_SYNCHRONIZATION

from .._shared.clocks import is_timed
from .._shared.guards import fills_cache, is_wished
from .._shared.reads import heat_places, is_non_blocking, moves_to_host, training_heat

if TYPE_CHECKING:
    from amplint import Source

STREAMS = frozenset(
    f"torch.{device}.{name}_stream"
    for device in ("accelerator", "cuda", "xpu")
    for name in ("current", "default")
)
# Code that shares memory with other streams, or with code that torch does not know, has to wait.
OTHER_STREAMS = re.compile(
    r"\b(Stream|streams?|wait_stream|record_stream|CUDAGraph|cupy|numba|tensorrt|trt"
    r"|\w+_dlpack|share_memory_|ctypes)\b"
)


rule = Rule(
    "AMP108",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="remove the wait: whatever reads a result waits by itself",
    witness=Syncs(before=8, after=0),
    candidates=calls(".synchronize", *SYNCHRONIZES) & HOT,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    if not synchronizes(call, src):
        return
    heat = training_heat(call, src)
    if heat is None or is_timed(call, heat, src):
        return
    if is_wished(call, WISHES_SYNCHRONIZATION, src) or fills_cache(call, src):
        return
    function = src.function(call)
    if function is not None and is_owed(function, src):
        return
    message = f"`{src.brief(call)}` makes the host wait for the device in every iteration"
    yield src.finding(rule, call, message, None, heat_places(heat, src))


def synchronizes(call: cst.Call, src: Source) -> bool:
    """Ex) torch.cuda.synchronize(), torch.cuda.current_stream().synchronize()"""
    if src.name(call.func) in SYNCHRONIZES:
        return True
    function = call.func
    return (
        isinstance(function, cst.Attribute)
        and function.attr.value == "synchronize"
        and isinstance(function.value, cst.Call)
        and src.name(function.value.func) in STREAMS
    )


def is_owed(function: cst.FunctionDef | cst.Lambda, src: Source) -> bool:
    """Whether something in the function may have to be waited for."""
    if OTHER_STREAMS.search(src.text(function)):
        return True
    return any(
        is_non_blocking(call, src) and isinstance(call.func, cst.Attribute)
        and (call.func.attr.value == "copy_" or moves_to_host(call, src))
        for call in src.calls(function)
    )  # fmt: skip
