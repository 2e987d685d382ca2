"""A loss is computed outside the region, from the region's half output.

Autocast computes losses in float32. If the region ends before the loss, the logits are still half,
and so are the logarithms, the mean and the loss: float16 has three digits and is infinite beyond
65504, bfloat16 has two digits.

    with torch.autocast("cuda"):
        logits = model(x)
    loss = F.cross_entropy(logits, y)                 # in half

    with torch.autocast("cuda"):
        logits = model(x)
        loss = F.cross_entropy(logits, y)             # autocast makes it float32

Fix safety: unsafe: casts the inputs of the loss to float32, as autocast would. Gradients change by
rounding.

Known limits: not found are losses that are written out instead of using functions or criterions of
torch, and losses whose other operand may be float32, which makes them float32. A function that is
also called inside a region is not reported; neither is a project whose models are wrapped by
accelerate or Fabric, which cast the outputs to float32.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    WITH_HALF,
    Change,
    Dtype,
    Finding,
    Fix,
    Group,
    Presumes,
    Rule,
    Safety,
    View,
    calls,
)
from amplint.knowledge.casts import policy
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import RESULTS

from .._shared.dtypes import library_casts_model_outputs, operation
from ._regions import made_by_autocast

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


rule = Rule(
    "AMP305",
    __doc__,
    group=Group.PRECISION,
    help="move the loss into the region, or cast its inputs with `.float()`",
    witness=Dtype(bad="bfloat16", good="float32"),
    changes=frozenset({Change.DTYPE, Change.ROUNDING}),
    presumes=Presumes.NEVER,
)


@rule.on(calls(*LOSSES) & WITH_HALF)
def check(call: View) -> Iterator[Finding]:
    operands = operands_of_loss(call) if is_outside(call) else []
    half = [t for each in operands if (t := each.tensor) is not None and made_by_autocast(t)]
    if not half or len(half) < len(operands) or library_casts_model_outputs(call):
        return
    message = f"`{operands[0].brief}` is {half[0].dtype}, and so is this loss outside the region"
    append = call.source.edits.append_call
    edits = tuple(append(operand.cst, "float()") for operand in operands)
    fix = Fix("Cast it to float32", edits, Safety.UNSAFE)
    yield operands[0].finding(message, (tensor.dtype_evidence for tensor in half), fix)


def is_outside(call: View) -> bool:
    """Whether a loss is in no region, or in one that its function switches off itself."""
    region = call.region
    return region is None or (region.enabled is False and not region.inherited)


def operands_of_loss(call: View) -> list[View]:
    """The operands that decide the dtype of a loss: logits alone, or both sides."""
    op = operation(call)
    first, second = call.arg("input", 0), call.arg("target", 1)
    if op is None or op.name not in LOSSES or first is None:
        return []
    if op.name in OF_CLASSES:
        return [first]
    # Weights would be a third side.
    is_all = second is not None and len([*call.arguments]) == 2
    return [first, second] if second is not None and is_all else []
