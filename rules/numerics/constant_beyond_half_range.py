"""A number that is beyond the range of float16 is written into a tensor that is float16.

float16 ends at 65504. Filling with a larger number raises (`value cannot be converted to type
c10::Half without overflow`), and so does choosing it on a GPU, by `torch.where` (on the CPU it is
infinite); where it is written by an index, added or multiplied, it silently becomes infinite. A row
of scores that is masked with -inf throughout is nan after a softmax. Under autocast scores are
half, although everything that they are computed from is float32.

    scores = q @ k.transpose(-2, -1)                    # float16 in an autocast region
    scores = scores.masked_fill(mask == 0, -1e9)        # RuntimeError
    scores = torch.where(mask, scores, -1e9)            # RuntimeError on a GPU
    scores[mask == 0] = -1e9                            # -inf

    scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)

bfloat16 has nearly the range of float32, and nearly is not quite: `torch.finfo(torch.float32).min`
is beyond it.

Fix safety: unsafe: takes `torch.finfo(...).min` (or `.max`), which is another number
where the tensor is float32 after all. It must not be added to a negative score, or twice. Offered
for what is filled or chosen, where the tensor has a name.

Known limits: a dtype that is half and not known to be float16, such as that of a region whose dtype
is an option, is taken for bfloat16. Limits (`clamp`) are left alone, since CUDA takes any number
for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    WITH_HALF,
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Safety,
    Spot,
    Tensor,
    calls,
    constant,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import CHOICES, half_on_a_path

from .._shared.constants import number_of
from .._shared.dtypes import dtype_places

if TYPE_CHECKING:
    from amplint import Source

HOMES = ("", "torch", "torch.nn.functional")


# The last number that converts, and the first that rounds to infinity.
CONVERTS = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}
ROUNDS = {"float16": 65520.0, "bfloat16": 3.3961775292304601e38}
# What is filled: the parameter of the value, and its place behind the tensor.
FILLING = {
    "masked_fill": ("value", 1),
    "masked_fill_": ("value", 1),
    "fill_": ("value", 0),
    "fill_diagonal_": ("fill_value", 0),
    "full": ("fill_value", 1),
    "full_like": ("fill_value", 0),
    "new_full": ("fill_value", 1),
    "index_fill": ("value", 2),
    "index_fill_": ("value", 2),
    "scatter": ("value", 2),
    "scatter_": ("value", 2),
    "pad": ("value", 2),
}
WITHOUT_TENSOR = frozenset({"full"})
MASKING = frozenset({"masked_fill", "masked_fill_"})


def fills_half(at: Spot) -> bool:
    """Whether what is filled is half, and a number is among the operands."""
    filled = at.tensor(at.node.operands[0] if at.node.op == "put" else at.number)
    half = filled is not None and half_on_a_path(filled.dtype) in CONVERTS
    return half and any(is_large(at, each) for each in at.node.operands)


def is_large(at: Spot, number: int) -> bool:
    """Whether a number may be beyond the range: what is known of it does not say otherwise."""
    value = constant(at.of(number))
    if isinstance(value, int | float):
        return abs(value) >= min(CONVERTS.values())
    return any(isinstance(atom, Host) for atom in at.of(number))


rule = Rule(
    "AMP801",
    __doc__,
    group=Group.CORRECTNESS,
    other_groups=(Group.PRECISION,),
    since="0.1",
    help="take the limit from the dtype: `torch.finfo(x.dtype).min` or `.max`",
    witness=Differs(rtol=0.1),
    changes=frozenset({Change.ROUNDING}),
    presumes=True,
    candidates=(
        calls(".where", "torch.where", *(f"{home}.{name}" for home in HOMES for name in FILLING))
        | nodes("binop", "put")
    )
    & fills_half
    & WITH_HALF,
)


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    name = function_name(call.func, src)
    if name == "where":
        yield from check_where(call, src)
        return
    if name not in FILLING:
        return
    keyword, position = FILLING[name]
    function = (src.name(call.func) or "").startswith("torch.")
    given = src.argument(call, keyword, position + (function and name not in WITHOUT_TENSOR))
    if given is None:
        return
    result = src.tensor(call)
    number = beyond(given.value, result, CONVERTS, src)
    if number is not None:
        filled = call.args[0].value if function and call.args else receiver(call)
        fix = within(given.value, filled, number, src) if name in MASKING else None
        yield from loud(call, given.value, "raises RuntimeError", result, fix, src)


def check_where(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) torch.where(mask, scores, -1e9)

    Both are made tensors on the device of the other (where of ATen/native/TensorCompare.cpp, which
    calls scalar_tensor): on CUDA that converts as `full` does, on the CPU it does not look.
    """
    result = src.tensor(call)
    branches = [arg.value for arg in call.args[-2:]] if len(call.args) == 3 else []
    for branch, other in zip(branches, reversed(branches), strict=True):
        number = beyond(branch, result, CONVERTS, src)
        if number is not None:
            how = "raises RuntimeError on a GPU"
            yield from loud(call, branch, how, result, within(branch, other, number, src), src)


@rule.check
def check_arithmetic(node: cst.BinaryOperation, src: Source) -> Iterator[Finding]:
    """Ex) scores + -1e9, (1.0 - mask) * -1e9"""
    if isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply)):
        for side in (node.left, node.right):
            yield from silent(node, side, None, src.tensor(node), src)


@rule.check
def check_write(node: cst.Assign, src: Source) -> Iterator[Finding]:
    """Ex) scores[mask] = -1e9"""
    for each in node.targets:
        if isinstance(each.target, cst.Subscript):
            written = each.target.value
            yield from silent(each.target, node.value, written, src.tensor(written), src)


def loud(
    call: cst.Call,
    value: cst.BaseExpression,
    how: str,
    result: Tensor | None,
    fix: Fix | None,
    src: Source,
) -> Iterator[Finding]:
    """The finding on a number that is converted, which does not go unnoticed."""
    if result is None:
        return
    dtype = half_on_a_path(result.dtype)
    message = f"`{src.brief(value)}` overflows {dtype}: {how}"
    places, anywhere = dtype_places(src, result), result.dtype in CHOICES
    yield src.finding(rule, call, message, fix, places, anywhere=anywhere)


def silent(
    node: cst.BaseExpression,
    value: cst.BaseExpression,
    tensor: cst.BaseExpression | None,
    result: Tensor | None,
    src: Source,
) -> Iterator[Finding]:
    number = beyond(value, result, ROUNDS, src)
    if number is None or result is None:
        return
    infinity = "inf" if number > 0 else "-inf"
    message = f"`{src.brief(value)}` is {infinity} in {half_on_a_path(result.dtype)}"
    fix = within(value, tensor, number, src) if tensor is not None else None
    places, anywhere = dtype_places(src, result), result.dtype in CHOICES
    yield src.finding(rule, node, message, fix, places, Group.PRECISION, anywhere)


def function_name(function: cst.BaseExpression, src: Source) -> str | None:
    """The name of a function of torch, or of a method."""
    name = src.name(function)
    if name is not None:
        return name.rpartition(".")[2] if name.startswith("torch.") else None
    return function.attr.value if isinstance(function, cst.Attribute) else None


def receiver(call: cst.Call) -> cst.BaseExpression | None:
    return call.func.value if isinstance(call.func, cst.Attribute) else None


def beyond(
    node: cst.BaseExpression, tensor: Tensor | None, limits: dict[str, float], src: Source
) -> float | None:
    """The number that an expression is, if it is finite and the tensor's dtype does not have it."""
    limit = limits.get(half_on_a_path(tensor.dtype) or "") if tensor is not None else None
    number = number_of(node, src) if limit is not None else None
    if number is None or limit is None or abs(number) == float("inf"):
        return None
    exact = limits is CONVERTS
    return number if abs(number) > limit or (abs(number) == limit and not exact) else None


def within(
    value: cst.BaseExpression, tensor: cst.BaseExpression | None, number: float, src: Source
) -> Fix | None:
    """Ex) -1e9 -> torch.finfo(scores.dtype).min"""
    if not isinstance(tensor, cst.Name):
        return None
    spelled = src.imports.spell("torch.finfo")
    if spelled is None:
        return None
    end = "max" if number > 0 else "min"
    edit = src.edits.replace(value, f"{spelled.text}({tensor.value}.dtype).{end}")
    title = f"Use torch.finfo(...).{end}"
    return Fix(title, (*spelled.edits, edit), Safety.UNSAFE)
