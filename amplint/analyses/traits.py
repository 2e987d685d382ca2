"""Whether a value has what certain rules need (`Trait`), be it within a container."""

from __future__ import annotations

from amplint.core.values import (
    Atom,
    DType,
    Mapping,
    Method,
    Object,
    Sequence,
    Symbol,
    Tensor,
    Value,
)
from amplint.inference.transfer import HALF

# A dtype, a method that casts to it, or a type of tensors named after it.
HALF_NAMES = HALF | {"HalfTensor", "BFloat16Tensor"}


def is_half(value: Value) -> bool:
    """Whether something in the value is half, or makes half of what it is given."""
    return any(map(_is_half, value))


def _is_half(atom: Atom) -> bool:
    if isinstance(atom, Sequence):
        return is_half(atom.element) or any(map(is_half, atom.items or ()))
    if isinstance(atom, Mapping):
        return is_half(atom.element) or any(is_half(value) for _, value in atom.items)
    if isinstance(atom, Tensor | Object):
        return atom.dtype in HALF_NAMES
    return isinstance(atom, DType | Method | Symbol) and atom.name.rpartition(".")[2] in HALF_NAMES
