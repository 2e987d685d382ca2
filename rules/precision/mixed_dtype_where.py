"""The branches of `torch.where` are float tensors of different dtypes.

Both with at least one dimension: since torch 1.12 the result silently takes the wider dtype (half
with bfloat16 becomes float32), and everything downstream is computed in it. Under autocast, one
branch is typically half, the output of a matmul, and the other the float32 result of `softmax`,
`norm` or `exp`. In torch 1.11 and before, the call raises.

    phi = torch.where(cosine > th, phi, cosine - mm)                  # half and float32: float32

    phi = torch.where(cosine > th, phi, (cosine - mm).to(phi.dtype))  # keeps half

A Python number or a 0-dim tensor as a branch does not widen the result and is no finding.

Fix safety: casting the wider branch to the dtype of the other is unsafe: the result is narrowed,
and values beyond the range of float16 become infinite.

Known limits: branches whose dtype is unknown are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    HALF,
    Change,
    Dtype,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Spot,
    Tensor,
    calls,
    only,
)
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

TENSOR_CASTS = frozenset({"to", "float", "half", "bfloat16", "double", "type", "type_as"})
WIDTH = {"float16": 16, "bfloat16": 16, "half": 16, "float32": 32, "float64": 64}


def mixes(at: Spot) -> bool:
    """Whether two branches have known dtypes that differ."""
    atoms = [only(at.of(each)) for each in (at.receiver, *at.arguments)]
    floats = [a for a in atoms if isinstance(a, Tensor) and a.rank == 1 and a.dtype in WIDTH]
    return len({tensor.dtype for tensor in floats}) > 1


rule = Rule(
    "AMP203",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="cast both branches to the dtype that the result is to have",
    witness=Dtype(bad="float32", good="bfloat16"),
    changes=frozenset({Change.DTYPE}),
    presumes=True,
    candidates=calls("torch.where", ".where") & mixes,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    branches = branches_of(call, src)
    if branches is None:
        return
    if is_cast(call, src):
        return  # the author knows
    left, right = branches
    one, other = float_tensor(left, src), float_tensor(right, src)
    if one is None or other is None or one.dtype is None or other.dtype is None:
        return
    if one.dtype == other.dtype or (
        {one.dtype, other.dtype} <= HALF and "half" in (one.dtype, other.dtype)
    ):
        return
    related = src.reasons(one.dtype_evidence, other.dtype_evidence)
    message = (
        f"`{src.brief(left)}` is {one.dtype} and `{src.brief(right)}` is {other.dtype}: "
        f"the result is {wider(one.dtype, other.dtype)}"
    )
    yield src.finding(
        rule, call, message, narrow(left, right, one.dtype, other.dtype, src), related
    )


def branches_of(
    call: cst.Call, src: Source
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Ex) torch.where(c, a, b), a.where(c, b)"""
    if src.name(call.func) == "torch.where":
        left, right = src.argument(call, "input", 1), src.argument(call, "other", 2)
        return (left.value, right.value) if left is not None and right is not None else None
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "where":
        other = src.argument(call, "other", 1)
        return (call.func.value, other.value) if other is not None else None
    return None


def is_cast(call: cst.Call, src: Source) -> bool:
    """Ex) torch.where(c, a, b).float()"""
    parent = src.parent(call)
    return isinstance(parent, cst.Attribute) and parent.attr.value in TENSOR_CASTS


def float_tensor(node: cst.BaseExpression, src: Source) -> Tensor | None:
    """A tensor of known float dtype with at least one dimension."""
    atom = only(src.value(node))
    if isinstance(atom, Tensor) and atom.rank == 1 and atom.dtype in WIDTH:
        return atom
    return None


def wider(one: str, other: str) -> str:
    if WIDTH[one] == WIDTH[other]:
        return "float32"
    return max(one, other, key=WIDTH.__getitem__)


def narrow(
    left: cst.BaseExpression, right: cst.BaseExpression, one: str, other: str, src: Source
) -> Fix | None:
    """Cast the wider branch to the dtype of the other; two kinds of half are for the author."""
    if WIDTH[one] == WIDTH[other]:
        edits = tuple(src.edits.append_call(node, "float()") for node in (left, right))
        return Fix("Cast both branches to float32, as happens today", edits, Safety.SUGGEST)
    wide, slim = (left, right) if WIDTH[one] > WIDTH[other] else (right, left)
    if not isinstance(slim, cst.Name | cst.Attribute):
        return None  # its dtype has no name to call it by
    edit = src.edits.append_call(wide, f"to({src.text(slim)}.dtype)")
    return Fix(f"Cast the wider branch to the dtype of `{src.text(slim)}`", (edit,), Safety.UNSAFE)
