"""Nests of containers that hold tensors, and tensors beside them."""

from __future__ import annotations

from amplint.values.atoms import Tensor, TensorTree, Value
from amplint.values.lattice import join_devices


def as_nests(value: Value) -> Value:
    """A value as nests alone: what holds of a tensor on one path, and of a nest on another."""
    tensors = [atom for atom in value if isinstance(atom, Tensor | TensorTree)]
    return (value - {*tensors}) | {TensorTree(join_devices([each.device for each in tensors]))}
