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

from amplint import Cost, Finding, Fix, Group, Rule, Safety, Same, UnpinnedMoves, View, nodes

rule = Rule(
    "AMP911",
    __doc__,
    group=Group.PEDANTIC,
    since="0.1",
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
    fix = Fix("Pin the batches", (argument,), Safety.SUGGEST) if argument is not None else None
    loader = call.operands[0].brief
    message = f"`{loader}` does not pin its batches: copying them makes the host wait"
    yield call.finding(message, (move,), fix)
