"""Double precision data meets half in an autocast region.

Autocast casts float16, bfloat16 and float32; float64 it leaves alone. A linear layer, a convolution
or a matrix product then gets one side in half and the other in double, and raises. Arithmetic with
a float64 tensor that has dimensions is float64, without a word: what follows runs many times
slower, until the next product raises.

    x = torch.from_numpy(samples).to(device)            # numpy computes in float64
    with torch.autocast("cuda"):
        out = model(x)                                  # raises

    x = torch.from_numpy(samples).float().to(device)

Most float64 data come from numpy, which builds it by default: `np.zeros`, `np.linspace`,
`np.array([0.5])`, `np.random.rand(n)`.

Fix safety: casting the operand to float32 is unsafe: its numbers are rounded.

Known limits: of arrays, only the dtypes of what is built and cast in sight are known. Two float64
operands, a module whose parameters were cast to float64, and 0-dim tensors and numbers, which widen
nothing, are no finding. amplint is silent where the project sets a default dtype.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    FLOATS,
    HALF,
    IN_REGION,
    Change,
    Edit,
    Finding,
    Fix,
    Group,
    Raises,
    Region,
    Rule,
    Safety,
    Spot,
    Tensor,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.casts import policy

from .._shared.dtypes import Operation, dtype_places, enabled_region, product, tensors_of

if TYPE_CHECKING:
    from amplint import Source


def has_double(at: Spot) -> bool:
    return any(tensor.dtype == "float64" for tensor in tensors_of(at))


rule = Rule(
    "AMP208",
    __doc__,
    group=Group.CORRECTNESS,
    other_groups=(Group.PRECISION,),
    since="0.1",
    help="cast it to float32 where it is made, as in `torch.from_numpy(a).float()`",
    witness=Raises("must have the same dtype"),
    changes=frozenset({Change.DTYPE}),
    presumes=True,
    candidates=nodes("call", "binop") & has_double & IN_REGION,
)


@rule.check
def check_product(node: cst.Call | cst.BinaryOperation, src: Source) -> Iterator[Finding]:
    region = enabled_region(node, src)
    found = product(node, src) if region is not None else None
    if found is None or region is None or policy(found.name, region.device) != "half":
        return
    for operand in found.operands:
        if is_double(operand, region, src) and meets_others(found, src):
            message = (
                f"`{src.brief(operand)}` is float64, which autocast does not cast: this raises"
            )
            yield report(operand, message, region, src)
            return


@rule.check
def check_arithmetic(operation: cst.BinaryOperation, src: Source) -> Iterator[Finding]:
    region = enabled_region(operation, src)
    if region is None or not isinstance(
        operation.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
    ):
        return
    for operand, other in (
        (operation.left, operation.right),
        (operation.right, operation.left),
    ):
        half, double = src.tensor(other), src.tensor(operand)
        if half is None or half.dtype not in HALF or not is_double(operand, region, src):
            continue
        if double is None or double.rank != 1:
            continue  # a 0-dim tensor widens nothing
        message = f"`{src.brief(operand)}` is float64, and so is what follows: slow on a GPU"
        yield report(operand, message, region, src, Group.PRECISION)


def report(
    operand: cst.BaseExpression,
    message: str,
    region: Region,
    src: Source,
    group: Group | None = None,
) -> Finding:
    fix = Fix("Cast the operand to float32", (cast_to_float32(operand, src),), Safety.UNSAFE)
    related = (*dtype_places(src, src.tensor(operand)), *src.reasons(region.evidence))
    return src.finding(rule, operand, message, fix, related, group)


def cast_to_float32(operand: cst.BaseExpression, src: Source) -> Edit:
    """Ex) x -> x.float(); x.double() -> x.float()"""
    method = operand.func if isinstance(operand, cst.Call) and not operand.args else None
    if isinstance(method, cst.Attribute) and method.attr.value == "double":
        return src.edits.replace(method.attr, "float")
    return src.edits.append_call(operand, "float()")


def is_double(operand: cst.BaseExpression, region: Region, src: Source) -> bool:
    """Whether the operand is a float64 tensor, where the region is."""
    tensor = src.tensor(operand)
    if tensor is None or tensor.dtype != "float64":
        return False
    if src.mentions("set_default_dtype"):
        return False
    elsewhere = tensor.device.kind == "cpu" and region.device not in (None, "cpu")
    return not elsewhere


def meets_others(found: Operation, src: Source) -> bool:
    """Whether another operand, or the parameters of the layer, are known to be no float64."""
    if found.module is not None:
        return found.module.dtype in (None, "float32", *HALF)
    others = [src.tensor(operand) for operand in found.operands]
    return any(is_narrow(tensor) for tensor in others if tensor is not None)


def is_narrow(tensor: Tensor) -> bool:
    return tensor.dtype in FLOATS and tensor.dtype != "float64"
