"""A loader does not pin the batches that are copied to the device.

CUDA copies a batch from ordinary memory through its own buffer, and the host waits, even with
`non_blocking=True`. With `pin_memory=True` the loader puts its batches into pinned memory, in a
separate thread, and the copy runs in parallel with the kernels.

    loader = DataLoader(dataset, batch_size=64)

    loader = DataLoader(dataset, batch_size=64, pin_memory=True)
    for x, y in loader:
        x = x.cuda(non_blocking=True)

Fix safety: shown as a suggestion, never applied: pinned memory reduces the memory of the system,
tensors that are already on the device cannot be pinned, and it only helps with `non_blocking=True`.

Known limits: silent if `pin_memory` is given, with a `collate_fn`, and if a library moves the
batches. Zipped loaders are not followed.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    Cost,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Same,
    View,
    nodes,
)

from ._unpinned_moves import UnpinnedMoves

rule = Rule(
    "AMP911",
    __doc__,
    group=Group.PEDANTIC,
    help="pass `pin_memory=True` to the loader, and copy with `non_blocking=True`",
    witness=Same(),
    cost=Cost.STEP,
)


@rule.on(nodes("call"))
def check(call: View) -> Iterator[Finding]:
    move = call.ask(UnpinnedMoves)
    if move is None:
        return
    argument = call.source.edits.add_argument(call.cst, "pin_memory=True")
    fix = Fix("Pin the batches", (argument,), Safety.SUGGEST)
    loader = call.operands[0].brief
    message = f"`{loader}` does not pin its batches: copying them makes the host wait"
    yield call.finding(message, (move,), fix)
