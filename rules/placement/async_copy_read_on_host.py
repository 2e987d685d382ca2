"""A copy to the host that nobody waits for is read at once.

`x.to("cpu", non_blocking=True)` returns before the copy has arrived. Whatever reads the result then
(`.numpy()`, `.item()`, arithmetic on the CPU) may see old memory: wrong numbers, now and then,
without a word.

    scores = model(x).to("cpu", non_blocking=True)
    best = scores.argmax(1).tolist()               # may read before the scores are there

    scores = model(x).to("cpu")                    # waits for the copy
    best = scores.argmax(1).tolist()

To let copies overlap, start them all, wait once (`torch.cuda.synchronize()`, or an event), and read
them after that. From the host to the device the flag is harmless, for what uses the tensor there
comes after the copy.

Fix safety: safe: without the flag the same tensor comes back, complete. (It is no longer in pinned
memory, which matters to nobody who reads it here.)

Known limits: the copy and what reads it are looked for in one block of one function; a copy that is
returned, kept in a container or made with `copy_` into a pinned buffer is not followed. Silent
where anything in between may wait for the device, as a function that is not known always may.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Finding, Fix, Group, Rule, Spot, Unrun, calls, constant
from amplint import libcst as cst
from amplint.knowledge.host_reads import BUILTIN_READS, HOST_ATTRIBUTES, HOST_READS, NUMPY_READS
from amplint.knowledge.operations import RESULTS

from .._shared.reads import (
    device_places,
    device_tensor,
    goes_to_host,
    is_non_blocking,
    moves_to_host,
)
from .._shared.waits import between, may_wait

if TYPE_CHECKING:
    from amplint import Source

READ = "the host reads the copy, and nothing waits for it before"


def copies_to_host(at: Spot) -> bool:
    return constant(at.of(at.given("non_blocking"))) is True and goes_to_host(at)


rule = Rule(
    "AMP506",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="leave out `non_blocking=True`, or synchronize before the copy is read",
    witness=Unrun(
        "a race with a device shows on a device alone",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    ),
    safe_if=(READ,),
    supersedes=("AMP101",),
    candidates=calls(".to") & copies_to_host,
)


@rule.check
def check(copy: cst.Call, src: Source) -> Iterator[Finding]:
    if not isinstance(copy.func, cst.Attribute) or copy.func.attr.value != "to":
        return
    if not is_non_blocking(copy, src) or not moves_to_host(copy, src):
        return
    tensor = device_tensor(src.value(copy.func.value), receiver=True)
    if tensor is None:
        return
    read = next(reads(copy, src), None)
    if read is None or waited_for(copy, read, src):
        return
    message = f"the copy may not have arrived when `{src.brief(read)}` reads it"
    there = [src.related_node(read, "read here")] if src.assigned_name(copy) is not None else []
    yield src.finding(rule, copy, message, wait(copy, src), (*device_places(tensor, src), *there))


def reads(copy: cst.BaseExpression, src: Source) -> Iterator[cst.BaseExpression]:
    """The node that reads the copy on the host: at once, or by the name it is given."""
    if src.assigned_name(copy) is None:
        yield from reads_of(copy, src)
    elif not src.joined(copy):
        for use in sorted(src.uses(copy), key=lambda use: src.span(use).start):
            yield from reads_of(use, src)


def reads_of(tensor: cst.BaseExpression, src: Source) -> Iterator[cst.BaseExpression]:
    """The operation that reads the memory of a tensor on the host, if the expression is given one.

    Views (`y[0]`, `y.detach()`) are followed; they look at no number themselves.
    """
    parent = src.parent(tensor)
    if isinstance(parent, cst.Attribute) and parent.value is tensor:
        call = src.parent(parent)
        if isinstance(call, cst.Call) and call.func is parent:
            yield from read_by_method(parent.attr.value, call, src)
    elif isinstance(parent, cst.Subscript) and parent.value is tensor:
        yield from reads_of(parent, src)
    elif isinstance(parent, cst.BinaryOperation):
        yield parent
    elif isinstance(parent, cst.Comparison):
        if not isinstance(parent.comparisons[0].operator, cst.Is | cst.IsNot):
            yield parent
    elif isinstance(parent, cst.Arg):
        yield from read_by_call(src.parent(parent), src)
    elif isinstance(parent, cst.Element):
        listed = src.parent(src.parent(parent))
        yield from read_by_call(src.parent(listed) if isinstance(listed, cst.Arg) else None, src)


def read_by_method(name: str, call: cst.Call, src: Source) -> Iterator[cst.BaseExpression]:
    full = f"Tensor.{name}"
    result = RESULTS.get(full)
    if full in HOST_READS and name != "cpu":
        yield call
    elif name == "cpu" or (result is not None and result.kind == "same"):
        yield from reads_of(call, src)
    elif result is not None and name not in HOST_ATTRIBUTES:
        yield call


def read_by_call(call: cst.CSTNode | None, src: Source) -> Iterator[cst.BaseExpression]:
    """Ex) float(y), np.asarray(y), torch.cat([y, z])"""
    if not isinstance(call, cst.Call):
        return
    name = src.name(call.func) or ""
    computes = name in RESULTS and RESULTS[name].kind in ("tensor", "tensors")
    if computes or name in NUMPY_READS or name.partition("builtins.")[2] in BUILTIN_READS:
        yield call


def waited_for(copy: cst.Call, read: cst.BaseExpression, src: Source) -> bool:
    """Whether something between the copy and the read may wait for the device."""
    nodes = between(copy, read, src)
    if nodes is None or any(may_wait(node, src) for node in nodes):
        return True
    return isinstance(read, cst.Call) and shares_memory(read, src) and waits_later(read, src)


def shares_memory(read: cst.Call, src: Source) -> bool:
    """Ex) y.numpy(), np.asarray(y): an array of the same memory, which is read later"""
    method = isinstance(read.func, cst.Attribute) and read.func.attr.value == "numpy"
    return method or src.name(read.func) in NUMPY_READS


def waits_later(read: cst.Call, src: Source) -> bool:
    """Whether the function waits for the device on purpose after the read."""
    function, end = src.function(read), src.span(read).end
    return function is not None and any(
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "synchronize"
        and src.span(call).start >= end
        for call in src.calls(function)
    )


def wait(copy: cst.Call, src: Source) -> Fix | None:
    """Ex) x.to("cpu", non_blocking=True) -> x.to("cpu")"""
    flag = src.keyword(copy, "non_blocking")
    if flag is None:
        return None
    return Fix.safe_if("Wait for the copy", (src.edits.remove_argument(copy, flag),), {READ: True})
