"""A number beyond the range of float16 is written into a float16 tensor.

float16 ends at 65504. Filling with a larger number raises (`value cannot be converted to type
c10::Half without overflow`), and so does `torch.where` on a GPU (on the CPU the number becomes
infinite). If it is written by an index, added or multiplied, it silently becomes infinite. A row of
scores in which everything is masked with -inf is nan after a softmax. Under autocast scores are
half, even if they are computed from float32 tensors.

    scores = q @ k.transpose(-2, -1)                    # float16 in an autocast region
    scores = scores.masked_fill(mask == 0, -1e9)        # RuntimeError
    scores = torch.where(mask, scores, -1e9)            # RuntimeError on a GPU
    scores[mask == 0] = -1e9                            # -inf

    scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)

The range of bfloat16 is slightly smaller than that of float32: `torch.finfo(torch.float32).min` is
beyond it.

Fix safety: unsafe: uses `torch.finfo(...).min` (or `.max`), which is another number if the tensor
is float32 after all. It must not be added to a negative score, or twice. Offered for fills and
choices, if the tensor has a name.

Known limits: a half dtype that is not known to be float16, for example because an option chooses
the dtype of the region, is assumed to be bfloat16. Limits (`clamp`) are not reported, since CUDA
accepts any number for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amplint import (
    WITH_HALF,
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    Presumes,
    Rule,
    Safety,
    Tensor,
    View,
    calls,
    nodes,
)
from amplint import libcst as cst

from .._shared.constants import number_of
from .._shared.dtypes import finding_on_dtype, tensor_on_a_path

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


rule = Rule(
    "AMP801",
    __doc__,
    group=Group.CORRECTNESS,
    other_groups=(Group.PRECISION,),
    help="use the limit of the dtype: `torch.finfo(x.dtype).min` or `.max`",
    witness=Differs(rtol=0.1),
    changes=frozenset({Change.ROUNDING}),
    presumes=Presumes.ALWAYS,
)


@rule.on(
    calls(".where", "torch.where", *(f"{home}.{name}" for home in HOMES for name in FILLING))
    & WITH_HALF
)
def check_call(call: View) -> Iterator[Finding]:
    result, name = tensor_on_a_path(call), function_name(call)
    if result is None or result.half_on_a_path not in CONVERTS:
        return
    if name == "where":
        yield from check_where(call, result)
        return
    is_function = (call.callee or "").startswith("torch.")
    keyword, position = FILLING[name]
    argument = call.arg(keyword, position + (is_function and name not in WITHOUT_TENSOR))
    number = beyond(argument, result, CONVERTS)
    if argument is not None and number is not None:
        filled = call.arg("input", 0) if is_function else call.receiver
        fix = within(argument, filled, number) if name in MASKING else None
        yield loud(call, argument, "raises RuntimeError", result, fix)


def check_where(call: View, result: Tensor) -> Iterator[Finding]:
    """Ex) torch.where(mask, scores, -1e9)

    Both are made tensors on the device of the other (where of ATen/native/TensorCompare.cpp, which
    calls scalar_tensor): on CUDA that converts as `full` does, on the CPU it does not look.
    """
    arguments = [argument for _, _, argument in call.arguments]
    branches = arguments[1:] if len(arguments) == 3 else []
    for branch, other in zip(branches, reversed(branches), strict=True):
        number = beyond(branch, result, CONVERTS)
        if number is not None:
            how = "raises RuntimeError on a GPU"
            yield loud(call, branch, how, result, within(branch, other, number))


@rule.on(nodes("binop", "aug") & WITH_HALF)
def check_arithmetic(at: View) -> Iterator[Finding]:
    """Ex) scores + -1e9, scores -= 1e9, (1.0 - mask) * -1e9"""
    if at.operator in ("Add", "Sub", "Mult"):
        for side in at.operands:
            yield from silent(at, side, None, tensor_on_a_path(at))


@rule.on(nodes("put") & WITH_HALF)
def check_write(at: View) -> Iterator[Finding]:
    """Ex) scores[mask] = -1e9"""
    written, _, value = at.operands
    result = tensor_on_a_path(written)
    if result is None or result.half_on_a_path not in ROUNDS or value.tensor is not None:
        return
    assigned = at.assigned
    if assigned is not None:
        yield from silent(at, assigned, written, result)


def loud(call: View, value: View, how: str, result: Tensor, fix: Fix | None) -> Finding:
    """The finding on a number that is converted, which does not go unnoticed."""
    message = f"`{value.brief}` overflows {result.half_on_a_path}: {how}"
    return finding_on_dtype(call, result, message, fix)


def silent(at: View, value: View, filled: View | None, result: Tensor | None) -> Iterator[Finding]:
    """The finding on a number that is rounded to infinity."""
    number = beyond(value, result, ROUNDS)
    if number is None or result is None:
        return
    infinity = "inf" if number > 0 else "-inf"
    message = f"`{value.brief}` is {infinity} in {result.half_on_a_path}"
    fix = within(value, filled, number)
    yield finding_on_dtype(at, result, message, fix, group=Group.PRECISION)


def function_name(call: View) -> str:
    """The name of a function of torch, or of a method."""
    name = call.callee
    if name is None or name.startswith("Tensor."):
        return call.method
    return name.rpartition(".")[2]


def beyond(at: View | None, tensor: Tensor | None, limits: Mapping[str, float]) -> float | None:
    """The number that an expression is, if it is finite and the tensor's dtype does not have it."""
    limit = limits.get(tensor.half_on_a_path or "") if tensor is not None else None
    number = number_of(at) if at is not None and limit is not None else None
    if number is None or limit is None or abs(number) == float("inf"):
        return None
    exact = limits is CONVERTS
    return number if abs(number) > limit or (abs(number) == limit and not exact) else None


def within(value: View, tensor: View | None, number: float) -> Fix | None:
    """Ex) -1e9 -> torch.finfo(scores.dtype).min"""
    if tensor is None or not isinstance(tensor.cst, cst.Name):
        return None
    spelled = value.source.imports.spell("torch.finfo")
    end = "max" if number > 0 else "min"
    limit = f"{spelled.text}({tensor.cst.value}.dtype).{end}"
    edit = value.source.edits.replace(value.cst, limit)
    return Fix(f"Use torch.finfo(...).{end}", (*spelled.edits, edit), Safety.UNSAFE)
