"""Double precision data meets half in an autocast region.

Autocast casts float16, bfloat16 and float32, but not float64. A linear layer, a convolution or a
matrix product then gets one operand in half and the other in double, and raises. Arithmetic with a
float64 tensor that has dimensions is silently float64: the operations after it run many times
slower, until the next product raises.

    x = torch.from_numpy(samples).to(device)            # numpy computes in float64
    with torch.autocast("cuda"):
        out = model(x)                                  # raises

    x = torch.from_numpy(samples).float().to(device)

Most float64 data come from NumPy, where it is the default: `np.zeros`, `np.linspace`,
`np.array([0.5])`, `np.random.rand(n)`.

Fix safety: casting the operand to float32 is unsafe, because its values are rounded.

Known limits: the dtype of an array is known only if the project visibly builds or casts it. Two
float64 operands, a module whose parameters were cast to float64, and 0-dim tensors and numbers,
which widen nothing, are not reported. The rule is silent if the project sets a default dtype.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    FLOATS,
    HALF,
    IN_REGION,
    Change,
    Edit,
    Finding,
    Fix,
    Group,
    Presumes,
    Raises,
    Region,
    Rule,
    Safety,
    Tensor,
    View,
    calls,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.casts import EQUAL_DTYPES, policy

from .._shared.dtypes import ARITHMETIC, Operation, product
from ._operands import dtype_evidence

rule = Rule(
    "AMP208",
    __doc__,
    group=Group.CORRECTNESS,
    other_groups=(Group.PRECISION,),
    help="cast it to float32 where it is made, as in `torch.from_numpy(a).float()`",
    witness=Raises("must have the same dtype"),
    changes=frozenset({Change.DTYPE}),
    presumes=Presumes.ALWAYS,
)


@rule.on((calls(*EQUAL_DTYPES) | nodes("binop")) & IN_REGION)
def check(at: View) -> Iterator[Finding]:
    region = at.enabled_region
    if region is None:
        return
    op = product(at)
    if op is not None:
        yield from in_product(op, region)
    elif at.op == "binop" and at.operator in ARITHMETIC:
        yield from in_arithmetic(at, region)


def in_product(op: Operation, region: Region) -> Iterator[Finding]:
    if policy(op.name, region.device) != "half" or not meets_others(op):
        return
    for operand in op.operands:
        if is_double(operand, region):
            message = f"`{operand.brief}` is float64, which autocast does not cast: this raises"
            yield report(operand, message, region)
            return


def in_arithmetic(at: View, region: Region) -> Iterator[Finding]:
    left, right = at.operands
    for operand, other in ((left, right), (right, left)):
        half, double = other.tensor, operand.tensor
        if half is None or half.dtype not in HALF or not is_double(operand, region):
            continue
        if double is None or double.rank != 1:
            continue  # a 0-dim tensor widens nothing
        message = f"`{operand.brief}` is float64, and so is the result: slow on a GPU"
        yield report(operand, message, region, Group.PRECISION)


def report(operand: View, message: str, region: Region, group: Group | None = None) -> Finding:
    fix = Fix("Cast the operand to float32", (cast_to_float32(operand),), Safety.UNSAFE)
    because = (*dtype_evidence(operand.tensor), region.evidence)
    return operand.finding(message, because, fix, group=group)


def cast_to_float32(operand: View) -> Edit:
    """Ex) x -> x.float(); x.double() -> x.float()"""
    node, edits = operand.cst, operand.source.edits
    method = node.func if isinstance(node, cst.Call) and not node.args else None
    if isinstance(method, cst.Attribute) and method.attr.value == "double":
        return edits.replace(method.attr, "float")
    return edits.append_call(node, "float()")


def is_double(operand: View, region: Region) -> bool:
    """Whether the operand is a float64 tensor, where the region is."""
    tensor = operand.tensor
    if tensor is None or tensor.dtype != "float64" or operand.mentions("set_default_dtype"):
        return False
    return tensor.device.kind != "cpu" or region.device in (None, "cpu")


def meets_others(op: Operation) -> bool:
    """Whether another operand, or the parameters of the layer, are known to be no float64."""
    if op.module is not None:
        return op.module.dtype in (None, "float32", *HALF)
    return any(is_narrow(operand.tensor) for operand in op.operands)


def is_narrow(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype in FLOATS and tensor.dtype != "float64"
