"""`nn.DataParallel` drives several devices from the threads of one process.

Every forward pass copies the parameters to each device, scatters the batch, and gathers the outputs
on the first, with one Python interpreter for all. `DistributedDataParallel` with one process for
each device does neither, and PyTorch recommends it also on a single machine. With one device,
DataParallel only adds a wrapper.

    model = nn.DataParallel(model)                                   # one process, many threads

    model = DistributedDataParallel(model, device_ids=[local_rank])  # one process per device

DataParallel does carry autocast into its replicas (since torch 1.7), but only whether it is on: the
dtype of the region is lost there (AMP602).

Fix safety: shown as a suggestion, never applied: the program has to start one process per device.

Known limits: a class of the project that derives from DataParallel is found where it is
constructed. `isinstance` checks and unwrapping (`model.module`) are no findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    Class,
    Classes,
    Cost,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Spot,
    Unrun,
    calls,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import DATA_PARALLEL

if TYPE_CHECKING:
    from amplint import Source

FUNCTIONS = frozenset(
    {"torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"}
)


def constructs_parallel(at: Spot) -> bool:
    """Whether it makes an instance of a class of the project that is a DataParallel."""
    made = only(at.of(at.node.operands[0]))
    return isinstance(made, Class) and not DATA_PARALLEL.isdisjoint(at.library_bases(made.id))


rule = Rule(
    "AMP601",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="use `DistributedDataParallel`, with one process for each device",
    witness=Unrun(
        "the cost shows on several devices only",
        "torch.nn.DataParallel documentation, torch 2.13: use DistributedDataParallel instead",
    ),
    cost=Cost.STEP,
    candidates=calls(*DATA_PARALLEL, *FUNCTIONS) | nodes("call") & constructs_parallel,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    name = src.name(call.func)
    if name in DATA_PARALLEL or name in FUNCTIONS:
        what = ""
    elif (
        isinstance(only(src.value(call.func)), Class)
        and src.fact(Classes).bases_of(src.value(call.func)) & DATA_PARALLEL
    ):
        what = ", a DataParallel,"
    else:
        return
    message = f"`{src.text(call.func)}`{what} copies the model to all devices in every step"
    fix = Fix("Use DistributedDataParallel, one process per device", (), Safety.SUGGEST)
    yield src.finding(rule, call, message, fix)
