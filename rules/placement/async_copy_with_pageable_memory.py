"""A copy from the device into pageable memory waits, `non_blocking=True` or not.

CUDA copies past the host only into page-locked memory. Into any other it returns once the copy has
completed, and so once the device has done all the work that was queued before. The flag promises
that the host goes on; it stands still, in every iteration.

    kept = torch.empty(n)
    for i, x in enumerate(loader):
        kept[i].copy_(model(x.cuda()).mean(), non_blocking=True)      # waits

    kept = torch.empty(n, pin_memory=True)
    for i, x in enumerate(loader):
        kept[i].copy_(model(x.cuda()).mean(), non_blocking=True)      # goes on
    torch.cuda.synchronize()                                          # before the host reads it

`x.to("cpu", non_blocking=True)` does not wait: torch takes pinned memory for what it returns.

Fix safety: none is offered. In pinned memory the numbers arrive later, so that somebody has to
synchronize before they are read; and pinning memory is slow, so that a buffer is to be used again.

Known limits: the memory has to be made in the same function, by a factory of torch without
`pin_memory=`, or of an array that numpy has made. Silent where the function synchronizes, for there
the host waits in any case; and where the project registers memory with CUDA by itself. Copies from
pageable memory to the device are left alone: whether they wait, no GPU has shown.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import CPU, Finding, Group, Rule, Unrun, View, calls
from amplint.knowledge.factories import FACTORIES

from .._shared.factories import changes_default_device
from .._shared.reads import device_tensor, returns_at_once

rule = Rule(
    "AMP511",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="copy into a pinned buffer that you reuse, and synchronize before the host reads it",
    witness=Unrun(
        "on the CPU, a copy is done when the call returns",
        "https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html",
    ),
    preview=True,
)

REGISTERS = "cudaHostRegister"


@rule.on(calls(".copy_"))
def check(copy: View) -> Iterator[Finding]:
    """Ex) kept[i].copy_(loss, non_blocking=True), after `kept = torch.empty(n)`"""
    into, source = copy.receiver, copy.arg("src", 0)
    if into is None or source is None or copy.has_star or not returns_at_once(copy):
        return
    tensor = device_tensor(source.value, certain=True)
    made, heat = pageable(into), copy.hotness
    if tensor is None or made is None or heat is None or copy.mentions(REGISTERS):
        return
    if any(call.method == "synchronize" for call in copy.operations("call")):
        return
    message = f"`{copy.brief}` waits anyway: the host memory is pageable"
    because = (*heat.chain, made.related("allocated here, not pinned"), tensor.device.evidence)
    yield copy.finding(message, because)


def pageable(at: View) -> View | None:
    """The call that has made the memory of a tensor, if that certainly is pageable.

    Ex) torch.empty(n) of `kept[i]`, after `kept = torch.empty(n)`
    """
    made = at.origin
    while made.op == "subscript":
        made = made.operands[0].origin
    tensor, facts = made.tensor, FACTORIES.get(made.callee or "")
    pins = made.has_star or made.arg("pin_memory") is not None
    if tensor is None or tensor.device != CPU or pins:
        return None
    if made.callee == "torch.from_numpy":
        array = made.arg("ndarray", 0)
        by_numpy = array is not None and (array.origin.callee or "").startswith("numpy.")
        return made if by_numpy else None
    if facts is None or facts.dtype == "data" or changes_default_device(made):
        return None
    return made
