"""The graph of autograd: which leaves a backward pass reaches, and by which operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch


def nodes_of(roots: Iterable[torch.Tensor]) -> Iterator[Any]:
    """The nodes of the graphs that end in the given tensors, the nearest first."""
    nodes = {root.grad_fn for root in roots if root.grad_fn is not None}
    pending = list(nodes)
    for node in pending:  # grows on the way
        yield node
        following = {each for each, _ in node.next_functions if each is not None} - nodes
        nodes |= following
        pending += following


def leaves_of(roots: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves of the graphs that end in the given tensors."""
    roots = list(roots)
    leaves = {id(root): root for root in roots if root.grad_fn is None and root.requires_grad}
    for node in nodes_of(roots):
        if hasattr(node, "variable"):  # AccumulateGrad
            leaves[id(node.variable)] = node.variable
    return list(leaves.values())
