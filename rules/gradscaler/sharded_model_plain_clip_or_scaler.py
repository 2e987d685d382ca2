"""Gradients of a model that FSDP shards are clipped, or unscaled, by what sees one part alone.

Each process keeps a part of every parameter and of its gradient. `nn.utils.clip_grad_norm_`
computes the norm of that part: each process multiplies its gradients by another factor, and lets
pass what `max_norm` should limit. A plain GradScaler looks for infinite gradients in that part,
too: where only one process finds some, it skips the step and lowers its scale while the others do
not, and from then on the parts of the model have made different steps.

    model = FullyShardedDataParallel(net)
    scaler = torch.amp.GradScaler("cuda")
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)    # the norm of a part

    model = FullyShardedDataParallel(net)
    scaler = ShardedGradScaler()
    model.clip_grad_norm_(1.0)

The parameters that `fully_shard` (FSDP2) makes are DTensors, for which both are right; so are the
whole ones of `ShardingStrategy.NO_SHARD`.

Fix safety: none is offered: what `model.clip_grad_norm_` returns is of all processes, each of which
has to call it.

Known limits: a clipping or a scaler under a test that asks how the model is wrapped is left alone,
and so is a strategy that nobody knows, where the project speaks of NO_SHARD. The scaler is reported
where FSDP is given float16 (`MixedPrecision(param_dtype=torch.float16)`), or the function with the
step opens a region of float16, and the optimizer is made of the parameters of the model in sight.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    Finding,
    Group,
    Rule,
    Sharded,
    ShardedParameters,
    StepsOfSharded,
    Unrun,
    View,
    calls,
    constant,
)
from amplint.knowledge.libraries import FULLY_SHARDED, NORM_CLIPPING, SCALERS, SHARDED_SCALERS
from amplint.knowledge.vocabulary import ASKS_SHARDED

from .._shared.guards import speaks_of, tests_around, tests_before

rule = Rule(
    "AMP420",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="call `clip_grad_norm_` of the FSDP module, and create a `ShardedGradScaler`",
    witness=Unrun(
        "it takes several processes, each with an accelerator",
        "torch/distributed/fsdp/fully_sharded_data_parallel.py (clip_grad_norm_) and "
        "torch/distributed/fsdp/sharded_grad_scaler.py of torch 2.13",
    ),
    supersedes=("AMP404",),
    preview=True,
)


@rule.on(calls(*NORM_CLIPPING))
def check_clipping(call: View) -> Iterator[Finding]:
    """Ex) clip_grad_norm_(model.parameters(), 1.0), of model = FSDP(net)"""
    given = call.arg("parameters", 0)
    if given is None or not speaks_of(call, FULLY_SHARDED):
        return
    sharded = given.ask(ShardedParameters)
    if sharded is None or may_be_whole(call, sharded):
        return
    message = f"`{call.brief}` clips by the gradient norm of this process alone"
    yield call.finding(
        message, sharded.reasons, help="call `clip_grad_norm_(max_norm)` of the FSDP module"
    )


@rule.on(calls(*SCALERS.keys() - SHARDED_SCALERS))
def check_scaler(call: View) -> Iterator[Finding]:
    """Ex) scaler = GradScaler(), of scaler.step(AdamW(FSDP(net).parameters()))"""
    api = SCALERS.get(call.callee or "")
    if api is None or not speaks_of(call, FULLY_SHARDED):
        return
    switch = call.arg("enabled", api.parameters.index("enabled"))
    sharded = call.ask(StepsOfSharded)
    is_off = switch is not None and constant(switch.value) is False
    if sharded is None or is_off or may_be_whole(call, sharded):
        return
    message = f"`{call.brief}` may skip a step in this process alone: the processes diverge"
    yield call.finding(message, sharded.reasons, help="create a `ShardedGradScaler`")


def may_be_whole(call: View, sharded: Sharded) -> bool:
    """Whether the parameters may be whole where a call runs, for all that is known."""
    if not sharded.certain and call.mentions("NO_SHARD"):
        return True
    tests = (*tests_around(call), *tests_before(call))
    return any(ASKS_SHARDED.search(test.text) for test in tests)
