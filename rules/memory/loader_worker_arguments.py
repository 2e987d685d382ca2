"""A loader without workers gets arguments for workers.

`num_workers` is 0 by default, and the loader then raises: "prefetch_factor option could only be
specified in multiprocessing", "persistent_workers option needs num_workers > 0".

    DataLoader(dataset, batch_size=64, prefetch_factor=4)

    DataLoader(dataset, batch_size=64, num_workers=4, prefetch_factor=4)

`multiprocessing_context` raises too; with a `timeout`, the first batch raises.

Fix safety: none is offered: the author has to decide whether there should be workers, and how many.

Known limits: the number of workers and the other argument have to be known. `worker_init_fn`
without workers is never called; torch does not say so, and neither does this rule.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Group, Raises, Rule, View, calls, constant
from amplint.knowledge.libraries import WORKER_ARGUMENTS

from .._shared.guards import is_caught

OF_TORCH = frozenset(
    {
        "torch.utils.data.DataLoader",
        "torch.utils.data.dataloader.DataLoader",
        "torchdata.stateful_dataloader.StatefulDataLoader",
    }
)

rule = Rule(
    "AMP912",
    __doc__,
    group=Group.PEDANTIC,
    help="set `num_workers` above 0, or remove the argument",
    witness=Raises("prefetch_factor option could only be specified in multiprocessing"),
)


@rule.on(calls(*OF_TORCH))
def check(call: View) -> Iterator[Finding]:
    if call.callee not in OF_TORCH or call.has_star or has_workers(call):
        return
    for name, position in WORKER_ARGUMENTS.items():
        argument = call.arg(name, position)
        if argument is None or not asks(name, constant(argument.value)):
            continue
        if not is_caught(call):
            message = f"`{name}=` without workers raises: `num_workers` is 0"
            yield call.finding(message, place=call.source.argument(call.cst, name, position))


def has_workers(loader: View) -> bool:
    """Whether a loader may have workers."""
    workers = loader.arg("num_workers", 5)
    count = constant(workers.value) if workers is not None else 0
    return not isinstance(count, int) or count != 0


def asks(name: str, value: object) -> bool:
    """Whether the value of an argument needs workers; of one that is not known, nobody can say."""
    if name == "prefetch_factor":
        return isinstance(value, int)
    return bool(value)
