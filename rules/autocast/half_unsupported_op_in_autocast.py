"""An operation that half does not have is given half in a region: it raises.

There are no kernels in float16 or bfloat16 for most of linear algebra (`inv`, `solve`, `cholesky`,
`svd`, `eigh`, `qr`, `det`), for `quantile`, the CTC loss and some special functions. CUDA autocast
casts for none of them, and a matrix product in a region is half. CPU autocast does cast for most,
so that tests on the CPU pass.

    with torch.autocast("cuda"):
        h = self.proj(x)                              # half
        precision = torch.linalg.inv(h.t() @ h)       # RuntimeError: low precision dtypes

    with torch.autocast("cuda"):
        h = self.proj(x)
        precision = torch.linalg.inv((h.t() @ h).float())

Fourier transforms and complex numbers there are of float16, but not of bfloat16.

Fix safety: the half operands are cast to float32. Safe where they are cast to half by name in this
function, since the line could only raise; unsafe where a region makes them half, which float64
would not be.

Known limits: operands that are half on one path only are left alone, as are calls whose error is
caught, and functions that conjugate: what they compute is complex, which autocast leaves as it is.
A region whose device type is not known is taken for one of CUDA, if the operands are on an
accelerator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    HALF,
    Change,
    Finding,
    Fix,
    Group,
    Raises,
    Rule,
    Spot,
    Tensor,
    calls,
    constant,
)
from amplint import libcst as cst
from amplint.knowledge.casts import NO_BFLOAT16, NO_HALF, policy

from .._shared.dtypes import (
    SAME_DTYPE,
    Operation,
    before,
    cast_dtype,
    device_type,
    dtype_places,
    enabled_region,
    made_by_autocast,
    operation,
    outputs_are_cast,
    tensors_of,
)
from .._shared.guards import is_caught, is_wished

if TYPE_CHECKING:
    from amplint import Source

MATRIX_NORM = "torch.linalg.matrix_norm"
BY_SINGULAR_VALUES = (2, -2, "nuc")  # orders of the norm that need them; the others take half
BFLOAT16 = frozenset({"bfloat16"})
CAST = "the operand is cast to half in this function: the line can only raise"
ASKS = re.compile(r"\bdtype\b|is_autocast")
CONJUGATES = re.compile(r"\bconj(_physical)?\(")


def is_given_half(at: Spot) -> bool:
    return any(tensor.dtype in HALF for tensor in tensors_of(at))


rule = Rule(
    "AMP313",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="cast the operand by `.float()` before this operation",
    witness=Raises("low precision dtypes not supported"),
    safe_if=(CAST,),
    changes=frozenset({Change.DTYPE}),
    presumes=False,
    candidates=calls(*NO_HALF, *NO_BFLOAT16, MATRIX_NORM) & is_given_half,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    found = operation(call, src)
    lacking = dtypes_lacking(found, call, src) if found is not None else None
    if found is None or lacking is None:
        return
    wrong = [(o, t) for o in found.operands if (t := src.tensor(o)) and t.dtype in lacking]
    if not wrong or is_cast(found.name, call, [t for _, t in wrong], src):
        return
    if enabled_region(call, src) is None and not leaves_region([t for _, t in wrong], src):
        return
    if is_caught(call, src) or is_wished(call, ASKS, src):
        return
    around = src.function(call)
    if around is not None and CONJUGATES.search(src.text(around)):
        return
    operand, tensor = wrong[0]
    function = found.name.rpartition(".")[2]
    message = (
        f"`{src.brief(operand)}` is {tensor.dtype}, which `{function}` does not take: RuntimeError"
    )
    fix = Fix.safe_if(
        "Cast it to float32",
        tuple(src.edits.append_call(each, "float()") for each, _ in wrong),
        {CAST: all(is_cast_here(each, src) for each, _ in wrong)},
    )
    yield src.finding(rule, operand, message, fix, dtype_places(src, *(t for _, t in wrong)))


def leaves_region(tensors: list[Tensor], src: Source) -> bool:
    """Whether what a region has made half is so outside of it."""
    return any(made_by_autocast(tensor) for tensor in tensors) and not outputs_are_cast(src)


def dtypes_lacking(found: Operation, call: cst.Call, src: Source) -> frozenset[str] | None:
    """The dtypes that an operation has no kernel for; None if it takes half."""
    if found.name in NO_HALF:
        return HALF
    if found.name in NO_BFLOAT16:
        return BFLOAT16
    if found.name == MATRIX_NORM:
        order = src.argument(call, "ord", 1)
        known = constant(src.value(order.value)) if order is not None else None
        return HALF if known in BY_SINGULAR_VALUES else None
    return None


def is_cast(name: str, call: cst.Call, tensors: list[Tensor], src: Source) -> bool:
    """Whether the region around the call casts the operands, on a device that it may be for."""
    region = enabled_region(call, src)
    if region is None or name == MATRIX_NORM:  # that one looks at the dtype before it casts
        return False
    device = device_type(region, tensors)
    devices = ("cuda", "cpu") if device is None else (device,)
    return any(policy(name, device) not in (None, "unknown") for device in devices)


def is_cast_here(operand: cst.BaseExpression, src: Source) -> bool:
    """Ex) x.half(), or h after h = x.to(torch.float16)"""
    made = src.origin(operand) if isinstance(operand, cst.Name) else operand
    cast = before(made, SAME_DTYPE, src) if made is not None else None
    return isinstance(cast, cst.Call) and cast_dtype(cast, src) in HALF
