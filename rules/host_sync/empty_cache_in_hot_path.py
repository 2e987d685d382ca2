"""The memory that torch keeps for reuse is released in every iteration of a training loop.

The allocator keeps the memory of freed tensors, so that the next iteration gets its memory without
asking the driver. `torch.cuda.empty_cache()` frees all of it: each free waits for the device, and
the next iteration has to allocate again, which is slow as well. The program gains no memory,
because the allocator reuses the memory that it keeps first.

    for x, y in loader:
        loss = train_step(x, y)
        torch.cuda.empty_cache()          # waits, and pays again in the next step

    for x, y in loader:
        loss = train_step(x, y)

The call is useful after an out-of-memory error, between the phases of a program, occasionally
against fragmentation, or before another process needs the memory: the rule is silent there.

Fix safety: removes the call. It is unsafe: values stay as they are, but the peak of the reserved
memory may be higher, and a run that is short of memory, or shares the device, may need the call.

Known limits: silent under a condition that asks for it (`if args.empty_cache`, `if low_memory`), in
functions that move a model to the host, and in benchmarks. Hooks that a trainer calls for every
batch (`on_train_batch_end`) do not count as hot.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    HOT,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Syncs,
    Tensor,
    TensorTree,
    View,
    calls,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.host_reads import EMPTIES_CACHE
from amplint.knowledge.vocabulary import WISHES_EMPTY_CACHE

from .._shared.guards import is_wished
from .._shared.reads import heat_of_training, is_move_to_host
from ._clocks import measures

rule = Rule(
    "AMP111",
    __doc__,
    group=Group.PERFORMANCE,
    help="remove the call, or make it only occasionally",
    witness=Syncs(before=8, after=0),
)


@rule.on(calls(*EMPTIES_CACHE) & HOT)
def check(call: View) -> Iterator[Finding]:
    heat = heat_of_training(call) if call.callee in EMPTIES_CACHE else None
    if heat is None or is_wished(call, WISHES_EMPTY_CACHE) or measures(call) or makes_room(call):
        return
    message = f"`{call.brief}` frees memory and waits for the device in every iteration"
    yield call.finding(message, heat.chain, leave_out(call))


def makes_room(at: View) -> bool:
    """Whether a model leaves the device in the function around a place: its memory is meant for
    something else."""
    function = at.source.function(at.cst)
    return function is not None and any(
        takes_model_away(at.of(call)) for call in at.source.calls(function)
    )


def takes_model_away(call: View) -> bool:
    """Ex) model.cpu(), model.to("cpu")"""
    moved = call.receiver
    return (
        moved is not None
        and (call.method == "cpu" or is_move_to_host(call))
        and not isinstance(only(moved.value), Tensor | TensorTree)
    )


def leave_out(call: View) -> Fix | None:
    """Remove the call."""
    statement = call.source.parent(call.cst)
    if not isinstance(statement, cst.Expr):
        return None
    removal = call.source.edits.remove_statement(statement)
    return Fix("Remove the empty_cache() call", (removal,), Safety.UNSAFE)
