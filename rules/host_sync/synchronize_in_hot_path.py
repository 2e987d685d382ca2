"""The host waits for the device in every iteration of a training loop, and reads nothing.

`torch.cuda.synchronize()` returns when the device has finished all queued work. Once per step, this
empties the queue of kernels that keeps the device busy while Python runs ahead.

    for x, y in loader:
        loss = train_step(x, y)
        torch.cuda.synchronize()          # waits at every step, for nothing

    for x, y in loader:
        loss = train_step(x, y)           # `loss.item()`, where it is needed, waits by itself

The same holds for `torch.cuda.current_stream().synchronize()`, and for other devices. Between two
reads of a clock the wait is needed; it is also needed before reading memory that another stream or
a `non_blocking` copy fills. The rule is silent there.

Fix safety: none is offered; only the author knows why the wait is there.

Known limits: silent in code that measures (there is a clock, a profiler or a benchmark, perhaps in
the caller), in code with its own streams, and under a condition that asks for the wait (`if
args.sync`). A name that holds the function (`wait = torch.cuda.synchronize`) is followed, unless it
may hold another function. `event.synchronize()` and `dist.barrier()` are not reported: they wait
for one point of a stream or for other processes, which is normally intended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import HOT, Finding, Group, Rule, Syncs, View, calls
from amplint.knowledge.host_reads import SYNCHRONIZES
from amplint.knowledge.vocabulary import WISHES_SYNCHRONIZATION

from .._shared.guards import fills_cache, is_wished
from .._shared.reads import heat_of_training, is_move_to_host, returns_at_once
from ._clocks import is_timed

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
    help="remove the wait: whatever reads a result waits by itself",
    witness=Syncs(before=8, after=0),
)


@rule.on(calls(".synchronize", *SYNCHRONIZES) & HOT)
def check(call: View) -> Iterator[Finding]:
    heat = heat_of_training(call) if synchronizes(call) else None
    if heat is None or is_timed(call, heat):
        return
    if is_wished(call, WISHES_SYNCHRONIZATION) or fills_cache(call) or is_owed(call):
        return
    message = f"`{call.brief}` makes the host wait for the device in every iteration"
    yield call.finding(message, heat.chain)


def synchronizes(call: View) -> bool:
    """Ex) torch.cuda.synchronize(), torch.cuda.current_stream().synchronize()"""
    if call.callee in SYNCHRONIZES:
        return True
    stream = call.receiver if call.method == "synchronize" else None
    return stream is not None and stream.callee in STREAMS


def is_owed(at: View) -> bool:
    """Whether something in the function around a place may have to be waited for."""
    function = at.source.function(at.cst)
    if function is None:
        return False
    if OTHER_STREAMS.search(at.source.text(function)):
        return True
    return any(copies_behind(at.of(call)) for call in at.source.calls(function))


def copies_behind(call: View) -> bool:
    """Ex) total.copy_(x, non_blocking=True), x.to("cpu", non_blocking=True)"""
    return (
        call.receiver is not None
        and returns_at_once(call)
        and (call.method == "copy_" or is_move_to_host(call))
    )
