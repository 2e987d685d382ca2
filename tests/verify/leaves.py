"""Observations made by hand, for the tests of what reads them."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from amplint_verify.recording.observation import Leaf, OperationRow, ReturnedTensor


def leaf(value: Any, where: str = "result", *, kept: bool = True, device: str = "cpu") -> Leaf:
    """A tensor or a number as a run would have written it down.

    Args:
        value: the tensor or number.
        where: its name.
        kept: whether the values are in it, or were too many.
        device: where the tensor is said to be.
    """
    import torch  # noqa: PLC0415

    if not isinstance(value, torch.Tensor):
        return Leaf(where, type(value).__name__, repr(value))
    plain = value.detach().contiguous().flatten()
    data = bytes(plain.view(torch.uint8).tolist()) if plain.numel() else b""
    return Leaf(
        where,
        "torch.Tensor",
        tensor=ReturnedTensor(
            dtype=str(value.dtype).removeprefix("torch."),
            device=device,
            shape=tuple(value.shape),
            stride=tuple(value.stride()),
            type="torch.Tensor",
            requires_grad=value.requires_grad,
            sha256=hashlib.sha256(data).hexdigest(),
            data=base64.b64encode(data).decode() if kept else None,
        ),
    )


def row(
    line: int, op: str, inputs: str, outputs: str, path: str = "train.py", **given: Any
) -> OperationRow:
    """An operation; dtypes and devices as in "float16@cuda:0 float32@cuda:0"."""
    return OperationRow(path, line, op, tuple(inputs.split()), tuple(outputs.split()), **given)
