"""A region of a training step contains nothing that autocast changes, and the model runs outside
it.

Autocast casts the operands of layers and matrix products that run within the region. If the model
is called before the `with`, and the block only adds up its results, the whole step runs in float32:
mixed precision saves no time and no memory. With a GradScaler, the loss is scaled anyway.

    losses = model(images)                     # in float32
    with torch.autocast("cuda"):
        loss = sum(losses.values())            # autocast changes nothing here
    scaler.scale(loss).backward()

    with torch.autocast("cuda"):
        losses = model(images)
        loss = sum(losses.values())
    scaler.scale(loss).backward()

Fix safety: none is offered: only the author knows which statements belong in the region.

Known limits: everything in the block has to be known: builtins, and torch operations that autocast
does not change. The model has to be known as one, and must not open a region itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    HOT,
    Autocast,
    CalledTexts,
    Dtype,
    Finding,
    Group,
    Method,
    NoGrad,
    Object,
    Rule,
    View,
    calls,
    only,
)
from amplint.knowledge.casts import policy
from amplint.knowledge.libraries import AUTOCASTS
from amplint.knowledge.operations import RESULTS

rule = Rule(
    "AMP315",
    __doc__,
    group=Group.PRECISION,
    help="move the forward pass and the loss into the region",
    witness=Dtype(bad="float32", good="bfloat16"),
    supersedes=("AMP305",),
    preview=True,
)


# Builtins that may run a function that they are given.
CALLING = frozenset(f"builtins.{name}" for name in ("map", "filter", "getattr", "super", "eval"))
# Methods of the dict that a model returns.
KEEPING = frozenset({"values", "items", "keys", "get", "pop", "update", "copy"})


@rule.on(calls(*AUTOCASTS) & HOT)
def check(region: View) -> Iterator[Finding]:
    """Ex) with autocast(): loss = sum(losses.values()), after `losses = model(x)`"""
    opened = only(region.value)
    is_on = isinstance(opened, Autocast) and opened.enabled is not False
    if not is_on or not any(map(region.is_same, region.contexts)):
        return
    operations = [*region.operations("call", "binop")]
    inside = [each for each in operations if any(map(region.is_same, each.contexts_around))]
    if not inside or not all(map(is_unchanged, inside)):
        return
    if not any(each.method == "backward" for each in operations):
        return
    forward = next(filter(is_forward, operations), None)
    if forward is not None:
        message = f"autocast changes nothing in this region: `{forward.brief}` runs outside it"
        yield region.finding(message, (forward.related("the model runs here, in float32"),))


def is_unchanged(at: View) -> bool:
    """Whether an operation is known, and autocast leaves it as it is.

    Ex) sum(losses.values()), loss / steps; not model(x), a @ b, helper(x)
    """
    if at.op == "binop":
        return at.operator != "MatMult"
    name, called = at.callee or "", only(at.called.value)
    if name.startswith("builtins."):
        return name not in CALLING
    if isinstance(called, Method):  # of a dict, or of a tensor
        is_known = called.name in KEEPING or f"Tensor.{called.name}" in RESULTS
        return is_known and policy(f"Tensor.{called.name}", "cuda") is None
    return name in RESULTS and policy(name, "cuda") is None


def is_forward(at: View) -> bool:
    """Whether a module is called, with gradients and in no region, and opens none."""
    called = only(at.called.value)
    is_loss = isinstance(called, Object) and called.kind == "criterion"
    if at.op != "call" or is_loss or not at.called.is_module:
        return False
    around = (atom for context in at.contexts_around for atom in context.value)
    opened = at.enabled_region  # one that is presumed is not: the step opens its own
    if (opened is not None and not opened.presumed) or any(isinstance(a, NoGrad) for a in around):
        return False
    return not any("autocast" in text for text in at.ask(CalledTexts) or ())
