"""A clock is read while the device is still working on the code that is timed.

Calls that run on the device return when the work is queued. The difference of two clock reads is
then the time to launch the kernels, often a hundredth of the time that they run; the rest is
counted wherever the host waits next.

    start = time.perf_counter()
    output = model(x)
    seconds = time.perf_counter() - start          # the launch, not the model

    torch.cuda.synchronize()
    start = time.perf_counter()
    output = model(x)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start

Or use events of the device, which do not wait: `torch.cuda.Event(enable_timing=True)`.

Fix safety: none is offered, because a wait changes how fast the program runs.

Known limits: both clock reads have to be in one block of one function, with the name of the first
in the difference; a start time in a field, and code at the top level of a module, are not seen.
Silent if anything in between may wait for the device (`.item()`, `.cpu()`, an unknown function),
and for loops over batches, whose time is dominated by their waits. It has to be visible that the
model runs on a device: something is moved there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from amplint import (
    ACCELERATOR,
    READ,
    CalledTexts,
    Device,
    Finding,
    Group,
    Instance,
    Object,
    Rule,
    Shows,
    Unrun,
    View,
    calls,
    evidence_of,
    only,
    tensors_in,
)
from amplint import libcst as cst
from amplint.knowledge.casts import MOVES
from amplint.knowledge.operations import RESULTS
from amplint.knowledge.vocabulary import TIMES_THE_HOST

from .._shared.waits import CLOCKS, between, waits

# What a model may do to wait for the device, in the text of its functions.
WAITING = re.compile(
    r"\.(item|cpu|tolist|numpy|synchronize|nonzero|unique|is_nonzero|allclose)\(|\bnms\b"
)
LAUNCHED = frozenset({"tensor", "tensors", "self"})  # kinds of results that are no views


rule = Rule(
    "AMP109",
    __doc__,
    group=Group.CORRECTNESS,
    help="call `torch.cuda.synchronize()` before each read of the clock, or use `torch.cuda.Event`",
    witness=Unrun(
        "on the CPU, work is done when the call returns",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
    ),
)


@rule.on(calls(*CLOCKS))
def check(stop: View) -> Iterator[Finding]:
    start = start_of(stop)
    nodes = between(start.cst, stop.cst, stop.source) if start is not None else None
    if start is None or nodes is None or spans_rounds(start, stop, nodes):
        return
    places = [stop.of(node) for node in nodes]
    work = [each for each in places if works(each)]
    if not work or any(waits(each) for each in places if each not in work):
        return
    if any(WAITING.search(text) for call in work for text in call.ask(CalledTexts) or ()):
        return
    device = next(filter(None, map(seen_device, work)), None)
    if device is None:
        return
    message = f"this times only the launch of `{work[-1].brief}`, not its execution"
    begins = start.related("the measurement starts here")
    runs = work[-1].related("the device may still be working on this")
    yield stop.finding(message, (begins, runs, device.evidence))


def start_of(stop: View) -> View | None:
    """The earlier read of a clock that is subtracted from this one."""
    differences = [use for use in stop.uses if is_time(use, stop)]
    for difference in sorted(differences, key=lambda use: use.span):
        statement = stop.source.statement(difference.cst)
        if statement is None or not TIMES_THE_HOST.search(stop.source.text(statement)):
            return difference.operands[1].origin
    return None


def is_time(difference: View, stop: View) -> bool:
    """Ex) stop - start, time.time() - start"""
    if difference.op != "binop" or difference.operator != "Sub":
        return False
    left, right = difference.operands
    return left.is_same(stop) and right.op == READ and right.origin.callee in CLOCKS


def spans_rounds(start: View, stop: View, nodes: Iterable[cst.CSTNode]) -> bool:
    """Whether the time is that of a loop over batches, or runs on while a loop goes round."""
    src = stop.source
    around = {id(each) for each in src.ancestors(start.cst)}
    within = [each for each in src.ancestors(stop.cst) if id(each) not in around]
    if any(isinstance(each, cst.For | cst.While) for each in within):
        return True
    return any(
        isinstance(node, cst.While | cst.BaseComp)
        or (isinstance(node, cst.For) and not counts_rounds(node, stop))
        for node in nodes
    )


def counts_rounds(loop: cst.For, at: View) -> bool:
    """Ex) for _ in range(100): model(x)"""
    counted = at.of(loop.iter).callee == "builtins.range"
    return counted and all(at.of(call).backward is None for call in at.source.calls(loop))


def works(at: View) -> bool:
    """Whether it is a backward pass, a call of a model or an operation of torch on the device."""
    if not isinstance(at.cst, cst.Call):
        return False
    if at.backward == ():
        return True
    if not any(tensor.device.kind == ACCELERATOR for tensor in tensors_in([at.value])):
        return False
    name = at.callee
    if at.called.is_module or isinstance(only(at.called.value), Instance):
        return True
    launched = name in RESULTS and RESULTS[name].kind in LAUNCHED and name not in MOVES
    return name is not None and launched and not waits(at)


def seen_device(call: View) -> Device | None:
    """The device of the model or of an operand, where the text says that it is one."""
    values = [argument.value for _, _, argument in call.arguments]
    values += [call.receiver.value] if call.receiver is not None else []
    devices = [tensor.device for tensor in tensors_in(values)]
    atom = only(call.called.value)
    devices += [atom.device] if isinstance(atom, Object | Instance) else []
    return next((d for d in devices if d.kind == ACCELERATOR and is_seen(d)), None)


def is_seen(device: Device) -> bool:
    evidence = evidence_of(device.evidence)
    return evidence is not None and evidence.kind is Shows.PLACEMENT
