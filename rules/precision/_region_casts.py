"""Casts by name in autocast regions, and the products that cast once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.knowledge.casts import policy

from .._shared.dtypes import Operation, product

if TYPE_CHECKING:
    from amplint import View


def cast_product(at: View) -> Operation | None:
    """A product whose operands the region around it casts to half."""
    region = at.enabled_region
    op = product(at) if region is not None else None
    if op is None or region is None or policy(op.name, region.device) != "half":
        return None
    # With float64 it raises, which is another matter.
    return None if any(tensor.dtype == "float64" for tensor in op.tensors) else op


def is_cast_by(taker: View, operand: View) -> bool:
    """Whether an operation is a product that the region casts, and takes a value."""
    op = cast_product(taker)
    return op is not None and any(each.is_same(operand) for each in op.operands)


def is_hard_coded(cast: View) -> bool:
    """Whether the dtype is written out: x.half(), x.to(torch.float16), not x.to(y.dtype)"""
    arguments = [argument for _, _, argument in cast.arguments]
    return not arguments or any(
        each.op == "attr" and each.operands[0].name == "torch" for each in arguments
    )
