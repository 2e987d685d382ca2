"""A sum or an average over batches is kept in half.

float16 has 11 bits for a number, bfloat16 has 8. A sum to which ones are added stalls at 2048, or
at 256; an average with a decay of 0.999 takes no notice of most of what it is given. Nothing warns,
the numbers are only wrong.

    total = torch.zeros(1, dtype=torch.float16, device=device)
    for x, y in loader:
        total += criterion(model(x), y).detach()

    total = torch.zeros(1, device=device)                    # float32; half may be added to it

A sum that begins with a Python number has the dtype of the first tensor that is added: half, where
that is the mean of what a model returns in a region.

Fix safety: there is no fix; where the sum begins, and what reads it, may be elsewhere.

Known limits: sums over layers, experts or steps within one batch are left alone, as are those that
begin anew within the loop over the batches. Averages of weights are not seen, since the dtype of
parameters is rarely known, nor are sums whose tensor is handed in by a caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    NUMBER_KINDS,
    WITH_HALF,
    Differs,
    Finding,
    Group,
    Host,
    Rule,
    Spot,
    Tensor,
    Value,
    calls,
    evidence_of,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import CHOICES, half_on_a_path
from amplint.knowledge.vocabulary import MAKES_LASTING

from .._shared.code_texts import text_around
from .._shared.dtypes import dtype_places
from .._shared.growth import begins_anew, growth_of, growths, loop_over_batches
from .._shared.reads import heat_places

if TYPE_CHECKING:
    from amplint import Source

LIMITS = {"float16": 2048, "bfloat16": 256, "half": 2048}


def grows_in_half(at: Spot) -> bool:
    """Ex) t += x, t = 0.9 * t + x"""
    return at.node.data in ("Add", "Sub") and any(is_half(at, n) for n in at.node.operands)


def is_half(at: Spot, number: int) -> bool:
    """Whether it is half, or what is multiplied in it, or what is decayed in place."""
    if half_of(at.of(number)) is not None:
        return True
    node = at.graph.nodes[number]
    if node.op == "binop" and node.data == "Mult":
        return any(half_of(at.of(each)) is not None for each in node.operands)
    if node.op == "call":
        callee = at.graph.nodes[node.operands[0]]
        return callee.op == "attr" and half_of(at.of(callee.operands[0])) is not None
    return False


def outlives_batch(at: Spot) -> bool:
    """Whether a sum may: it is a field, or there is a loop that is entered in a cold place.

    Most sums of half tensors are residuals of a `forward`, which end with the batch.
    """
    if any(at.graph.nodes[user].op == "store" for user in at.users):
        return True
    block = at.block
    while block >= 0:
        kind, around = at.graph.blocks[block][:2]
        if kind in ("loop", "while") and at.heat_of(around) is None:
            return True
        block = around
    return False


rule = Rule(
    "AMP209",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="keep the sum in float32: begin with a float32 tensor, or add `x.float()`",
    witness=Differs(rtol=0.1),
    presumes=True,
    candidates=(
        nodes("aug", "binop") & grows_in_half & outlives_batch
        | calls(".add_", ".sub_", ".lerp_") & (lambda at: is_half(at, at.receiver))
    )
    & WITH_HALF
    & (lambda at: at.heat is not None),
)


@rule.check
def check(node: cst.AugAssign | cst.Assign | cst.Call, src: Source) -> Iterator[Finding]:
    growth = growth_of(node, src)
    if growth is None:
        return
    tensor = half_of(src.value(growth.variable))
    heat = src.heat(growth.variable) if tensor is not None else None
    if tensor is None or heat is None or not over_batches(node, growth.variable, tensor, src):
        return
    name, dtype = src.brief(growth.variable), half_on_a_path(tensor.dtype)
    assert dtype is not None
    if growth.decays:
        message = f"`{name}` averages batches in {dtype}: small changes are rounded away"
    else:
        message = f"`{name}` adds up batches in {dtype}: ones stop counting at {LIMITS[dtype]}"
    related = (*dtype_places(src, tensor), *heat_places(heat, src))
    anywhere = tensor.dtype in CHOICES
    yield src.finding(rule, growth.variable, message, None, related, anywhere=anywhere)


def half_of(value: Value) -> Tensor | None:
    """The half tensor that a value is, perhaps after a Python number that it began with."""
    tensors = [atom for atom in value if isinstance(atom, Tensor)]
    numbers = [atom for atom in value if isinstance(atom, Host) and atom.kind in NUMBER_KINDS]
    if len(tensors) != 1 or len(tensors) + len(numbers) != len(value):
        return None
    return tensors[0] if half_on_a_path(tensors[0].dtype) else None


def over_batches(
    node: cst.CSTNode, variable: cst.BaseExpression, tensor: Tensor, src: Source
) -> bool:
    """Whether the variable lives longer than a batch."""
    if isinstance(variable, cst.Name):
        block: cst.CSTNode | None = loop_over_batches(node, src)
    elif isinstance(variable, cst.Attribute) and (made := evidence_of(tensor.dtype_evidence)):
        made_in = text_around(made, src)
        block = src.function(node) if made_in.lstrip().startswith(MAKES_LASTING) else None
    else:
        return False
    name = src.text(variable)
    if block is None or begins_anew(name, block, src):
        return False
    return next(growths(name, block, src), None) is node  # what follows is the same sum
