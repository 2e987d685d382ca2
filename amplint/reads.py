"""What the rules about host synchronisation share: a tensor on the device, read in a hot place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.finding import Related
from amplint.heat import TRAINING
from amplint.values import ACCELERATOR, Blob, Heat, Host, Mapping, Sequence, Tensor, Value, only

if TYPE_CHECKING:
    import libcst as cst

    from amplint.source import Source


def device_tensor(
    value: Value, certain: bool = False, receiver: bool = False
) -> Tensor | Blob | None:
    """The tensor on an accelerator that the value is; None where it may be anything else.

    Args:
        value: what the expression is known to be.
        certain: only what is surely a tensor, not a nest of containers that may hold one.
        receiver: a method of tensors is called on it, which lists and numbers do not have.
    """
    if receiver:
        value = frozenset(
            atom
            for atom in value
            if not isinstance(atom, Sequence | Mapping)
            and not (isinstance(atom, Host) and atom.kind != "numpy")
        )
    atom = only(value)
    kinds = Tensor if certain else Tensor | Blob
    if isinstance(atom, kinds) and atom.device.kind == ACCELERATOR:
        return atom
    return None


def hot_evidence(
    node: cst.CSTNode, tensor: Tensor | Blob | None, src: Source
) -> tuple[Related, ...] | None:
    """Why the tensor is on the device and the place hot in training; None unless both hold."""
    if tensor is None:
        return None
    heat = src.heat(node)
    if heat is None or heat.temperature != TRAINING:
        return None
    return (*heat_places(heat, src), *device_places(tensor, src))


def heat_places(heat: Heat, src: Source) -> tuple[Related, ...]:
    return tuple(src.related(why) for why in heat.chain)


def device_places(tensor: Tensor | Blob, src: Source) -> tuple[Related, ...]:
    return (src.related(tensor.device.why),) if tensor.device.why is not None else ()
