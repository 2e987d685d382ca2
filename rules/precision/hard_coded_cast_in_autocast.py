"""A hard-coded cast to half in an autocast region contradicts the region.

`.half()` means float16, even if the region has another or a configurable dtype, or may be off. In a
bfloat16 region it loses the range that bfloat16 was chosen for, and float16 together with bfloat16
becomes float32. If the region is off, a layer with float32 parameters raises. Without the cast,
autocast chooses the right dtype.

    with torch.autocast("cuda", dtype=torch.bfloat16):
        h = encoder(x.half())                             # float16, then bfloat16

    with torch.autocast("cuda", dtype=torch.bfloat16):
        h = encoder(x)

A cast to float32 that autocast undoes is AMP211.

Fix safety: there is no fix; only the author knows which dtype is wanted.

Known limits: a cast whose result is not used in a matrix product, a convolution or a layer, a cast
under a condition, and `.half()` in a float16 region are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    FLOATS,
    HALF,
    IN_REGION,
    Dtype,
    Finding,
    Group,
    Presumes,
    Region,
    Rule,
    View,
    calls,
    region_dtype,
)

from .._shared.dtypes import SAME_DTYPE, dtype_of_cast
from .._shared.guards import tests_around
from ._operands import first, takers
from ._region_casts import is_cast_by, is_hard_coded

rule = Rule(
    "AMP205",
    __doc__,
    group=Group.PRECISION,
    help="remove the cast: autocast casts to half where it should",
    witness=Dtype(bad="float32", good="bfloat16"),
    presumes=Presumes.ALWAYS,
)


@rule.on(calls(".half", ".bfloat16", ".to", ".type") & IN_REGION)
def check(call: View) -> Iterator[Finding]:
    """Ex) linear(x.half()), where the region is bfloat16, or may be off"""
    dtype, region, cast = dtype_of_cast(call), call.enabled_region, call.receiver
    if dtype not in HALF or region is None or cast is None or not is_hard_coded(call):
        return
    if cast.tensor is not None and cast.tensor.dtype not in (None, *FLOATS):
        return  # integers are another matter
    against = contradicted(dtype, region)
    used = first(uses_in_products(call)) or mixed(call, region_dtype(region)) if against else None
    if used is None or any(True for _ in tests_around(call)):
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
    return "even where the region is off" if region.enabled is None else None


def uses_in_products(at: View) -> Iterator[View]:
    """The products in regions that take a value, perhaps in another shape."""
    return (taker for taker, operand in takers(at, SAME_DTYPE) if is_cast_by(taker, operand))


def mixed(at: View, low: str) -> View | None:
    """Ex) h * x.half(), where h is bfloat16: the result is float32"""
    operations = (taker for taker, _ in takers(at, SAME_DTYPE) if taker.op == "binop")
    return first(each for each in operations if any(is_of(low, side) for side in each.operands))


def is_of(dtype: str, at: View) -> bool:
    return at.tensor is not None and at.tensor.dtype == dtype
