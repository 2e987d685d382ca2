"""The branches of `torch.where` are float tensors of different dtypes.

If both have at least one dimension, the result silently gets the wider dtype since torch 1.12
(float16 with bfloat16 becomes float32), and everything downstream is computed in it. Under
autocast, one branch is typically half, the output of a matmul, and the other the float32 result of
`softmax`, `norm` or `exp`. In torch 1.11 and earlier, the call raises.

    phi = torch.where(cosine > th, phi, cosine - mm)                  # half and float32: float32

    phi = torch.where(cosine > th, phi, (cosine - mm).to(phi.dtype))  # keeps half

A Python number or a 0-dim tensor as a branch does not widen the result and is not reported.

Fix safety: casting the wider branch to the dtype of the other is unsafe: the result is narrowed,
and values beyond the range of float16 become infinite.

Known limits: branches of unknown dtype are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    HALF,
    READ,
    Change,
    Dtype,
    Finding,
    Fix,
    Group,
    Presumes,
    Rule,
    Safety,
    Tensor,
    View,
    calls,
)
from amplint import libcst as cst

TENSOR_CASTS = frozenset({"to", "float", "half", "bfloat16", "double", "type", "type_as"})
WIDTH = {"float16": 16, "bfloat16": 16, "half": 16, "float32": 32, "float64": 64}


rule = Rule(
    "AMP203",
    __doc__,
    group=Group.PRECISION,
    help="cast both branches to the dtype that the result should have",
    witness=Dtype(bad="float32", good="bfloat16"),
    changes=frozenset({Change.DTYPE}),
    presumes=Presumes.ALWAYS,
)


@rule.on(calls("torch.where", ".where"))
def check(call: View) -> Iterator[Finding]:
    left, right = branches_of(call)
    one, other = float_tensor(left), float_tensor(right)
    if left is None or right is None or one is None or other is None:
        return
    if one.dtype is None or other.dtype is None or is_alike(one.dtype, other.dtype):
        return
    if is_cast(call):
        return  # the author knows
    message = (
        f"`{left.brief}` is {one.dtype} and `{right.brief}` is {other.dtype}: "
        f"the result is {wider(one.dtype, other.dtype)}"
    )
    fix = narrow(left, right, one.dtype, other.dtype)
    yield call.finding(message, (one.dtype_evidence, other.dtype_evidence), fix)


def branches_of(call: View) -> tuple[View | None, View | None]:
    """Ex) torch.where(c, a, b), a.where(c, b)"""
    if call.callee == "torch.where":
        return call.arg("input", 1), call.arg("other", 2)
    return call.receiver, call.arg("other", 1)


def is_cast(call: View) -> bool:
    """Ex) torch.where(c, a, b).float()"""
    uses = (use for use in call.uses if use.op == "attr" and use.method in TENSOR_CASTS)
    return any(use.receiver is not None and use.receiver.op != READ for use in uses)


def float_tensor(at: View | None) -> Tensor | None:
    """A tensor of known float dtype with at least one dimension."""
    tensor = at.tensor if at is not None else None
    return tensor if tensor is not None and tensor.rank == 1 and tensor.dtype in WIDTH else None


def is_alike(one: str, other: str) -> bool:
    """Whether two dtypes are one, or may be."""
    return one == other or ({one, other} <= HALF and "half" in (one, other))


def wider(one: str, other: str) -> str:
    if WIDTH[one] == WIDTH[other]:
        return "float32"
    return max(one, other, key=WIDTH.__getitem__)


def narrow(left: View, right: View, one: str, other: str) -> Fix | None:
    """Cast the wider branch to the dtype of the other; two kinds of half are for the author."""
    edits = left.source.edits
    if WIDTH[one] == WIDTH[other]:
        casts = tuple(edits.append_call(each.cst, "float()") for each in (left, right))
        return Fix("Cast both branches to float32, as happens now", casts, Safety.SUGGEST)
    wide, slim = (left, right) if WIDTH[one] > WIDTH[other] else (right, left)
    if not isinstance(slim.cst, cst.Name | cst.Attribute):
        return None  # its dtype has no name to call it by
    cast = edits.append_call(wide.cst, f"to({slim.text}.dtype)")
    return Fix(f"Cast the wider branch to the dtype of `{slim.text}`", (cast,), Safety.UNSAFE)
