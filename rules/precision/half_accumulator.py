"""A sum or an average over batches is kept in half.

float16 has 11 significant bits, bfloat16 has 8. A sum of ones stalls at 2048 or at 256, and an
average with a decay of 0.999 ignores most of its inputs. There is no warning; the numbers are just
wrong.

    total = torch.zeros(1, dtype=torch.float16, device=device)
    for x, y in loader:
        total += criterion(model(x), y).detach()

    total = torch.zeros(1, device=device)                    # float32; half may be added to it

A sum that begins with a Python number has the dtype of the first tensor that is added: half, if
that is the mean of what a model returns in a region.

Fix safety: there is no fix; the sum may start, and may be read, elsewhere.

Known limits: sums over layers, experts or steps within one batch, and sums that restart within the
loop over the batches, are not reported. Averages of weights are not seen, since the dtype of
parameters is rarely known; neither are sums whose tensor comes from a caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    EVALUATED,
    HOT,
    NUMBER_KINDS,
    WITH_HALF,
    Differs,
    Finding,
    FunctionTexts,
    Group,
    Host,
    Presumes,
    Rule,
    Tensor,
    Value,
    View,
    calls,
    evidence_of,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import half_on_a_path
from amplint.knowledge.vocabulary import MAKES_LASTING

from .._shared.dtypes import finding_on_dtype
from .._shared.growth import beginnings, growth_of, is_bound_earlier, loop_of_batches

if TYPE_CHECKING:
    from amplint import Source

LIMITS = {"float16": 2048, "bfloat16": 256, "half": 2048}

rule = Rule(
    "AMP209",
    __doc__,
    group=Group.PRECISION,
    help="keep the sum in float32: start with a float32 tensor, or add `x.float()`",
    witness=Differs(rtol=0.1),
    presumes=Presumes.ALWAYS,
)


@rule.on(
    (nodes("aug", "binop") | calls(".add_", ".sub_", ".lerp_")) & WITH_HALF & (HOT | EVALUATED)
)
def check(at: View) -> Iterator[Finding]:
    if not any(half_of(each.value) for each in may_grow(at)):
        return
    statement = at.source.parent(at.cst) if at.op == "binop" else at.cst
    growth = growth_of(statement, at.source)
    if growth is None:
        return
    variable = at.of(growth.variable)
    tensor, heat = half_of(variable.value), variable.hotness
    if tensor is None or heat is None or not over_batches(statement, variable, tensor):
        return
    name, dtype = variable.brief, half_on_a_path(tensor.dtype)
    assert dtype is not None
    if growth.decays:
        message = f"`{name}` averages batches in {dtype}: small changes are rounded away"
    else:
        message = (
            f"`{name}` adds up batches in {dtype}: adding 1 has no effect from {LIMITS[dtype]} on"
        )
    yield finding_on_dtype(variable, tensor, message, because=heat.chain)


def may_grow(at: View) -> Iterator[View]:
    """The variables that an operation may add to, and that outlive a batch.

    Most sums of half tensors are residuals of a `forward`, which end with the batch.
    """
    if at.op == "call":
        yield from receivers(at)
    elif at.operator in ("Add", "Sub"):
        outlives = any(heat is None for heat in at.loops)
        sums = at.operands[:1] if at.op == "aug" else at.operands
        factors = [f for each in sums if each.op == "binop" for f in each.operands]
        variables = (each for each in (*sums, *factors) if is_bound_earlier(each))
        yield from (each for each in variables if outlives or each.op == "attr")


def receivers(call: View) -> Iterator[View]:
    """Ex) average.mul_(0.9) and average, of average.mul_(0.9).add_(x)"""
    receiver = call.receiver
    while receiver is not None:
        yield receiver
        receiver = receiver.receiver


def half_of(value: Value) -> Tensor | None:
    """The half tensor that a value is, perhaps after a Python number that it began with."""
    tensors = [atom for atom in value if isinstance(atom, Tensor)]
    numbers = [atom for atom in value if isinstance(atom, Host) and atom.kind in NUMBER_KINDS]
    if len(tensors) != 1 or len(tensors) + len(numbers) != len(value):
        return None
    return tensors[0] if half_on_a_path(tensors[0].dtype) else None


def over_batches(node: cst.CSTNode | None, variable: View, tensor: Tensor) -> bool:
    """Whether the variable lives longer than a batch."""
    src = variable.source
    if isinstance(variable.cst, cst.Name):
        block: cst.CSTNode | None = loop_of_batches(variable)
    elif isinstance(variable.cst, cst.Attribute) and (reason := evidence_of(tensor.dtype_evidence)):
        made_in = variable.fact(FunctionTexts).around(reason.place)
        block = src.function(variable.cst) if made_in.lstrip().startswith(MAKES_LASTING) else None
    else:
        return False
    name = variable.text
    if block is None or any(True for _ in beginnings(name, block, src)):
        return False
    return next(growths(name, block, src), None) is node  # what follows is the same sum


def growths(name: str, block: cst.CSTNode, src: Source) -> Iterator[cst.CSTNode]:
    """The places where the variable grows, in the order of the text."""
    growth = growth_of(block, src)
    if growth is not None and src.text(growth.variable) == name:
        yield block
    for child in block.children:
        yield from growths(name, child, src)
