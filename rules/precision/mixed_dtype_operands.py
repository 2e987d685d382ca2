"""An operation that takes one dtype is given half and float32, and no region casts them.

Matrix products, convolutions, attention, `grid_sample` and the kernels of attention libraries raise
if their operands differ in dtype. In an autocast region, torch casts the operands of its own
products, but not those of a library: there a `softmax` or a norm is float32, and a product is half.
Where a whole module is cast, nothing is cast for anybody, and float32 comes from `.float()`, from
`torch.softmax(x, -1, dtype=torch.float32)` or from a tensor made without a dtype.

    weights = F.softmax(scores.float(), dim=-1)          # float32
    out = torch.bmm(weights, values)                     # half values: raises

    weights = F.softmax(scores.float(), dim=-1).to(values.dtype)
    out = torch.bmm(weights, values)

Fix safety: casts the wider operand to the dtype of the other one. Unsafe: the author may rather
want the operation in float32.

Known limits: a product is not reported in a project that mentions autocast, for a caller may open a
region; with `--under float16` it is. Layers are AMP206, tensors made without a dtype AMP201, writes
AMP204, and products where a region is switched off AMP306. A float32 mask of half queries is
reported: the memory-efficient kernel of CUDA refuses it ("invalid dtype for bias"), and so did
older versions of torch everywhere, while cuDNN and the CPU take it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from amplint import (
    HALF,
    WITH_HALF,
    Change,
    Finding,
    Fix,
    Group,
    Presumes,
    Raises,
    Rule,
    Safety,
    View,
    calls,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.casts import EQUAL_DTYPES
from amplint.knowledge.dtypes import WIDE_FLOATS
from amplint.knowledge.libraries import ATTENTIONS

from .._shared.dtypes import differ, product
from ._operands import dtype_evidence, may_default_to_half

EINSUM = "torch.einsum"
SAMPLING = frozenset({"torch.nn.functional.grid_sample"})

rule = Rule(
    "AMP213",
    __doc__,
    group=Group.CORRECTNESS,
    help="cast one operand to the dtype of the other: `a.to(b.dtype)`",
    witness=Raises("same dtype"),
    changes=frozenset({Change.DTYPE}),
    presumes=Presumes.AUDITED,
    preview=True,
)


@rule.on((calls(*EQUAL_DTYPES, *SAMPLING, *ATTENTIONS) | nodes("binop")) & WITH_HALF)
def check(at: View) -> Iterator[Finding]:
    """Ex) torch.bmm(weights, values), of float32 and half"""
    tensors = [(each, each.tensor) for each in operands_of(at)]
    half = next(((each, t) for each, t in tensors if t is not None and t.dtype in HALF), None)
    wide = next(
        ((each, t) for each, t in tensors if t is not None and t.dtype in WIDE_FLOATS), None
    )
    if half is None or wide is None or not differ(half[1].dtype, wide[1].dtype):
        return
    if may_be_cast(at) or may_default_to_half(wide[0]):
        return
    dtypes = " and ".join(f"`{each.brief}` is {tensor.dtype}" for each, tensor in (half, wide))
    because = dtype_evidence(wide[1], half[1])
    yield at.finding(f"{dtypes}: this raises", because, follow(wide[0], half[0]))


def follow(wide: View, half: View) -> Fix | None:
    """Ex) weights -> weights.to(values.dtype)"""
    if not isinstance(half.cst, cst.Name):
        return None
    edit = wide.source.edits.append_call(wide.cst, f"to({half.text}.dtype)")
    return Fix(f"Cast it to the dtype of `{half.text}`", (edit,), Safety.UNSAFE)


def operands_of(at: View) -> Sequence[View]:
    """The operands that have to be of one dtype.

    Ex) a, b of a @ b; image, grid of F.grid_sample(image, grid); q, k, v of an attention
    """
    if at.callee in ATTENTIONS or at.callee in SAMPLING:
        names = ATTENTIONS.get(at.callee, ("input", "grid"))
        arguments = (at.arg(name, position) for position, name in enumerate(names))
        return [each for each in arguments if each is not None]
    op = product(at)
    if op is None or op.module is not None or (op.name == EINSUM and not sums_products(at)):
        return ()
    return op.operands


def sums_products(call: View) -> bool:
    """Whether an `einsum` sums over an index that two operands have; else it multiplies elements,
    in the wider dtype.

    Source: `sumproduct_pair` in aten/src/ATen/native/Linear.cpp
    """
    equation = call.arg("equation", 0)
    text = equation.text if equation is not None else ""
    terms, arrow, result = text.strip("\"'").replace(" ", "").partition("->")
    counts = Counter(each for term in terms.split(",") for each in set(term) if each.isalpha())
    return bool(arrow) and any(n > 1 and each not in result for each, n in counts.items())


def may_be_cast(at: View) -> bool:
    """Whether a region, here or around a caller that nobody sees, may cast the operands, or one
    that is off is around, where AMP306 speaks."""
    if at.callee in ATTENTIONS:
        return False
    mode = at.source.mode
    if at.region is not None or (mode is not None and not mode.is_region):
        return at.region is not None
    is_plain = all((each.callee or "").startswith("torch.") for each in at.contexts_around)
    return not is_plain or at.mentions("autocast")
