"""An operation in place or with `out=` in a region, which autocast leaves alone.

Autocast chooses a dtype for the result, and where the result has a place already, there is nothing
to choose. What it would run in float32 runs in half: `exp` is infinite beyond 11, and sums, powers
and logarithms keep three digits.

    with torch.autocast("cuda"):
        scores = q @ k.transpose(-1, -2)              # half
        scores.exp_()                                 # in half

    with torch.autocast("cuda"):
        scores = (q @ k.transpose(-1, -2)).exp()      # float32

And products raise where their operands differ in dtype, which out of place autocast would cast.

    cov.addmm_(h.t(), h)                              # float32 and half: RuntimeError
    torch.mm(h, h.t(), out=gram)                      # the same

    cov += h.t() @ h

Fix safety: there is no fix; out of place, the result is another tensor, of another dtype.

Known limits: a product in place of float32 alone, which runs in float32 also in a region, is left
alone. So is what was cast to half by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    HALF,
    IN_REGION,
    Dtype,
    Finding,
    Group,
    Region,
    Related,
    Rule,
    Spot,
    Tensor,
    calls,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.casts import AUTOCAST, EQUAL_DTYPES, policy
from amplint.knowledge.operations import RESULTS

from .._shared.dtypes import (
    device_type,
    differ,
    enabled_region,
    made_by_autocast,
    operation,
    tensors_of,
)
from .._shared.guards import is_caught

if TYPE_CHECKING:
    from amplint import Source

PRODUCTS = frozenset(name for name in AUTOCAST["cuda"] if name in EQUAL_DTYPES)
FLOAT32 = ("fp32", "fp32-unless-dtype")
WIDE = frozenset(name for name, how in AUTOCAST["cuda"].items() if how in FLOAT32)
IN_PLACE = frozenset(f"{name}_" for name in PRODUCTS | WIDE if f"{name}_" in RESULTS)


POWER = "Tensor.__pow__"


def has_half(at: Spot) -> bool:
    return any(tensor.dtype in HALF for tensor in tensors_of(at))


rule = Rule(
    "AMP312",
    __doc__,
    group=Group.PRECISION,
    other_groups=(Group.CORRECTNESS,),
    since="0.1",
    help="use the operation that returns a new tensor, and assign its result",
    witness=Dtype(bad="bfloat16", good="float32"),
    presumes=False,
    candidates=(
        nodes("aug") & (lambda at: at.node.data == "Pow" and has_half(at))
        | calls(*IN_PLACE) & has_half
        | calls(*PRODUCTS, *WIDE) & (lambda at: at.given("out") >= 0 and has_half(at))
    )
    & IN_REGION,
)


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) h.exp_(), torch.exp(h, out=h), cov.addmm_(a, b), torch.mm(a, b, out=c)"""
    found = operation(call, src)
    if found is None:
        return
    out = src.keyword(call, "out")
    if out is None and found.name not in IN_PLACE:
        return
    name = found.name if out is not None else found.name.removesuffix("_")
    tensors = [tensor for operand in found.operands if (tensor := src.tensor(operand)) is not None]
    if name in PRODUCTS:
        yield from report_product(call, tensors, src)
    elif name in WIDE:
        operands = [found.operands[0], *([out.value] if out is not None else [])]
        yield from report_half(call, operands, name, src)


@rule.check
def check_power(assign: cst.AugAssign, src: Source) -> Iterator[Finding]:
    """Ex) h **= 2"""
    if isinstance(assign.operator, cst.PowerAssign):
        yield from report_half(assign, [assign.target], POWER, src)


def report_product(call: cst.Call, tensors: list[Tensor], src: Source) -> Iterator[Finding]:
    """A product, whose operands autocast would have brought to one dtype."""
    pairs = itertools.combinations(tensors, 2)
    pair = next((pair for pair in pairs if differ(pair[0].dtype, pair[1].dtype)), None)
    region = enabled_region(call, src)
    if pair is None or region is None or is_caught(call, src):
        return
    dtypes = f"{pair[0].dtype} and {pair[1].dtype}"
    message = f"`{src.brief(call)}` mixes {dtypes} and casts neither: RuntimeError"
    related = places(region, src, *pair)
    yield src.finding(rule, call, message, related=related, group=Group.CORRECTNESS)


def report_half(
    node: cst.CSTNode, operands: list[cst.BaseExpression], name: str, src: Source
) -> Iterator[Finding]:
    """An operation that autocast would run in float32, where operand and result are half."""
    first, *others = (src.tensor(operand) for operand in operands)
    if first is None or not made_by_autocast(first):
        return
    if any(tensor is None or tensor.dtype not in HALF for tensor in others):
        return
    region = enabled_region(operands[0], src)
    device = device_type(region, [first]) if region is not None else None
    if region is None or device is None or policy(name, device) not in FLOAT32:
        return
    message = f"`{src.brief(operands[-1])}` stays {first.dtype}: out of place this runs in float32"
    yield src.finding(rule, node, message, related=places(region, src, first))


def places(region: Region, src: Source, *tensors: Tensor) -> tuple[Related, ...]:
    return src.reasons(*(tensor.dtype_evidence for tensor in tensors), region.evidence)
