"""A loader does not pin the memory that is copied to the device.

From ordinary memory, CUDA copies a batch by way of a buffer of its own, and the host waits,
whatever `non_blocking=True` says. With `pin_memory=True` the loader puts its batches into pinned
memory, in a thread beside the training, and the copy runs beside the kernels.

    loader = DataLoader(dataset, batch_size=64)

    loader = DataLoader(dataset, batch_size=64, pin_memory=True)
    for x, y in loader:
        x = x.cuda(non_blocking=True)

Fix safety: shown as a suggestion, never applied: pinned memory is taken from the system, tensors
that are on the device already cannot be pinned, and it pays only with `non_blocking=True`.

Known limits: silent where `pin_memory` is given, with a `collate_fn`, and where a library moves the
batches. Of loaders that are zipped, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Cost, Finding, Fix, Group, Rule, Safety, Same, UnpinnedMoves, nodes
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

rule = Rule(
    "AMP911",
    __doc__,
    group=Group.PEDANTIC,
    since="0.1",
    help="give the loader `pin_memory=True`, and copy with `non_blocking=True`",
    witness=Same(),
    cost=Cost.STEP,
    candidates=nodes("call") & (lambda at: at.is_moved_to_device),
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    move = src.ask(UnpinnedMoves, call)
    if move is None:
        return
    argument = src.edits.add_argument(call, "pin_memory=True")
    fix = Fix("Pin the batches", (argument,), Safety.SUGGEST) if argument is not None else None
    message = f"`{src.brief(call.func)}` does not pin the batches: their copies make the host wait"
    yield src.finding(rule, call, message, fix, (src.related(move),))
