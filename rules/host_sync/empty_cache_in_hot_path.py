"""The memory that torch keeps for reuse is given back in every iteration of a training loop.

The allocator keeps what tensors leave behind, so that the next iteration takes its memory without
asking the driver. `torch.cuda.empty_cache()` frees all of it: each free waits for the device, and
the next iteration allocates anew, which is slow as well. The program gains no memory, for what the
allocator keeps is what it hands out first.

    for x, y in loader:
        loss = train_step(x, y)
        torch.cuda.empty_cache()          # waits, and pays again in the next step

    for x, y in loader:
        loss = train_step(x, y)

After an out-of-memory error, between the phases of a program, now and then against fragmentation,
or before another process needs the memory, it has its place: the rule is silent there.

Fix safety: removes the call. It is unsafe: values stay as they are, but the peak of the reserved
memory may be higher, and a run that is short of memory, or shares the device, may need the call.

Known limits: silent under a condition that asks for it (`if args.empty_cache`, `if low_memory`),
where the function moves a model to the host, and in benchmarks. Hooks that a trainer calls for
every batch (`on_train_batch_end`) are not known to be hot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    calls,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.host_reads import EMPTIES_CACHE
from amplint.knowledge.vocabulary import WISHES_EMPTY_CACHE

from .._shared.clocks import measures
from .._shared.guards import is_wished
from .._shared.reads import heat_places, moves_to_host, training_heat

if TYPE_CHECKING:
    from amplint import Source


rule = Rule(
    "AMP111",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="remove the call, or make it only now and then",
    witness=Syncs(before=8, after=0),
    candidates=calls(*EMPTIES_CACHE) & HOT,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    if src.name(call.func) not in EMPTIES_CACHE:
        return
    heat = training_heat(call, src)
    if heat is None or is_wished(call, WISHES_EMPTY_CACHE, src) or measures(call, src):
        return
    function = src.function(call)
    if function is not None and makes_room(function, src):
        return
    message = f"`{src.brief(call)}` frees and waits for the device in every iteration"
    yield src.finding(rule, call, message, leave_out(call, src), heat_places(heat, src))


def makes_room(function: cst.FunctionDef | cst.Lambda, src: Source) -> bool:
    """Whether a model leaves the device here: its memory is meant for something else."""
    return any(
        isinstance(call.func, cst.Attribute)
        and (call.func.attr.value == "cpu" or moves_to_host(call, src))
        and not isinstance(only(src.value(call.func.value)), Tensor | TensorTree)
        for call in src.calls(function)
    )


def leave_out(call: cst.Call, src: Source) -> Fix | None:
    """Remove the call, and the test for a device if there is nothing else under it."""
    statement = src.parent(call)
    if not isinstance(statement, cst.Expr):
        return None
    removal = src.edits.remove_statement(test_for_it(statement, src) or statement)
    return Fix("Remove the empty_cache() call", (removal,), Safety.UNSAFE) if removal else None


def test_for_it(statement: cst.Expr, src: Source) -> cst.If | None:
    """Ex) if torch.cuda.is_available(): <the statement and nothing else>"""
    block = src.parent(statement)
    if isinstance(block, cst.SimpleStatementLine) and len(block.body) == 1:
        block = src.parent(block)
    test = src.parent(block)
    if not isinstance(block, cst.BaseSuite) or len(block.body) != 1 or not isinstance(test, cst.If):
        return None
    asked = test.test
    alone = test.orelse is None and not isinstance(src.parent(test), cst.If)
    asks = isinstance(asked, cst.Call) and src.name(asked.func) == "torch.cuda.is_available"
    return test if alone and asks else None
