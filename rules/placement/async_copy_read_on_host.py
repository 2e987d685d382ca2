"""An asynchronous copy to the host is read without waiting for it.

`x.to("cpu", non_blocking=True)` returns before the copy has arrived. Code that then reads the
result (`.numpy()`, `.item()`, arithmetic on the CPU) may see old memory: now and then, the numbers
are silently wrong.

    scores = model(x).to("cpu", non_blocking=True)
    best = scores.argmax(1).tolist()               # may read before the scores are there

    scores = model(x).to("cpu")                    # waits for the copy
    best = scores.argmax(1).tolist()

To let copies overlap, start them all, wait once (`torch.cuda.synchronize()`, or an event), and read
them after that. From the host to the device the flag is harmless, because operations on the device
run after the copy.

Fix safety: safe: without the flag the call returns the same tensor, complete. (It is no longer in
pinned memory, which does not matter for reading it here.)

Known limits: the copy and the read have to be in one block of one function; a copy that is
returned, kept in a container or made with `copy_` into a pinned buffer is not followed. Silent if
anything in between may wait for the device, including every unknown function.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Fix, Group, Rule, Unrun, View, calls, reachable
from amplint.knowledge.host_reads import BUILTIN_READS, HOST_ATTRIBUTES, HOST_READS, NUMPY_READS
from amplint.knowledge.operations import RESULTS

from .._shared.dtypes import is_receiver_of, taken_by
from .._shared.reads import device_tensor, is_move_to_host, returns_at_once
from .._shared.waits import between, waits

IDENTITY = frozenset({"Is", "IsNot"})  # which look at no number
READ = "the host reads the copy, and nothing waits for it before"

rule = Rule(
    "AMP506",
    __doc__,
    group=Group.CORRECTNESS,
    help="leave out `non_blocking=True`, or synchronize before the copy is read",
    witness=Unrun(
        "a race with a device needs a device",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    ),
    safe_if=(READ,),
    supersedes=("AMP101",),
)


@rule.on(calls(".to"))
def check(copy: View) -> Iterator[Finding]:
    if copy.receiver is None or not returns_at_once(copy) or not is_move_to_host(copy):
        return
    tensor = device_tensor(copy.receiver.value, receiver=True)
    host_reads = [*reads(copy)] if tensor is not None else []
    if tensor is None or not host_reads or copy.is_merged:
        return
    read = min(host_reads, key=lambda each: each.span)
    if is_waited_for(copy, read):
        return
    message = f"the copy may not have arrived when `{read.brief}` reads it"
    is_named = copy.source.assigned_name(copy.cst) is not None
    there = read.related("read here") if is_named else None
    yield copy.finding(message, (tensor.device.evidence, there), wait(copy))


def reads(copy: View) -> Iterator[View]:
    """The operations that read the memory of a tensor on the host.

    Views (`y[0]`, `y.detach()`) are followed; they look at no number themselves.
    """
    for tensor in reachable([copy], views_of):
        for taker in taken_by(tensor):
            if is_receiver_of(tensor, taker):
                if is_read_by_method(taker):
                    yield taker
            elif is_read_by(taker):
                yield taker


def views_of(tensor: View) -> Iterator[View]:
    """Ex) y[0], y.detach(), y.cpu() of y"""
    for taker in taken_by(tensor):
        if is_receiver_of(tensor, taker):
            if taker.method == "cpu" or kind_of_result(taker) == "same":
                yield taker
        elif taker.op == "subscript" and taker.operands[0].is_same(tensor):
            yield taker


def kind_of_result(call: View) -> str | None:
    result = RESULTS.get(f"Tensor.{call.method}")
    return result.kind if result is not None else None


def is_read_by_method(call: View) -> bool:
    """Ex) y.numpy(), y.sum(); not y.cpu(), nor y.size()"""
    if f"Tensor.{call.method}" in HOST_READS:
        return call.method != "cpu"
    return kind_of_result(call) not in (None, "same") and call.method not in HOST_ATTRIBUTES


def is_read_by(use: View) -> bool:
    """Ex) y + 1, y > 0, float(y), np.asarray(y), torch.cat([y, z])"""
    if use.op == "compare":
        return IDENTITY.isdisjoint(use.operators)
    name = use.callee or ""
    computes = name in RESULTS and RESULTS[name].kind in ("tensor", "tensors")
    reads_array = name in NUMPY_READS or name.partition("builtins.")[2] in BUILTIN_READS
    return use.op == "binop" or computes or reads_array


def is_waited_for(copy: View, read: View) -> bool:
    """Whether something between the copy and the read may wait for the device."""
    nodes = between(copy.cst, read.cst, copy.source)
    if nodes is None or any(waits(copy.of(node)) for node in nodes):
        return True
    return shares_memory(read) and waits_later(read)


def shares_memory(read: View) -> bool:
    """Ex) y.numpy(), np.asarray(y): an array of the same memory, which is read later"""
    return read.op == "call" and (read.method == "numpy" or read.callee in NUMPY_READS)


def waits_later(read: View) -> bool:
    """Whether the function waits for the device on purpose after the read."""
    return any(
        call.method == "synchronize" and call.span.start >= read.span.end
        for call in read.operations("call")
    )


def wait(copy: View) -> Fix | None:
    """Ex) x.to("cpu", non_blocking=True) -> x.to("cpu")"""
    source = copy.source
    flag = source.keyword(copy.cst, "non_blocking")
    if flag is None:
        return None
    return Fix.safe_if(
        "Wait for the copy", (source.edits.remove_argument(copy.cst, flag),), {READ: True}
    )
