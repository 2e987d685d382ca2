"""Gradients of an FSDP model are clipped or unscaled by code that sees only one shard.

Each process keeps a part of every parameter and of its gradient. `nn.utils.clip_grad_norm_`
computes the norm of that part: each process multiplies its gradients by another factor, and the
total norm may exceed `max_norm`. A plain GradScaler also looks for infinite gradients only in that
part: if only one process finds some, it skips the step and decreases its scale while the others do
not, and from then on the parts of the model have made different steps.

    model = FullyShardedDataParallel(net)
    scaler = torch.amp.GradScaler("cuda")
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)    # the norm of a part

    model = FullyShardedDataParallel(net)
    scaler = ShardedGradScaler()
    model.clip_grad_norm_(1.0)

The parameters of `fully_shard` (FSDP2) are DTensors, for which both are right. With
`ShardingStrategy.NO_SHARD`, the parameters are whole, and both are right too.

Where the gradients are also still multiplied by the scale (AMP404), one finding says both.

Fix safety: none is offered: `model.clip_grad_norm_` has to be called by all processes, and returns
the norm over all of them.

Known limits: a clipping or a scaler under a test of how the model is wrapped is not reported;
neither is an unknown strategy, if the project mentions NO_SHARD. The scaler is reported if FSDP
gets float16 (`MixedPrecision(param_dtype=torch.float16)`), or the function with the step opens a
float16 region, and the optimizer is visibly built from the parameters of the model.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Group, Rule, Unrun, View, Violation, calls, constant
from amplint.knowledge.libraries import FULLY_SHARDED, NORM_CLIPPING, SCALERS, SHARDED_SCALERS
from amplint.knowledge.vocabulary import ASKS_SHARDED

from .._shared.guards import speaks_of, tests_around, tests_before
from .._shared.steps import places
from ._sharded import ShardedParameters, StepsOfSharded

UNSCALE = "call `scaler.unscale_(optimizer)`, and then "

rule = Rule(
    "AMP420",
    __doc__,
    group=Group.CORRECTNESS,
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
    parameters = call.arg("parameters", 0)
    if parameters is None or not speaks_of(call, FULLY_SHARDED):
        return
    sharded = parameters.ask(ShardedParameters)
    if sharded is None or has_sharding_test(call, sharded.certain):
        return
    scaled = call.misuse(Violation.CLIP_BEFORE_UNSCALE)  # AMP404, which would say so alone
    norm, first = ("gradient norm", "") if scaled is None else ("scaled gradient norm", UNSCALE)
    because = (*sharded.reasons, *(places(call, scaled) if scaled is not None else ()))
    message = f"`{call.brief}` clips by the {norm} of this process alone"
    yield call.finding(
        message, because, help=f"{first}call `clip_grad_norm_(max_norm)` of the FSDP module"
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
    if sharded is None or is_off or has_sharding_test(call, sharded.certain):
        return
    message = f"`{call.brief}` may skip a step in this process alone: the processes diverge"
    yield call.finding(message, sharded.reasons, help="create a `ShardedGradScaler`")


def has_sharding_test(call: View, certain: bool) -> bool:
    """Whether the parameters may be whole where a call runs, for all that is known.

    Args:
        certain: whether the strategy is known to be one that shards.
    """
    if not certain and call.mentions("NO_SHARD"):
        return True
    tests = (*tests_around(call), *tests_before(call))
    return any(ASKS_SHARDED.search(test.text) for test in tests)
