"""Worker processes of a loader use the GPU.

Workers are forked, and after a fork CUDA cannot be used: "Cannot re-initialize CUDA in forked
subprocess". This concerns the `__getitem__` of a dataset, a `collate_fn`, and the functions that
they call.

    class Images(Dataset):
        def __getitem__(self, index):
            return torch.from_numpy(self.images[index]).cuda()

    loader = DataLoader(Images(), num_workers=4, pin_memory=True)
    for images in loader:
        images = images.cuda(non_blocking=True)       # where the GPU is, once for each batch

Spawned processes may use CUDA, but each has its own context on the GPU, and passes every tensor by
a handle that must be kept alive.

Fix safety: none is offered: the move belongs in the training loop, which may be elsewhere.

Known limits: the call of the loader has to name the dataset and a known number of workers (perhaps
the default of a command-line option), and must not change the start method, which is fork on Linux
before Python 3.14. Tensors that a dataset moved to the GPU before the fork are not checked; neither
is a device that may be None because only other callers pass it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import (
    ACCELERATOR,
    NONE,
    Device,
    Finding,
    Function,
    Group,
    Host,
    Rule,
    Shows,
    Tensor,
    TensorTree,
    Unrun,
    Value,
    View,
    calls,
    evidence_of,
    only,
)
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.vocabulary import ASKS_DEVICE_OF_WORKER

from .._shared.guards import tests_around
from ._workers import Workers, in_worker

AVAILABLE = re.compile(r"is_available")
# Ex) torch.multiprocessing.set_start_method("spawn")
START = "set_start_method"
NONE_GIVEN = frozenset({NONE})


rule = Rule(
    "AMP913",
    __doc__,
    group=Group.CORRECTNESS,
    help="return CPU tensors from the workers, and move the batch to the GPU in the loop",
    witness=Unrun(
        "it takes a GPU that the fork cannot use",
        "https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing",
    ),
)


@rule.on(calls(".cuda", ".to", *FACTORIES) & in_worker)
def check(call: View) -> Iterator[Finding]:
    chain = call.ask(Workers) if uses_gpu(call) else None
    if chain is None or call.mentions(START) or is_asked_for(call):
        return
    message = f"`{call.brief}` raises in a worker of the loader: a fork cannot use CUDA"
    yield call.finding(message, chain)


def uses_gpu(call: View) -> bool:
    """Ex) x.cuda(), x.to("cuda"), torch.zeros(3, device="cuda")"""
    if isinstance(only(call.operands[0].value), Function):
        return False
    if call.method == "cuda":
        return len([*call.arguments]) < 3  # `x.cuda(device, non_blocking)`
    if call.method == "to":
        device = call.arg("device", 0)
    else:
        device = call.arg("device") if call.callee in FACTORIES else None
    return device is not None and not is_of_tensor(device) and is_gpu(device.value)


def is_of_tensor(device: View) -> bool:
    """Whether it is the `device` of a tensor, as in `torch.zeros(n, device=x.device)`.

    Such a call brings nothing to the GPU: if the tensor is there, an earlier call put it there.
    What is known of the tensor may be so from the training loop, which calls the same function.
    """
    read = device.origin
    of = read.receiver if read.method == "device" else None
    return of is not None and any(isinstance(atom, Tensor | TensorTree) for atom in of.value)


def is_gpu(value: Value) -> bool:
    """Whether an argument is a CUDA device where there is one: "cuda" if available else "cpu".

    Not where it may be None: that is the default of a parameter, which other callers pass;
    nor that of a tensor which is on the device by its role in training, and not in a worker.
    """
    return not value & NONE_GIVEN and any(
        (isinstance(atom, Device) and atom.kind == ACCELERATOR and is_chosen(atom))
        or (isinstance(atom, Host) and str(atom.const).startswith("cuda"))
        for atom in value
    )


def is_chosen(device: Device) -> bool:
    """Whether some code puts things on a device, rather than a role: a parameter of `forward`."""
    evidence = evidence_of(device.evidence)
    return evidence is not None and evidence.kind is not Shows.CONVENTION


def is_asked_for(call: View) -> bool:
    """Whether the call runs where somebody asks for the device or the worker; that there is a GPU
    is no question."""
    texts = (test.text for test in tests_around(call))
    return any(ASKS_DEVICE_OF_WORKER.search(text) and not AVAILABLE.search(text) for text in texts)
