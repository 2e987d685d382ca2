"""A cast to float32 has no effect directly before a product, where autocast casts it back.

Matrix products, convolutions and layers cast their operands to the dtype of the region, whatever
they were cast to before. `q.float() @ k.float()` still runs in half, at the price of two more
copies. Code that has to run in float32 needs a nested region with `enabled=False`.

    scores = q.float() @ k.float().transpose(-1, -2)      # in a region: runs in half

    with torch.autocast("cuda", enabled=False):
        scores = q.float() @ k.float().transpose(-1, -2)

If half is precise enough, remove the casts.

Fix safety: there is no fix; the author has to decide whether float32 is needed.

Known limits: a cast that is used for more than products, or under a condition, is not reported.
Values of unknown dtype are normally not assumed to be half, since `.float()` may be there for
integers. They are if both operands are cast and were computed from half results of the region (`a =
proj(x) * mask`). In a CPU region, `einsum` casts only if it does a matrix product inside, so it is
not reported there. If the region is only presumed, values that the code itself casts to half do not
count.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    HALF,
    IN_REGION,
    READ,
    Dtype,
    Finding,
    Group,
    Presumes,
    Region,
    Rule,
    RuleName,
    Shows,
    Tensor,
    View,
    calls,
    constant,
    evidence_of,
    nodes,
    region_dtype,
)
from amplint.knowledge.casts import CAST_WITHIN_ON_CPU, EQUAL_DTYPES

from .._shared.dtypes import ARITHMETIC, SAME_DTYPE, chain_root, dtype_of_cast
from ._operands import dtype_evidence, takers
from ._region_casts import cast_product, is_cast_by, is_hard_coded

BY_REGION = frozenset({Shows.AUTOCAST, Shows.SIGN, Shows.SETTINGS, Shows.ACTIVATION})

rule = Rule(
    "AMP211",
    __doc__,
    group=Group.PRECISION,
    help="remove the cast, or disable autocast around what needs float32",
    witness=Dtype(bad="bfloat16", good="float32"),
    presumes=Presumes.ALWAYS,
    cut_from=(RuleName("AMP205", "hard-coded-cast-in-autocast"),),
)


@rule.on((calls(*EQUAL_DTYPES) | nodes("binop")) & IN_REGION)
def check(at: View) -> Iterator[Finding]:
    """Ex) linear(h.float()), which runs in half"""
    op, region = cast_product(at), at.enabled_region
    if op is None or region is None:
        return
    if region.device == "cpu" and op.name in CAST_WITHIN_ON_CPU:
        return
    casts = [(operand, upcast(operand)) for operand in op.operands if not is_text(operand)]
    inputs = [cast.receiver for _, cast in casts if cast is not None and cast.receiver is not None]
    # Both sides surely are no integers if the region has made them, or what they are computed from.
    is_meant = 1 < len(inputs) == len(casts) and all(map(is_of_region, inputs))
    for operand, cast in casts:
        receiver = cast.receiver if cast is not None else None
        if cast is None or receiver is None or not (is_meant or is_half(receiver, region)):
            continue
        message = f"`{operand.brief}` is cast back: this product runs in {region_dtype(region)}"
        here = None if cast == operand else cast.related("cast to float32 here")
        yield operand.finding(message, (here, *dtype_evidence(receiver.tensor), region.evidence))
        return


def upcast(operand: View) -> View | None:
    """The cast to float32 that the operand comes from, if it serves nothing else."""
    read = chain_root(operand, SAME_DTYPE)
    origin = read.origin
    cast = chain_root(origin, SAME_DTYPE)
    if dtype_of_cast(cast) != "float32" or cast.receiver is None or not is_hard_coded(cast):
        return None
    if read.op != READ:
        return cast
    serves_products = all(is_cast_by(*use) for use in takers(origin, SAME_DTYPE))
    return cast if serves_products and not origin.is_merged else None


def is_half(at: View, region: Region) -> bool:
    """Whether it is half; in a region that is presumed, since the region makes it so: what somebody
    has cast by hand may be there to do without a region."""
    tensor = at.tensor
    if tensor is None or tensor.dtype not in HALF:
        return False
    return not region.presumed or is_by_region(tensor)


def is_of_region(at: View) -> bool:
    """Ex) a of `a = proj(x) * mask`"""
    origin = at.origin
    computed = origin.operands if origin.op == "binop" and origin.operator in ARITHMETIC else ()
    tensors = [each.tensor for each in (at, *computed)]
    return any(tensor is not None and is_by_region(tensor) for tensor in tensors)


def is_by_region(tensor: Tensor) -> bool:
    """Whether a tensor is half since a region makes it so, be it one that is presumed, or the
    settings wish activations to be taken for half."""
    evidence = evidence_of(tensor.dtype_evidence) if tensor.dtype in HALF else None
    return evidence is not None and evidence.kind in BY_REGION


def is_text(at: View) -> bool:
    """Ex) the equation of `einsum`"""
    return isinstance(constant(at.value), str)
