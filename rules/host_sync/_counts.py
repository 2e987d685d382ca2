"""Calls whose result has a shape that depends on the values of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import Tensor, TensorTree, constant, only
from amplint.knowledge.host_reads import DATA_DEPENDENT

from .._shared.reads import device_tensor

if TYPE_CHECKING:
    from amplint import View

MASKS = frozenset({"bool", "uint8"})


def counted(call: View) -> Tensor | TensorTree | None:
    """The tensor on the device whose values decide the shape of what the call returns."""
    decides = deciding(call)
    if decides is None:
        return None
    repeats = (call.callee or "").endswith("repeat_interleave") and len(operands_of(call)) > 1
    return device_tensor(decides.value, certain=repeats or call.arg("repeats") is not None)


def deciding(call: View) -> View | None:
    """The operand whose values decide the shape, if that is a tensor."""
    name = call.callee or ""
    operands = operands_of(call)
    if name not in DATA_DEPENDENT or call.has_star or not operands:
        return None
    if name == "torch.combinations" or _is_spared(name, call, len(operands)):
        return None  # combinations wait no more since torch 2.14
    # The counts decide of `repeat_interleave`, where they are a tensor, and else the tensor itself.
    several = name.endswith("repeat_interleave") and len(operands) > 1
    return call.arg("repeats") or operands[1 if several else 0]


def operands_of(call: View) -> list[View]:
    """The arguments, and before them what a method of tensors is called on."""
    operands = [argument for _, _, argument in call.arguments]
    if (call.callee or "").startswith("Tensor.") and call.receiver is not None:
        operands.insert(0, call.receiver)
    return operands


def _is_spared(name: str, call: View, operands: int) -> bool:
    """Whether an argument says what would be read: `num_classes`, `output_size`."""
    spares = DATA_DEPENDENT[name]
    if name.endswith(".where"):
        return operands > 1
    if name.endswith(".one_hot"):
        argument = call.arg(spares, 1)
        return argument is not None and constant(argument.value) != -1
    return bool(spares) and call.arg(spares) is not None


def mask_of(at: View) -> View | None:
    """The mask in the index of a tensor: losses[y != ignored], x[mask, 0], total[mask] += part"""
    container, index = at.operands[:2]
    if not isinstance(only(container.value), Tensor | TensorTree):
        return None
    parts = index.operands if index.op == "tuple" else (index,)
    return next((p for p in parts if p.tensor is not None and p.tensor.dtype in MASKS), None)
