"""`nn.DataParallel` drives several devices from the threads of one process.

Every forward pass copies the parameters to each device, scatters the batch, and gathers the outputs
on the first, with one Python interpreter for all. `DistributedDataParallel` with one process for
each device avoids this, and PyTorch recommends it even on a single machine. With one device,
DataParallel only adds a wrapper.

    model = nn.DataParallel(model)                                   # one process, many threads

    model = DistributedDataParallel(model, device_ids=[local_rank])  # one process per device

Since torch 1.7, DataParallel passes on to its replicas whether autocast is on, but not the dtype of
the region (AMP602).

Fix safety: shown as a suggestion, never applied: the program has to start one process per device.

Known limits: a class of the project that derives from DataParallel is found where it is
constructed. `isinstance` checks and unwrapping (`model.module`) are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    Class,
    Classes,
    Cost,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Unrun,
    View,
    calls,
    calls_of,
    only,
)
from amplint.knowledge.libraries import DATA_PARALLEL

FUNCTIONS = frozenset(
    {"torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"}
)

rule = Rule(
    "AMP601",
    __doc__,
    group=Group.PERFORMANCE,
    help="use `DistributedDataParallel`, with one process for each device",
    witness=Unrun(
        "the cost shows on several devices only",
        "torch.nn.DataParallel documentation, torch 2.13: use DistributedDataParallel instead",
    ),
    cost=Cost.STEP,
)


@rule.on(calls(*DATA_PARALLEL, *FUNCTIONS) | calls_of(Class))
def check(call: View) -> Iterator[Finding]:
    if call.callee in DATA_PARALLEL | FUNCTIONS:
        what = ""
    elif derives_from_parallel(call.called):
        what = " (a subclass of DataParallel)"
    else:
        return
    message = f"`{call.called.text}`{what} copies the model to all GPUs every step"
    fix = Fix("Use DistributedDataParallel, one process per device", (), Safety.SUGGEST)
    yield call.finding(message, fix=fix)


def derives_from_parallel(called: View) -> bool:
    """Whether what is called is a class of the project that is a DataParallel."""
    if not isinstance(only(called.value), Class):
        return False
    return not called.fact(Classes).bases_of(called.value).isdisjoint(DATA_PARALLEL)
