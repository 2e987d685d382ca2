"""Tensors that are built on the host and then moved, and tensors that are built from tensors."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from amplint_verify.recording.sightings import UserExpression

# Not those of random numbers, which in a small run stand for the data of the host; nor `empty`,
# into whose memory somebody writes them.
FACTORIES = frozenset("arange eye full linspace logspace ones zeros".split())
MOVES = frozenset({"cuda", "to"})
COPIES = frozenset({"new_tensor", "tensor"})


class BuiltTensors:
    """The tensors of the host that factories have built, where, and as which version: one that is
    written to afterwards holds data. Ex) out = torch.zeros(n, m); out[i, :k] = row

    They are not kept alive.
    """

    def __init__(self) -> None:
        self.where: MutableMapping[torch.Tensor, tuple[UserExpression, int]] = (
            WeakTensorKeyDictionary()
        )

    def clear(self) -> None:
        self.where.clear()

    def built(self, name: str, result: Any, site: UserExpression | None) -> None:
        """Write down what a function of torch has built; others build nothing."""
        if name not in FACTORIES or site is None or not on_host(result):
            return
        if not result.is_inference():  # those have no version
            self.where[result] = site, result._version

    def moved(self, name: str, args: Any, result: Any) -> UserExpression | None:
        """Where the tensor was built that a function has moved to the device; None of others."""
        if name not in MOVES or not self.where or on_host(result):
            return None
        site, version = self.where.get(args[0], (None, 0))
        return site if site is not None and args[0]._version == version else None


def on_host(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def copies_tensors(name: str, args: Any, kwargs: Any) -> bool:
    """Whether a constructor is given a tensor for its data, or a list with tensors of the device,
    each of which is read by itself. Ex) torch.tensor(loss)"""
    if name not in COPIES:
        return False
    data = args[-1] if args else kwargs.get("data")
    if isinstance(data, torch.Tensor):
        return True
    return any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for leaf in tree_leaves(data))
