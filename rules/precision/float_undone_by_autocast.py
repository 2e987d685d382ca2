"""A cast to float32 has no effect directly before a product, where autocast casts it back.

Matrix products, convolutions and layers cast their operands to the dtype of the region, whatever
they were cast to before. `q.float() @ k.float()` still runs in half, at the price of two more
copies. Code that has to run in float32 needs a nested region with `enabled=False`.

    scores = q.float() @ k.float().transpose(-1, -2)      # in a region: runs in half

    with torch.autocast("cuda", enabled=False):
        scores = q.float() @ k.float().transpose(-1, -2)

If half is precise enough, remove the casts.

Fix safety: the region with `enabled=False` is only shown, as a suggestion: the code after it then
gets float32, and the author has to decide whether it is needed. It is shown if all operands are
cast, and the statement has no other product.

Known limits: a cast that is used for more than products, or under a condition, is not reported.
Values of unknown dtype are normally not assumed to be half, since `.float()` may be there for
integers. They are if both operands are cast and were computed from half results of the region (`a =
proj(x) * mask`), or if the product is cast back to the dtype of one of them (`(a.float() @
b.float()).to(a.dtype)`, in a visible region). In a CPU region, `einsum` casts only if it does a
matrix product inside, so it is not reported there. If the region is only presumed, values that the
code itself casts to half do not count.
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
    Shows,
    Tensor,
    View,
    calls,
    constant,
    evidence_of,
    nodes,
    region_dtype,
)
from amplint import libcst as cst
from amplint.knowledge.casts import CAST_WITHIN_ON_CPU, EQUAL_DTYPES

from .._shared.dtypes import (
    ARITHMETIC,
    SAME_DTYPE,
    Operation,
    dtype_evidence,
    dtype_of_cast,
    made_of,
    product,
    takers,
)
from .._shared.region_casts import cast_product, is_cast_by, is_hard_coded

DIVIDING_METHODS = frozenset({"chunk", "split", "tensor_split", "unbind"})
DIVIDING = frozenset(f"torch.{name}" for name in DIVIDING_METHODS)
BY_REGION = frozenset({Shows.AUTOCAST, Shows.SIGN, Shows.SETTINGS, Shows.ACTIVATION})
MOST_USES = 20  # of a product, which are searched for a cast back

rule = Rule(
    "AMP211",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="remove the cast, or disable autocast around what needs float32",
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
    casts = [(operand, upcast(operand)) for operand in found.operands if not is_text(operand)]
    both = len(casts) > 1 and all(cast is not None for _, cast in casts)
    given = [cast.receiver for _, cast in casts if cast is not None and cast.receiver is not None]
    is_meant = both and (are_floats(given) or is_undone(at, given, region))
    for operand, cast in casts:
        receiver = cast.receiver if cast is not None else None
        if cast is None or receiver is None or not (is_meant or is_half(receiver, region)):
            continue
        message = f"`{operand.brief}` is cast back: this product runs in {region_dtype(region)}"
        here = None if cast == operand else cast.related("cast to float32 here")
        because = (here, *dtype_evidence(receiver.tensor), region.evidence)
        yield operand.finding(message, because, island(at, found, region) if both else None)
        return


def upcast(operand: View) -> View | None:
    """The cast to float32 that the operand comes from, if it serves nothing else."""
    read = made_of(operand, SAME_DTYPE)
    whole = divided(read.origin)
    cast = made_of((whole or read).origin, SAME_DTYPE)
    if dtype_of_cast(cast) != "float32" or cast.receiver is None or not is_hard_coded(cast):
        return None
    if whole is not None:
        parts = read.origin.operands[0].origin.unpacked
        return cast if all(map(only_in_products, parts)) else None
    is_only = read.op != READ or (not read.origin.is_merged and only_in_products(read.origin))
    return cast if is_only else None


def divided(part: View) -> View | None:
    """The tensor that is divided, of an element of its parts.

    Ex) x.float() for a, after `a, b = torch.chunk(x.float(), 2, dim=-1)`
    """
    made = part.operands[0].origin if part.op == "unpack" else None
    if made is None or made.op != "call":
        return None
    if made.receiver is not None and made.callee not in DIVIDING:
        return made.receiver if made.method in DIVIDING_METHODS else None
    return made.arg("input", 0) if made.callee in DIVIDING else None


def only_in_products(made: View) -> bool:
    return all(is_cast_by(*use) for use in takers(made, SAME_DTYPE))


def is_half(at: View, region: Region) -> bool:
    """Whether it is half; in a region that is presumed, since the region makes it so: what somebody
    has cast by hand may be there to do without a region."""
    tensor = at.tensor
    if tensor is None or tensor.dtype not in HALF:
        return False
    return not region.presumed or is_by_region(tensor)


def are_floats(given: list[View]) -> bool:
    """Whether both sides of a product surely are no integers, since the region has made them, or
    what they are computed from.

    Ex) a and b, after `a = proj(x) * mask` and `b = proj(y) * mask`
    """
    return all(map(is_of_region, given))


def is_of_region(at: View) -> bool:
    made = at.origin
    computed = made.operands if made.op == "binop" and made.operator in ARITHMETIC else ()
    tensors = [each.tensor for each in (at, *computed)]
    return any(tensor is not None and is_by_region(tensor) for tensor in tensors)


def is_by_region(tensor: Tensor) -> bool:
    """Whether a tensor is half since a region makes it so, be it one that is presumed, or the
    settings wish activations to be taken for half."""
    evidence = evidence_of(tensor.dtype_evidence) if tensor.dtype in HALF else None
    return evidence is not None and evidence.kind in BY_REGION


def is_undone(at: View, given: list[View], region: Region) -> bool:
    """Whether a product is cast back to what one of its sides was: then that was no integer, and
    float32 was wanted for the product.

    Ex) (a.float() @ b.float()).to(a.dtype)
    """
    if region.presumed or region.enabled is not True or not all(map(may_be_half, given)):
        return False
    uses = islice(at.uses, MOST_USES)
    return any(is_cast_back(use, each) for use in uses for each in given)


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
    """The statement of a product, both sides of which are cast, in a region that is off."""
    src = at.source
    line = src.statement(at.cst)
    is_alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    if line is None or not is_alone or not isinstance(src.parent(line), cst.IndentedBlock):
        return None
    spelling = src.imports.spell("torch.autocast")
    if region.device is None or found.module is not None:
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
