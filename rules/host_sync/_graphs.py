"""Graphs of autograd: tensors without theirs."""

from __future__ import annotations

from amplint import Host, View
from amplint.knowledge.dtypes import INTEGRAL

from .._shared.tensors import is_under_no_grad


def without_graph(at: View) -> str:
    """A tensor as it is written, without its graph: as it is where it has none.

    Ex) loss.detach() of `loss`; `(pred == y).sum()`, and `loss.detach() * 2`
    """
    written = at.source.edits.as_receiver(at.cst)
    return written if _carries_no_graph(at) else f"{written}.detach()"


def _carries_no_graph(at: View) -> bool:
    """Whether a tensor is known to carry no graph, or goes through what cuts it off."""
    tensor = at.tensor
    if tensor is not None and (tensor.grad is False or tensor.dtype in INTEGRAL):
        return True
    return is_under_no_grad(at) or _is_cut_off(at)


def _is_cut_off(at: View) -> bool:
    """Ex) loss.detach(), x.detach().sum(dim=1): by methods of that tensor alone"""
    while at.op == "call" and at.receiver is not None:
        if at.method == "detach":
            return True
        atoms = (atom for _, _, argument in at.arguments for atom in argument.value)
        if not all(isinstance(atom, Host) for atom in atoms):
            return False
        at = at.receiver
    return False
