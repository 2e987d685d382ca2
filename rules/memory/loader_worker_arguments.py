"""Arguments of a loader that contradict each other: something for its workers, and no workers.

`num_workers` is 0 unless it is given, and the loader is then refused: "prefetch_factor option could
only be specified in multiprocessing", "persistent_workers option needs num_workers > 0".

    DataLoader(dataset, batch_size=64, prefetch_factor=4)

    DataLoader(dataset, batch_size=64, num_workers=4, prefetch_factor=4)

So it is with `multiprocessing_context`; with a `timeout`, the first batch raises.

Fix safety: none is offered: there are to be workers, or not, and how many is for the author to say.

Known limits: the number of workers and the other argument have to be known. `worker_init_fn`
without workers is never called; torch does not say so, and neither does this rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Finding, Group, Raises, Rule, Spot, calls, constant
from amplint import libcst as cst
from amplint.knowledge.libraries import WORKER_ARGUMENTS

from .._shared.guards import is_caught

if TYPE_CHECKING:
    from amplint import Source

OF_TORCH = frozenset(
    {
        "torch.utils.data.DataLoader",
        "torch.utils.data.dataloader.DataLoader",
        "torchdata.stateful_dataloader.StatefulDataLoader",
    }
)


def lacks_workers(at: Spot) -> bool:
    """Whether an argument for workers is given, and none are."""
    workers = at.given("num_workers", 5)
    none = workers < 0 or is_zero(constant(at.of(workers)))
    given = [at.given(name, position) for name, position in WORKER_ARGUMENTS.items()]
    return none and any(number >= 0 for number in given)


rule = Rule(
    "AMP912",
    __doc__,
    group=Group.PEDANTIC,
    since="0.1",
    help="give `num_workers` above 0, or leave out the argument",
    witness=Raises("prefetch_factor option could only be specified in multiprocessing"),
    candidates=calls(*OF_TORCH) & lacks_workers,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    if src.name(call.func) not in OF_TORCH or src.has_star(call) or is_caught(call, src):
        return
    workers = src.argument(call, "num_workers", 5)
    if workers is not None and not is_zero(constant(src.value(workers.value))):
        return
    for name, position in WORKER_ARGUMENTS.items():
        given = src.argument(call, name, position)
        if given is not None and asks(name, constant(src.value(given.value))):
            message = f"`{name}=` without workers raises: `num_workers` is 0"
            yield src.finding(rule, given, message)


def is_zero(count: object) -> bool:
    return isinstance(count, int) and count == 0


def asks(name: str, value: object) -> bool:
    """Whether the value of an argument needs workers; of one that is not known, nobody can say."""
    if name == "prefetch_factor":
        return isinstance(value, int)
    return bool(value)
