"""An operation in a region is in place or has `out=`, so autocast does not cast it.

Autocast cannot choose a dtype for the result if the result already exists. Operations that it would
run in float32 then run in half: `exp` is infinite beyond 11, and sums, powers and logarithms keep
three digits.

    with torch.autocast("cuda"):
        scores = q @ k.transpose(-1, -2)              # half
        scores.exp_()                                 # in half

    with torch.autocast("cuda"):
        scores = (q @ k.transpose(-1, -2)).exp()      # float32

Products raise if their operands differ in dtype; out of place, autocast would cast them.

    cov.addmm_(h.t(), h)                              # float32 and half: RuntimeError
    torch.mm(h, h.t(), out=gram)                      # the same

    cov += h.t() @ h

Fix safety: there is no fix; out of place, the result is a new tensor with another dtype.

Known limits: an in-place product of only float32 operands, which runs in float32 even in a region,
is not reported. Neither are values that the code itself casts to half.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from amplint import HALF, IN_REGION, Dtype, Finding, Group, Presumes, Rule, Tensor, View, calls
from amplint.knowledge.casts import AUTOCAST, EQUAL_DTYPES, policy
from amplint.knowledge.operations import RESULTS

from .._shared.dtypes import device_type, differ, operation
from .._shared.guards import is_caught
from ._regions import made_by_autocast

PRODUCTS = frozenset(name for name in AUTOCAST["cuda"] if name in EQUAL_DTYPES)
FLOAT32 = ("fp32", "fp32-unless-dtype")
WIDE = frozenset(name for name, how in AUTOCAST["cuda"].items() if how in FLOAT32)
IN_PLACE = frozenset(f"{name}_" for name in PRODUCTS | WIDE if f"{name}_" in RESULTS)

rule = Rule(
    "AMP312",
    __doc__,
    group=Group.PRECISION,
    other_groups=(Group.CORRECTNESS,),
    help="use the out-of-place operation, and assign its result",
    witness=Dtype(bad="bfloat16", good="float32"),
    presumes=Presumes.AUDITED,
)


@rule.on(calls(*IN_PLACE, *PRODUCTS, *WIDE) & IN_REGION)
def check_call(call: View) -> Iterator[Finding]:
    """Ex) h.exp_(), torch.exp(h, out=h), cov.addmm_(a, b), torch.mm(a, b, out=c)"""
    out = call.arg("out")
    op = operation(call)
    if op is None or (out is None and op.name not in IN_PLACE):
        return
    name = op.name if out is not None else op.name.removesuffix("_")
    if name in PRODUCTS:
        yield from report_product(call, op.tensors)
    elif name in WIDE:
        operands = [*op.operands[:1], *([out] if out is not None else [])]
        yield from report_half(call, operands, name)


def report_product(call: View, tensors: Sequence[Tensor]) -> Iterator[Finding]:
    """A product, whose operands autocast would have brought to one dtype."""
    pairs = itertools.combinations(tensors, 2)
    pair = next((pair for pair in pairs if differ(pair[0].dtype, pair[1].dtype)), None)
    region = call.enabled_region
    if pair is None or region is None or is_caught(call):
        return
    one, other = pair
    message = f"`{call.brief}` mixes {one.dtype} and {other.dtype} and casts neither: RuntimeError"
    because = (one.dtype_evidence, other.dtype_evidence, region.evidence)
    yield call.finding(message, because, group=Group.CORRECTNESS)


def report_half(at: View, operands: Sequence[View], name: str) -> Iterator[Finding]:
    """An operation that autocast would run in float32, where operand and result are half."""
    first, *others = (operand.tensor for operand in operands)
    if first is None or not made_by_autocast(first):
        return
    if any(tensor is None or tensor.dtype not in HALF for tensor in others):
        return
    region = at.enabled_region
    device = device_type(region, [first]) if region is not None else None
    if region is None or device is None or policy(name, device) not in FLOAT32:
        return
    text = f"`{operands[-1].brief}` stays {first.dtype}"
    because = (first.dtype_evidence, region.evidence)
    yield at.finding(f"{text}: out of place this runs in float32", because)
