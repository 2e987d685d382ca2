"""A clock is read while the device still works on what is to be timed.

Calls that run on the device return when the work is queued. The difference of two clock reads is
then the time it took to launch the kernels, often a hundredth of the time that they take, and what
was launched is paid for wherever the host next waits.

    start = time.perf_counter()
    output = model(x)
    seconds = time.perf_counter() - start          # the launch, not the model

    torch.cuda.synchronize()
    start = time.perf_counter()
    output = model(x)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start

Or with events of the device, which wait for nothing: `torch.cuda.Event(enable_timing=True)`.

Fix safety: none is offered, for a wait changes how fast the program runs.

Known limits: both clock reads have to stand in one block of one function, with the name of the
first in the difference: not where a field keeps it, or code at the top level of a module. Silent
where anything in between may wait for the device (`.item()`, `.cpu()`, a function that is not
known), and about loops over batches, whose time is dominated by what waits. That a model is called
on the device has to be seen: something is moved there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    Device,
    Finding,
    Group,
    Instance,
    Method,
    Object,
    Rule,
    Shows,
    Spot,
    Tensor,
    TensorTree,
    Unrun,
    calls,
    evidence_of,
    only,
    tensors_in,
)
from amplint import libcst as cst
from amplint.knowledge.casts import MOVES
from amplint.knowledge.operations import RESULTS
from amplint.knowledge.vocabulary import TIMES_THE_HOST

from .._shared.clocks import CLOCKS
from .._shared.code_texts import called_texts
from .._shared.reads import device_places
from .._shared.waits import between, may_wait, operation_may_wait

if TYPE_CHECKING:
    from amplint import Source

# What a model may do to wait for the device, in the text of its functions.
WAITING = re.compile(
    r"\.(item|cpu|tolist|numpy|synchronize|nonzero|unique|is_nonzero|allclose)\(|\bnms\b"
)
RUN = frozenset({"module", "criterion"})
LAUNCHED = frozenset({"tensor", "tensors", "self"})  # kinds of results that are no views


def is_stop(at: Spot) -> bool:
    """Whether a time is subtracted in a function that works on the device."""
    nodes = at.graph.nodes
    return any(node.op == "binop" and node.data == "Sub" for node in nodes) and any(
        node.op == "call" and is_work(at, number) for number, node in enumerate(nodes)
    )


def is_work(at: Spot, call: int) -> bool:
    return at.runs_backward(call) == () or any(
        tensor.device.kind == ACCELERATOR for tensor in tensors_in([at.of(call)])
    )


rule = Rule(
    "AMP109",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="call `torch.cuda.synchronize()` before each read of the clock, or use `torch.cuda.Event`",
    witness=Unrun(
        "on the CPU, work is done when the call returns",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
    ),
    candidates=calls(*CLOCKS) & is_stop,
)


@rule.check
def check(stop: cst.Call, src: Source) -> Iterator[Finding]:
    start = start_of(stop, src) if src.name(stop.func) in CLOCKS else None
    nodes = between(start, stop, src) if start is not None else None
    if start is None or nodes is None or spans_rounds(start, stop, nodes, src):
        return
    work = [node for node in nodes if isinstance(node, cst.Call) and works(node, src)]
    if not work or any(node not in work and may_wait(node, src) for node in nodes):
        return
    if any(WAITING.search(text) for call in work for text in called_texts(call, src)):
        return
    device = next(filter(None, (seen_device(call, src) for call in work)), None)
    if device is None:
        return
    related = [
        src.related_node(start, "the time begins here"),
        src.related_node(work[-1], "the device may still work on this"),
        *device_places(Tensor(device=device), src),
    ]
    message = f"this times the launch of `{src.brief(work[-1])}` alone, not its work"
    yield src.finding(rule, stop, message, None, related)


def start_of(stop: cst.Call, src: Source) -> cst.Call | None:
    """The earlier read of a clock that is subtracted from this one."""
    reads = [stop] if src.assigned_name(stop) is None else src.uses(stop)
    for read in reads:
        difference = src.parent(read)
        if (
            isinstance(difference, cst.BinaryOperation)
            and isinstance(difference.operator, cst.Subtract)
            and difference.left is read
            and isinstance(difference.right, cst.Name)
        ):
            start = src.origin(difference.right)
            timed = isinstance(start, cst.Call) and src.name(start.func) in CLOCKS
            statement = src.statement(difference)
            meant = statement is not None and TIMES_THE_HOST.search(src.text(statement))
            if timed and not meant and isinstance(start, cst.Call):
                return start
    return None


def spans_rounds(
    start: cst.Call, stop: cst.Call, nodes: Iterable[cst.CSTNode], src: Source
) -> bool:
    """Whether the time is that of a loop over batches, or runs on while a loop goes round."""
    around = {id(each) for each in src.ancestors(start)}
    within = [each for each in src.ancestors(stop) if id(each) not in around]
    if any(isinstance(each, cst.For | cst.While) for each in within):
        return True
    return any(
        isinstance(node, cst.While | cst.BaseComp)
        or (isinstance(node, cst.For) and not counts_rounds(node, src))
        for node in nodes
    )


def counts_rounds(loop: cst.For, src: Source) -> bool:
    """Ex) for _ in range(100): model(x)"""
    counted = isinstance(loop.iter, cst.Call) and src.name(loop.iter.func) == "builtins.range"
    return counted and all(src.backward(call) is None for call in src.calls(loop))


def works(call: cst.Call, src: Source) -> bool:
    """Whether the call is a backward pass, a model's or an operation of torch on the device."""
    if src.backward(call) == ():
        return True
    if not any(t.device.kind == ACCELERATOR for t in tensors_in([src.value(call)])):
        return False
    atom = only(src.value(call.func))
    if isinstance(atom, Instance) or (isinstance(atom, Object) and atom.kind in RUN):
        return True
    name = src.name(call.func) or ""
    if isinstance(atom, Method) and isinstance(atom.of, Tensor | TensorTree):
        name = f"Tensor.{atom.name}"
    launched = name in RESULTS and RESULTS[name].kind in LAUNCHED and name not in MOVES
    return launched and not operation_may_wait(name)


def seen_device(call: cst.Call, src: Source) -> Device | None:
    """The device of the model or of an operand, where the text says that it is one."""
    values = [src.value(arg.value) for arg in call.args]
    values += [src.value(call.func.value)] if isinstance(call.func, cst.Attribute) else []
    found = [tensor.device for tensor in tensors_in(values)]
    atom = only(src.value(call.func))
    found += [atom.device] if isinstance(atom, Object | Instance) else []
    return next((d for d in found if d.kind == ACCELERATOR and is_seen(d)), None)


def is_seen(device: Device) -> bool:
    evidence = evidence_of(device.evidence)
    return evidence is not None and evidence.kind is Shows.PLACEMENT
