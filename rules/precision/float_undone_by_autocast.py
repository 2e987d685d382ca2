"""A cast to float32 directly before a product that autocast casts back: it has no effect.

Matrix products, convolutions and layers take their operands in the dtype of the region, whatever
they were cast to before. `q.float() @ k.float()` runs in half all the same, at the price of two
more copies. What is to run in float32 needs an island.

    scores = q.float() @ k.float().transpose(-1, -2)      # in a region: runs in half

    with torch.autocast("cuda", enabled=False):
        scores = q.float() @ k.float().transpose(-1, -2)

Where half will do, leave out the casts.

Fix safety: the island is only shown, as a suggestion: what follows gets float32 then, and whether
it is needed is for the author. It is shown where all operands are cast, and the statement holds no
other product.

Known limits: a cast that is used for more than products is left alone, as is one under a condition.
Values whose dtype is unknown are not taken to be half, since `.float()` may be there for integers;
they are where both sides are cast and the product is cast back to the dtype of one
(`(a.float() @ b.float()).to(a.dtype)`), in a region that is seen. A CPU region casts in `einsum`
only what comes to a product inside; there it is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from amplint import (
    FLOATS,
    HALF,
    IN_REGION,
    READ,
    Dtype,
    Finding,
    Fix,
    Group,
    Presumes,
    Region,
    Rule,
    RuleName,
    Safety,
    View,
    calls,
    constant,
    nodes,
    region_dtype,
)
from amplint import libcst as cst
from amplint.knowledge.casts import CAST_WITHIN_ON_CPU, EQUAL_DTYPES

from .._shared.dtypes import (
    SAME_DTYPE,
    Operation,
    dtype_evidence,
    dtype_of_cast,
    made_of,
    product,
    takers,
)
from .._shared.region_casts import cast_product, is_cast_by, is_hard_coded

MOST_USES = 20  # of a product, which are searched for a cast back

rule = Rule(
    "AMP211",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="leave out the cast, or disable autocast around what needs float32",
    witness=Dtype(bad="bfloat16", good="float32"),
    presumes=Presumes.ALWAYS,
    cut_from=(RuleName("AMP205", "hard-coded-cast-in-autocast"),),
)


@rule.on((calls(*EQUAL_DTYPES) | nodes("binop")) & IN_REGION)
def check(at: View) -> Iterator[Finding]:
    """Ex) linear(h.float()), which runs in half"""
    found, region = cast_product(at), at.enabled_region
    if found is None or region is None:
        return
    if region.device == "cpu" and found.name in CAST_WITHIN_ON_CPU:
        return
    casts = [(operand, upcast(operand)) for operand in found.operands]
    for operand, cast in casts:
        receiver = cast.receiver if cast is not None else None
        if cast is None or receiver is None:
            continue
        if not is_half(receiver) and not is_meant(at, [each for _, each in casts], region):
            continue
        message = f"`{operand.brief}` is cast back: this product runs in {region_dtype(region)}"
        here = None if cast == operand else cast.related("cast to float32 here")
        because = (here, *dtype_evidence(receiver.tensor), region.evidence)
        yield operand.finding(message, because, island(at, found, region))
        return


def upcast(operand: View) -> View | None:
    """The cast to float32 that the operand comes from, if it serves nothing else."""
    read = made_of(operand, SAME_DTYPE)
    cast = made_of(read.origin, SAME_DTYPE)
    if dtype_of_cast(cast) != "float32" or cast.receiver is None or not is_hard_coded(cast):
        return None
    return cast if read.op != READ or only_in_products(read.origin) else None


def only_in_products(made: View) -> bool:
    return not made.is_merged and all(is_cast_by(*use) for use in takers(made, SAME_DTYPE))


def is_half(at: View) -> bool:
    return at.tensor is not None and at.tensor.dtype in HALF


def is_meant(at: View, casts: list[View | None], region: Region) -> bool:
    """Whether both sides of a product are cast, and it is cast back to what one of them was: then
    that was no integer, and float32 was wanted for the product.

    Ex) (a.float() @ b.float()).to(a.dtype)
    """
    receivers = [each.receiver for each in casts if each is not None]
    if region.presumed or region.enabled is not True or len(receivers) < max(2, len(casts)):
        return False
    given = [each for each in receivers if each is not None and may_be_half(each)]
    return len(given) == len(casts) and any(
        is_cast_back(use, each) for use in islice(at.uses, MOST_USES) for each in given
    )


def may_be_half(at: View) -> bool:
    dtype = at.tensor.dtype if at.tensor is not None else None
    return dtype is None or (dtype in FLOATS and dtype not in ("float32", "float64"))


def is_cast_back(use: View, before: View) -> bool:
    """Whether the dtype of another value is given to what is taken here.

    Ex) y.to(before.dtype), y.type_as(before)
    """
    for call in use.uses if use.op == "attr" else ():
        if call.op != "call" or call.method not in ("to", "type", "type_as"):
            continue
        for _, _, argument in call.arguments:
            made = argument.origin
            of = made.operands[0] if made.op == "attr" and made.method == "dtype" else argument
            if of.is_same(before):
                return True
    return False


def island(at: View, found: Operation, region: Region) -> Fix | None:
    """The statement of a product in a region that is off, where that needs no other cast."""
    src = at.source
    line = src.statement(at.cst)
    is_alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    if line is None or not is_alone or not isinstance(src.parent(line), cst.IndentedBlock):
        return None
    is_cast = [upcast(each) is not None for each in found.operands if not is_text(each)]
    spelling = src.imports.spell("torch.autocast")
    if region.device is None or found.module is not None or len(is_cast) < 2 or not all(is_cast):
        return None
    if spelling is None or any(is_other(at, each) for each in at.operations("call", "binop")):
        return None
    header = f'with {spelling.text}("{region.device}", enabled=False):'
    edits = (*spelling.edits, *src.edits.indent([line], header))
    return Fix("Switch autocast off around the product", edits, Safety.SUGGEST)


def is_text(at: View) -> bool:
    """Ex) the equation of `einsum`"""
    return isinstance(constant(at.value), str)


def is_other(at: View, other: View) -> bool:
    """Whether another product stands in the same statement."""
    src = at.source
    return (
        not other.is_same(at)
        and other.is_written
        and src.statement(other.cst) is src.statement(at.cst)
        and product(other) is not None
    )
