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
from typing import TYPE_CHECKING

from amplint import (
    FLOATS,
    HALF,
    WITHIN_REGION,
    Dtype,
    Finding,
    Group,
    Rule,
    Spot,
    calls,
    region_dtype,
)
from amplint import libcst as cst
from amplint.knowledge.casts import DTYPE_OF_CAST, policy

from .._shared.dtypes import (
    SAME_DTYPE,
    Operation,
    before,
    behind,
    cast_dtype,
    cast_of,
    dtype_places,
    enabled_region,
    product,
)

if TYPE_CHECKING:
    from amplint import Source

CASTING = frozenset(f".{name.rpartition('.')[2]}" for name in DTYPE_OF_CAST) | {".to", ".type"}


def casts_here(at: Spot) -> bool:
    """Ex) h.float(), where h is half; x.half(), in a region"""
    dtype, tensor = cast_of(at), at.tensor(at.receiver)
    if dtype == "float32":
        return tensor is not None and tensor.dtype in HALF
    known = tensor is None or tensor.dtype in (None, *FLOATS)
    return dtype in HALF and known and at.enabled_region is not None


rule = Rule(
    "AMP205",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="leave out the cast, or disable autocast around what needs float32",
    witness=Dtype(bad="bfloat16", good="float32"),
    presumes=True,
    candidates=calls(*CASTING) & casts_here & WITHIN_REGION,
)


@rule.check
def check_upcast(node: cst.Call | cst.BinaryOperation, src: Source) -> Iterator[Finding]:
    """Ex) linear(h.float()), which runs in half"""
    found = cast_product(node, src)
    if found is None:
        return
    for operand in found.operands:
        cast = upcast(operand, src)
        if cast is None:
            continue
        region = enabled_region(node, src)
        assert region is not None and isinstance(cast.func, cst.Attribute)
        what = src.brief(operand)
        message = f"`{what}` is cast back: this product runs in {region_dtype(region)}"
        related = [*dtype_places(src, src.tensor(cast.func.value)), *src.reasons(region.evidence)]
        if cast is not operand:
            related.insert(0, src.related_node(cast, "cast to float32 here"))
        yield src.finding(rule, operand, message, related=tuple(dict.fromkeys(related)))
        return


@rule.check
def check_downcast(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) linear(x.half()), where the region is bfloat16, or may be off"""
    dtype, region = cast_dtype(call, src), enabled_region(call, src)
    if dtype not in HALF or region is None or not isinstance(call.func, cst.Attribute):
        return
    if not is_hard_coded(call, src) or is_conditional(call, src):
        return
    tensor, low = src.tensor(call.func.value), region_dtype(region)
    if tensor is not None and tensor.dtype not in (None, *FLOATS):
        return  # integers are another matter
    if low in ("float16", "bfloat16") and low != dtype:
        evidence = f"in a region of {low}"
    elif low == "half":
        evidence = "whatever dtype the region has"
    elif region.enabled is None:
        evidence = "also where the region is off"
    else:
        return
    used = next(uses_in_products(call, src), None) or mixed(call, low, src)
    if used is None:
        return
    message = f"`{src.brief(call.func.value)}` is cast to {dtype} {evidence}"
    related = (src.related_node(used, "used here"), *src.reasons(region.evidence))
    yield src.finding(rule, call, message, related=related)


def cast_product(node: cst.CSTNode, src: Source) -> Operation | None:
    """A product whose operands the region around it casts to half."""
    region = enabled_region(node, src)
    found = product(node, src) if region is not None else None
    if found is None or region is None or policy(found.name, region.device) != "half":
        return None
    tensors = [src.tensor(operand) for operand in found.operands]
    # With float64 it raises, which is another matter.
    return None if any(t is not None and t.dtype == "float64" for t in tensors) else found


def upcast(operand: cst.BaseExpression, src: Source) -> cst.Call | None:
    """The cast of half to float32 that the operand comes from, if it serves nothing else."""
    cast = before(operand, SAME_DTYPE, src)
    if isinstance(cast, cst.Name):
        made = src.origin(cast)
        if made is None or not only_in_products(made, src):
            return None
        cast = before(made, SAME_DTYPE, src)
    if not isinstance(cast, cst.Call) or cast_dtype(cast, src) != "float32":
        return None
    if not is_hard_coded(cast, src) or not isinstance(cast.func, cst.Attribute):
        return None
    tensor = src.tensor(cast.func.value)
    return cast if tensor is not None and tensor.dtype in HALF else None


def is_hard_coded(cast: cst.Call, src: Source) -> bool:
    """Whether the dtype is written out: x.half(), x.to(torch.float16), not x.to(y.dtype)"""
    named = [arg.value for arg in cast.args]
    return not named or any(
        isinstance(node, cst.Attribute) and src.name(node.value) == "torch" for node in named
    )


def is_conditional(node: cst.CSTNode, src: Source) -> bool:
    """Whether the node runs only under a condition of its own function."""
    for around in src.ancestors(node):
        if isinstance(around, cst.If | cst.IfExp):
            return True
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            return False
    return False


def uses_in_products(node: cst.BaseExpression, src: Source) -> Iterator[cst.CSTNode]:
    """The products in regions that take the value of an expression, perhaps in another shape."""
    for read in (node, *src.uses(node)):
        used = product_of(read, src)
        if used is not None:
            yield used


def product_of(read: cst.BaseExpression, src: Source) -> cst.CSTNode | None:
    use = behind(read, SAME_DTYPE, src)
    around: cst.CSTNode | None = src.parent(use)
    while isinstance(around, cst.Arg | cst.Element | cst.List | cst.Tuple):
        around = src.parent(around)
    found = cast_product(around, src) if around is not None else None
    return around if found is not None and any(o is use for o in found.operands) else None


def only_in_products(made: cst.BaseExpression, src: Source) -> bool:
    uses = src.uses(made)
    return not src.joined(made) and all(product_of(use, src) is not None for use in uses)


def mixed(node: cst.BaseExpression, low: str, src: Source) -> cst.CSTNode | None:
    """Ex) h * x.half(), where h is bfloat16: the result is float32"""
    for read in (node, *src.uses(node)):
        operation = src.parent(behind(read, SAME_DTYPE, src))
        if not isinstance(operation, cst.BinaryOperation):
            continue
        sides = [src.tensor(side) for side in (operation.left, operation.right)]
        if any(side is not None and side.dtype == low for side in sides):
            return operation
    return None
