"""Tensors that are built on the host and then moved, and tensors that are built from tensors."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from amplint.verify.recording.sightings import Site

# Not those of random numbers: in a small run they stand for the data of the host.
FACTORIES = frozenset("arange empty eye full linspace logspace ones zeros".split())
MOVES = frozenset({"cuda", "to"})
COPIES = frozenset({"new_tensor", "tensor"})


class Built:
    """The tensors of the host that factories have built, and where.

    They are not kept alive.
    """

    def __init__(self) -> None:
        self.where: MutableMapping[torch.Tensor, Site] = WeakTensorKeyDictionary()

    def clear(self) -> None:
        self.where.clear()

    def built(self, name: str, result: Any, site: Site | None) -> None:
        """Write down what a function of torch has built; others build nothing."""
        if name in FACTORIES and site is not None and on_host(result):
            self.where[result] = site

    def moved(self, name: str, args: Any, result: Any) -> Site | None:
        """Where the tensor was built that a function has moved to the device; None of others."""
        if name not in MOVES or not self.where or on_host(result):
            return None
        return self.where.get(args[0]) if isinstance(args[0], torch.Tensor) else None


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
