"""A tensor is copied to pinned memory only to be copied on to the device.

`x.pin_memory()` copies the whole tensor once more on the host, in the thread that trains, before
the copy to the device can begin. Without `non_blocking=True` the host then waits for that one as
well, and all that pinned memory is good for is given away.

    x = x.pin_memory().to(device)                # a copy, and a copy that is waited for

    x = x.to(device, non_blocking=True)          # one; the driver stages it

With `non_blocking=True` the host goes on at once, which may be worth the copy: the PyTorch tutorial
has measured up to twice the time of a plain `x.to(device)`
(https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html), but a batch that is fetched while
the device is busy need not wait for it. So that is a matter of the group "pedantic":
measure it. Pinned memory pays off for certain where another thread fills it:
`DataLoader(..., pin_memory=True)`.

Fix safety: safe, the values are the same. Unsafe where callers name the device: on the CPU, what
`pin_memory` returns is a copy, and without it `x.to("cpu")` is `x` itself.

Known limits: nothing is said in a file that imports `threading.Thread`, nor under
`torch.cuda.stream(...)`: there the copy may well run beside the training. Nor of a buffer that is
pinned once and used again, nor outside of what runs for every batch of training.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    HOT,
    TRAINING,
    Finding,
    Fix,
    Group,
    Rule,
    Spot,
    Tensor,
    TensorTree,
    Unrun,
    calls,
    only,
)
from amplint import libcst as cst

from .._shared.cst_moves import bound_before, move_of
from .._shared.local_values import is_local, method_of
from .._shared.reads import heat_places

if TYPE_CHECKING:
    from amplint import Source

ONLY_MOVED = "the pinned copy is moved, and nothing else is done with it"
LEAVES_HOST = "it is moved off the CPU for every caller"


STREAMS = frozenset({"torch.cuda.stream", "torch.cuda.StreamContext", "torch.xpu.stream"})
THREADS = ("threading.Thread", "concurrent.futures.ThreadPoolExecutor")


def pins_tensor(at: Spot) -> bool:
    return isinstance(only(at.of(at.receiver)), Tensor | TensorTree)


rule = Rule(
    "AMP507",
    __doc__,
    group=Group.PERFORMANCE,
    other_groups=(Group.PEDANTIC,),
    since="0.1",
    help="copy straight to the device, or let the loader pin (`pin_memory=True`)",
    witness=Unrun(
        "pinned memory needs an accelerator",
        "https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    ),
    safe_if=(ONLY_MOVED, LEAVES_HOST),
    supersedes=("AMP911",),
    candidates=calls(".pin_memory") & pins_tensor & HOT,
)


@rule.check
def check(move: cst.Call, src: Source) -> Iterator[Finding]:
    if move_of(move, src) is None or not isinstance(move.func, cst.Attribute):
        return
    call = pinning(move.func.value, src)
    if call is None or runs_beside(call, src):
        return
    heat = src.heat(call)
    if heat is None or heat.temperature != TRAINING:
        return
    blocking = src.keyword(move, "non_blocking") is None
    then = "and the copy to the device waits" if blocking else "in the thread that trains"
    message = f"`{src.brief(call)}` copies on the host, {then}"
    group = Group.PERFORMANCE if blocking else Group.PEDANTIC
    moved = () if call is move.func.value else (src.related_node(move, "moved to the device here"),)
    evidence = (*moved, *heat_places(heat, src))
    yield src.finding(rule, call, message, unpinned(call, move, src), evidence, group)


def pinning(moved: cst.BaseExpression, src: Source) -> cst.Call | None:
    """The call of `pin_memory` that makes what is moved, and only for that."""
    call = bound_before(moved, src) if isinstance(moved, cst.Name) else moved
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return None
    if call.func.attr.value != "pin_memory":
        return None
    tensor = only(src.value(call.func.value))
    on_host = isinstance(tensor, Tensor | TensorTree) and tensor.device.kind != ACCELERATOR
    return call if on_host else None


def runs_beside(node: cst.CSTNode, src: Source) -> bool:
    """Whether the copies may run beside the training: in a thread, or on a stream of their own."""
    if any(src.imports.bound_as(thread) is not None for thread in THREADS):
        return True
    return any(
        isinstance(item.item, cst.Call) and src.name(item.item.func) in STREAMS
        for around in src.ancestors(node)
        if isinstance(around, cst.With)
        for item in around.items
    )


def unpinned(call: cst.Call, move: cst.Call, src: Source) -> Fix:
    """Ex) x.pin_memory().to(device) -> x.to(device)"""
    assert isinstance(call.func, cst.Attribute)
    edit = src.edits.remove_between(call.func.value, call)
    conditions = {ONLY_MOVED: True, LEAVES_HOST: leaves_host(move, src)}
    return Fix.safe_if("Copy straight to the device", (edit,), conditions)


def leaves_host(move: cst.Call, src: Source) -> bool:
    """Whether every caller has the tensor moved off the CPU; else it would be no copy."""
    target = src.argument(move, "device", 0)
    if target is None or method_of(move) == "cuda":
        return True
    there = only(src.value(move))
    moved = isinstance(there, Tensor | TensorTree) and there.device.kind == ACCELERATOR
    return moved and is_local(target.value, src)
