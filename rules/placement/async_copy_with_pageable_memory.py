"""A copy from the device into pageable memory waits, even with `non_blocking=True`.

CUDA copies asynchronously only into page-locked memory. A copy into other memory returns only when
it has completed, and so when the device has finished all the work that was queued before. In spite
of the flag, the host waits in every iteration.

    kept = torch.empty(n)
    for i, x in enumerate(loader):
        kept[i].copy_(model(x.cuda()).mean(), non_blocking=True)      # waits

    kept = torch.empty(n, pin_memory=True)
    for i, x in enumerate(loader):
        kept[i].copy_(model(x.cuda()).mean(), non_blocking=True)      # goes on
    torch.cuda.synchronize()                                          # before the host reads it

`x.to("cpu", non_blocking=True)` does not wait: torch allocates pinned memory for its result.

Fix safety: none is offered. In pinned memory the numbers arrive later, so the program has to
synchronize before it reads them; and pinning memory is slow, so a buffer should be reused.

Known limits: the memory has to be allocated in the same function, by a factory of torch without
`pin_memory=`, or by NumPy. Silent if the function synchronizes, because then the host waits anyway;
and if the project registers memory with CUDA itself. Copies from pageable memory to the device are
not reported: whether they wait has not been measured on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import CPU, Finding, Group, Rule, Unrun, View, calls
from amplint.knowledge.factories import FACTORIES

from .._shared.default_device import changes_default_device
from .._shared.reads import device_tensor, returns_at_once

rule = Rule(
    "AMP511",
    __doc__,
    group=Group.PERFORMANCE,
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
    factory, heat = pageable(into), copy.hotness
    if tensor is None or factory is None or heat is None or copy.mentions(REGISTERS):
        return
    if any(call.method == "synchronize" for call in copy.operations("call")):
        return
    message = f"`{copy.brief}` waits anyway: the host memory is pageable"
    because = (*heat.chain, factory.related("allocated here, not pinned"), tensor.device.evidence)
    yield copy.finding(message, because)


def pageable(at: View) -> View | None:
    """The call that has made the memory of a tensor, if that certainly is pageable.

    Ex) torch.empty(n) of `kept[i]`, after `kept = torch.empty(n)`
    """
    factory = at.origin
    while factory.op == "subscript":
        factory = factory.operands[0].origin
    tensor, facts = factory.tensor, FACTORIES.get(factory.callee or "")
    pins = factory.has_star or factory.arg("pin_memory") is not None
    if tensor is None or tensor.device != CPU or pins:
        return None
    if factory.callee == "torch.from_numpy":
        array = factory.arg("ndarray", 0)
        by_numpy = array is not None and (array.origin.callee or "").startswith("numpy.")
        return factory if by_numpy else None
    if facts is None or facts.dtype == "data" or changes_default_device(factory):
        return None
    return factory
