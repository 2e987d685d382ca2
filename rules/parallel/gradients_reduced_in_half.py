"""Gradients of a sharded model are added up in half.

FSDP computes in `param_dtype`, and keeps the parameters in float32 for the optimizer. The
gradients of all ranks are added in `reduce_dtype`, which is `param_dtype` where nothing else is
said. A sum in bfloat16 has 8 bits: of many ranks, or of many micro-batches, it loses what is small.
One in float16 can overflow as well.

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

Sums in float32 are twice as much to send, and on few ranks half may do: the rule is pedantic.

Fix safety: none is offered: whether the ranks are few, the author knows.

Known limits: both dtypes have to be known.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import HALF, NONE, DType, Finding, Group, Rule, Unrun, View, calls, only

SOURCE = "docstring of torch.distributed.fsdp.MixedPrecisionPolicy, torch 2.13: reduce_dtype"
POLICIES = (
    "torch.distributed.fsdp.MixedPrecision",
    "torch.distributed.fsdp.MixedPrecisionPolicy",
    "torch.distributed.fsdp.api.MixedPrecision",
    "torch.distributed.fsdp.fully_sharded_data_parallel.MixedPrecision",
    "torch.distributed._composable.fsdp.MixedPrecisionPolicy",
)

rule = Rule(
    "AMP605",
    __doc__,
    group=Group.PEDANTIC,
    help="pass `reduce_dtype=torch.float32`",
    witness=Unrun("it takes a process group of several processes", SOURCE),
)


@rule.on(calls(*POLICIES))
def check(call: View) -> Iterator[Finding]:
    compute, reduce = call.arg("param_dtype", 0), call.arg("reduce_dtype", 1)
    follows = reduce is None or reduce.value == {NONE}
    dtype = half_of(compute)
    added = dtype if follows else half_of(reduce)
    if dtype is not None and added is not None and not call.has_star:
        yield call.finding(f"the gradients of all ranks are added up in {added}")


def half_of(argument: View | None) -> str | None:
    """The 16-bit dtype that an argument is; None where it is another, or unknown."""
    atom = only(argument.value) if argument is not None else None
    return atom.name if isinstance(atom, DType) and atom.name in HALF else None
