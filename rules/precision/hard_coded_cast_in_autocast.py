"""A cast by name in an autocast region, which autocast undoes, or which contradicts the region.

Matrix products and layers take their operands in the dtype of the region, whatever they were cast
to before: `q.float() @ k.float()` runs in half all the same, at the price of two more copies. What
is to run in float32 needs an island.

    scores = q.float() @ k.float().transpose(-1, -2)      # in a region: runs in half

    with torch.autocast("cuda", enabled=False):
        scores = q.float() @ k.float().transpose(-1, -2)

The other way round, `.half()` stays where the dtype of the region is another or configurable, or
the region may be off. In a region of bfloat16 it takes away the range that bfloat16 was chosen for;
where the region is off, a layer of float32 parameters raises. Without the cast, autocast does what
is wanted.

Fix safety: there is no fix; whether float32 is needed is for the author.

Known limits: a cast that is used for more than products is left alone, as are casts before losses,
norms and softmax, casts under a condition, and `.half()` in a region that is float16 anyhow. Values
whose dtype is unknown are not taken to be half: `.float()` may be there for integers.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    FLOATS,
    HALF,
    IN_REGION,
    READ,
    Dtype,
    Finding,
    Group,
    Presumes,
    Region,
    Rule,
    View,
    calls,
    nodes,
    region_dtype,
)
from amplint import libcst as cst
from amplint.knowledge.casts import EQUAL_DTYPES, policy

from .._shared.dtypes import (
    SAME_DTYPE,
    Operation,
    dtype_evidence,
    dtype_of_cast,
    first,
    made_of,
    product,
    takers,
)

rule = Rule(
    "AMP205",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="leave out the cast, or disable autocast around what needs float32",
    witness=Dtype(bad="bfloat16", good="float32"),
    presumes=Presumes.ALWAYS,
)


@rule.on((calls(*EQUAL_DTYPES) | nodes("binop")) & IN_REGION)
def check_upcast(at: View) -> Iterator[Finding]:
    """Ex) linear(h.float()), which runs in half"""
    found, region = cast_product(at), at.enabled_region
    if found is None or region is None:
        return
    for operand in found.operands:
        cast = upcast(operand)
        if cast is None or cast.receiver is None:
            continue
        message = f"`{operand.brief}` is cast back: this product runs in {region_dtype(region)}"
        here = None if cast == operand else cast.related("cast to float32 here")
        because = (here, *dtype_evidence(cast.receiver.tensor), region.evidence)
        yield operand.finding(message, because)
        return


@rule.on(calls(".half", ".bfloat16", ".to", ".type") & IN_REGION)
def check_downcast(call: View) -> Iterator[Finding]:
    """Ex) linear(x.half()), where the region is bfloat16, or may be off"""
    dtype, region, cast = dtype_of_cast(call), call.enabled_region, call.receiver
    if dtype not in HALF or region is None or cast is None or not is_hard_coded(call):
        return
    if cast.tensor is not None and cast.tensor.dtype not in (None, *FLOATS):
        return  # integers are another matter
    against = contradicted(dtype, region)
    used = first(uses_in_products(call)) or mixed(call, region_dtype(region)) if against else None
    if used is None or is_conditional(call):
        return
    message = f"`{cast.brief}` is cast to {dtype} {against}"
    yield call.finding(message, (used.related("used here"), region.evidence))


def contradicted(dtype: str, region: Region) -> str | None:
    """The words for what a cast to half contradicts, if anything."""
    low = region_dtype(region)
    if low in ("float16", "bfloat16") and low != dtype:
        return f"in a region of {low}"
    if low == "half":
        return "whatever dtype the region has"
    return "also where the region is off" if region.enabled is None else None


def cast_product(at: View) -> Operation | None:
    """A product whose operands the region around it casts to half."""
    region = at.enabled_region
    found = product(at) if region is not None else None
    if found is None or region is None or policy(found.name, region.device) != "half":
        return None
    # With float64 it raises, which is another matter.
    return None if any(tensor.dtype == "float64" for tensor in found.tensors) else found


def upcast(operand: View) -> View | None:
    """The cast of half to float32 that the operand comes from, if it serves nothing else."""
    read = made_of(operand, SAME_DTYPE)
    cast = made_of(read.origin, SAME_DTYPE)
    if not casts_half(cast):
        return None
    return cast if read.op != READ or only_in_products(read.origin) else None


def casts_half(call: View) -> bool:
    """Ex) h.float(), where h is half"""
    if dtype_of_cast(call) != "float32" or call.receiver is None or not is_hard_coded(call):
        return False
    tensor = call.receiver.tensor
    return tensor is not None and tensor.dtype in HALF


def is_hard_coded(cast: View) -> bool:
    """Whether the dtype is written out: x.half(), x.to(torch.float16), not x.to(y.dtype)"""
    given = [argument for _, _, argument in cast.arguments]
    return not given or any(
        each.op == "attr" and each.operands[0].name == "torch" for each in given
    )


def is_conditional(at: View) -> bool:
    """Whether it runs only under a condition of its own function."""
    for around in at.source.ancestors(at.cst):
        if isinstance(around, cst.If | cst.IfExp):
            return True
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            return False
    return False


def uses_in_products(at: View) -> Iterator[View]:
    """The products in regions that take a value, perhaps in another shape."""
    return (taker for taker, taken in takers(at, SAME_DTYPE) if is_cast_by(taker, taken))


def is_cast_by(taker: View, operand: View) -> bool:
    found = cast_product(taker)
    return found is not None and any(each.is_same(operand) for each in found.operands)


def only_in_products(made: View) -> bool:
    return not made.is_merged and all(is_cast_by(*use) for use in takers(made, SAME_DTYPE))


def mixed(at: View, low: str) -> View | None:
    """Ex) h * x.half(), where h is bfloat16: the result is float32"""
    operations = (taker for taker, _ in takers(at, SAME_DTYPE) if taker.op == "binop")
    return first(each for each in operations if any(is_of(low, side) for side in each.operands))


def is_of(dtype: str, at: View) -> bool:
    return at.tensor is not None and at.tensor.dtype == dtype
