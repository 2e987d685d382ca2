"""A tensor is copied to pinned memory only to be copied to the device next.

`x.pin_memory()` copies the whole tensor once more on the host, in the thread that trains, before
the copy to the device can begin. Without `non_blocking=True` the host then waits for that copy as
well, and pinned memory has no benefit.

    x = x.pin_memory().to(device)                # a copy, and a copy that is waited for

    x = x.to(device, non_blocking=True)          # one; the driver stages it

With `non_blocking=True` the host does not wait, which may be worth the extra copy: the PyTorch
tutorial has measured up to twice the time of a plain `x.to(device)`
(https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html), but if the device is busy
meanwhile, the time may not matter. So this case is in the group "pedantic": measure it. Pinned
memory certainly pays off if another thread fills it: `DataLoader(..., pin_memory=True)`.

Fix safety: safe, the values are the same. Unsafe if callers name the device: on the CPU,
`pin_memory` returns a copy, and without it `x.to("cpu")` is `x` itself.

Known limits: the rule is silent in a file that imports `threading.Thread`, and under
`torch.cuda.stream(...)`: there the copy may run in parallel with the training. It is also silent
about a buffer that is pinned once and reused, and outside of code that runs for every batch of
training.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    ACCELERATOR,
    HOT,
    READ,
    Finding,
    Fix,
    Group,
    Rule,
    Tensor,
    TensorTree,
    Unrun,
    View,
    calls,
    only,
)

from .._shared.local_values import is_local
from .._shared.moves import is_sole_reader, move_of
from .._shared.reads import heat_of_training

ONLY_MOVED = "the pinned copy is only moved"
LEAVES_HOST = "the target of the move is not the CPU, for every caller"

STREAMS = frozenset({"torch.cuda.stream", "torch.cuda.StreamContext", "torch.xpu.stream"})
THREADS = ("threading.Thread", "concurrent.futures.ThreadPoolExecutor")

rule = Rule(
    "AMP507",
    __doc__,
    group=Group.PERFORMANCE,
    other_groups=(Group.PEDANTIC,),
    help="copy straight to the device, or let the loader pin (`pin_memory=True`)",
    witness=Unrun(
        "pinned memory needs an accelerator",
        "https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    ),
    safe_if=(ONLY_MOVED, LEAVES_HOST),
    supersedes=("AMP911",),
)


@rule.on(calls(".to", ".cuda") & HOT)
def check(move: View) -> Iterator[Finding]:
    call = pinning(move.receiver) if move.receiver is not None else None
    if call is None or move_of(move) is None or runs_beside(call):
        return
    heat = heat_of_training(call)
    if heat is None:
        return
    blocking = move.arg("non_blocking") is None
    then = "and the copy to the device waits" if blocking else "in the thread that trains"
    message = f"`{call.brief}` copies on the host, {then}"
    group = Group.PERFORMANCE if blocking else Group.PEDANTIC
    moved = () if call == move.receiver else (move.related("moved to the device here"),)
    yield call.finding(message, (*moved, *heat.chain), unpinned(call, move), group=group)


def pinning(moved: View) -> View | None:
    """The call of `pin_memory` that makes what is moved, and only for that."""
    call = moved.origin
    if call.op != "call" or call.method != "pin_memory" or call.receiver is None:
        return None
    tensor = only(call.receiver.value)
    if not isinstance(tensor, Tensor | TensorTree) or tensor.device.kind == ACCELERATOR:
        return None
    return call if moved.op != READ or is_sole_reader(moved, call) else None


def runs_beside(at: View) -> bool:
    """Whether the copies may run beside the training: in a thread, or on a stream of their own."""
    if any(at.source.imports.bound_as(thread) is not None for thread in THREADS):
        return True
    return any(context.callee in STREAMS for context in at.contexts_around)


def unpinned(call: View, move: View) -> Fix:
    """Ex) x.pin_memory().to(device) -> x.to(device)"""
    edit = call.source.edits.remove_between(call.cst.func.value, call.cst)
    conditions = {ONLY_MOVED: True, LEAVES_HOST: leaves_host(move)}
    return Fix.safe_if("Copy straight to the device", (edit,), conditions)


def leaves_host(move: View) -> bool:
    """Whether every caller has the tensor moved off the CPU; else it would be no copy."""
    target = move.arg("device", 0)
    if target is None or move.method == "cuda":
        return True
    there = only(move.value)
    moved = isinstance(there, Tensor | TensorTree) and there.device.kind == ACCELERATOR
    return moved and is_local(target)
