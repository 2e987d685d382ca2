"""`no_sync()` of DistributedDataParallel encloses a backward pass without its forward pass.

The forward pass prepares the reducer, and so decides whether the gradients are reduced over the
processes. With only the backward pass in `no_sync()`, each micro-batch communicates all gradients,
as if there were no `no_sync()`: accumulation saves nothing.

    loss = model(x).mean()
    with model.no_sync():                     # too late: the gradients are reduced
        loss.backward()

    with model.no_sync():
        model(x).mean().backward()

`no_sync()` of FSDP is different: it decides in the backward pass.

Fix safety: none is offered: the author has to decide which statements go into the block.

Known limits: the wrapper has to be visible where the module is created. Silent if the block calls
anything except `backward`, `scale`, methods of tensors and `print`, or iterates, because that may
run the forward pass; and if the function opens `no_sync()` in another place too.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    Finding,
    Group,
    Rule,
    Unrun,
    View,
    calls,
)
from amplint import libcst as cst
from amplint.knowledge.host_reads import BUILTIN_READS

from .._shared.scalers import scaler_at
from ._distributed import DistributedModules

rule = Rule(
    "AMP603",
    __doc__,
    group=Group.PERFORMANCE,
    help="open `no_sync()` around the forward pass, too",
    witness=Unrun(
        "it takes a process group of several processes",
        "docstring of DistributedDataParallel.no_sync in torch/nn/parallel/distributed.py of torch "
        "2.13: the forward pass should be included inside the context manager",
    ),
    preview=True,
)


@rule.on(calls(".no_sync"))
def check(call: View) -> Iterator[Finding]:
    """Ex) with model.no_sync(): loss.backward()"""
    model = call.receiver
    wrapped = model.ask(DistributedModules) if model is not None else None
    if model is None or wrapped is None or any(call.arguments):
        return
    block = block_of(call)
    if block is None or opens_another(call):
        return
    inner = [call.of(each) for each in call.source.calls(block)]
    backward = next((each for each in inner if each.method == "backward"), None)
    if backward is None or len([*backward.loops]) > len([*call.loops]):
        return  # a generator that is iterated there may run the forward pass
    if all(map(runs_no_forward, inner)):
        message = f"`{call.brief}` around the backward pass alone still reduces the gradients"
        yield call.finding(message, (backward.related("backpropagated here"), wrapped))


def block_of(call: View) -> cst.BaseSuite | None:
    """The block of the `with` that enters a context, be it one of two.

    Ex) with model.no_sync() if accumulates else nullcontext():
    """
    inner = call.cst
    for ancestor in call.source.ancestors(inner):
        if isinstance(ancestor, cst.WithItem):
            statement = call.source.parent(ancestor)
            return statement.body if isinstance(statement, cst.With) else None
        if not isinstance(ancestor, cst.IfExp) or inner is ancestor.test:
            return None
        inner = ancestor
    return None


def opens_another(call: View) -> bool:
    """Whether the forward pass may have run under a `no_sync()` of its own."""
    others = (each for each in call.operations("call") if each.method == "no_sync")
    return sum(1 for _ in others) > 1


def runs_no_forward(call: View) -> bool:
    """Whether a call is a backward pass, or nothing that could run a module of the project."""
    if call.method in ("backward", "scale"):
        receiver = call.receiver
        is_loss = receiver is not None and receiver.tensor is not None
        return is_loss or scaler_at(receiver) is not None
    name = call.callee or ""
    return name.startswith("Tensor.") or name.removeprefix("builtins.") in BUILTIN_READS
