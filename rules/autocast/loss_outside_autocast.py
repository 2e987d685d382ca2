"""A loss is taken outside of the region whose half output it is given.

Autocast computes losses in float32. Where the region ends before the loss, its logits are still
half, and so are the logarithms, the mean and the loss: three digits in float16, two in bfloat16,
and infinity beyond 65504.

    with torch.autocast("cuda"):
        logits = model(x)
    loss = F.cross_entropy(logits, y)                 # in half

    with torch.autocast("cuda"):
        logits = model(x)
        loss = F.cross_entropy(logits, y)             # autocast makes it float32

Fix safety: unsafe: casts to float32 what the loss is given, as autocast would. Gradients change by
rounding.

Known limits: losses that are spelled out, rather than functions or criterions of torch, and those
whose other operand may be float32, which makes them float32. A function that some of its callers
call in a region is left alone, and so is a project whose models accelerate or Fabric wrap, which
cast their outputs to float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    HALF,
    WITH_HALF,
    Change,
    Dtype,
    Finding,
    Fix,
    Group,
    OutsideRegions,
    Rule,
    Safety,
    Spot,
    calls,
)
from amplint import libcst as cst
from amplint.knowledge.casts import policy
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import RESULTS

from .._shared.dtypes import (
    Operation,
    dtype_places,
    made_by_autocast,
    operation,
    outputs_are_cast,
    tensors_of,
)

if TYPE_CHECKING:
    from amplint import Source

LOSSES = frozenset(
    name
    for name in (
        *(name for name, result in RESULTS.items() if result.rank == "reduction"),
        *(name for name, facts in MODULES.items() if facts.kind == "criterion"),
    )
    if policy(name, "cuda") == "fp32"
)
CLASSIFYING = "cross_entropy nll_loss multi_margin_loss multilabel_margin_loss".split()
# Their targets are classes, and leave the dtype to what they are held against.
OF_CLASSES = frozenset(
    {
        *(f"torch.nn.functional.{name}" for name in CLASSIFYING),
        "torch.nn.CrossEntropyLoss",
        "torch.nn.MultiLabelMarginLoss",
        "torch.nn.MultiMarginLoss",
        "torch.nn.NLLLoss",
    }
)


def is_given_half(at: Spot) -> bool:
    return at.is_outside and any(tensor.dtype in HALF for tensor in tensors_of(at))


rule = Rule(
    "AMP305",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="move the loss into the region, or cast its inputs by `.float()`",
    witness=Dtype(bad="bfloat16", good="float32"),
    changes=frozenset({Change.DTYPE, Change.ROUNDING}),
    presumes=False,
    candidates=calls(*LOSSES) & is_given_half & WITH_HALF,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    found = operation(call, src)
    if found is None or found.name not in LOSSES or not found.operands:
        return
    given = operands_of_loss(found, call, src)
    tensors = [src.tensor(operand) for operand in given]
    half = [tensor for tensor in tensors if tensor is not None and made_by_autocast(tensor)]
    if (
        not half
        or len(half) < len(given)
        or not src.ask(OutsideRegions, call)
        or outputs_are_cast(src)
    ):
        return
    message = f"`{src.brief(given[0])}` is {half[0].dtype}, and so is this loss out of the region"
    edits = tuple(src.edits.append_call(operand, "float()") for operand in given)
    fix = Fix("Cast it to float32", edits, Safety.UNSAFE)
    yield src.finding(rule, given[0], message, fix, dtype_places(src, *half))


def operands_of_loss(
    found: Operation, call: cst.Call, src: Source
) -> tuple[cst.BaseExpression, ...]:
    """The operands that decide the dtype of a loss: logits alone, or both sides."""
    first, second = src.argument(call, "input", 0), src.argument(call, "target", 1)
    if first is None:
        return ()
    if found.name in OF_CLASSES:
        return (first.value,)
    # Weights would be a third side.
    return (first.value, second.value) if second is not None and len(call.args) == 2 else ()
