"""Results of a program as data: numbers to the bit, tensors by their bytes."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from amplint_verify.recording.observation import Leaf, ReturnedTensor, sample_step

MAX_BYTES = 1 << 20  # of the values of a tensor that are sent
MAX_DEPTH = 20
EXACT = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


@dataclass(frozen=True)
class Returned:
    """A return value of a run's target that has more than a result.

    Args:
        result: what the program returned.
        state: what else to compare: parameters, gradients, the state of a scaler.
    """

    result: Any
    state: Any


class NamedValues(dict[str, Any]):
    """Values under the names that a user has for them, such as "optimizer.state['exp_avg']"."""


def leaves(value: Any, where: str, depth: int = 0) -> Iterator[Leaf]:
    """The parts of a value, containers before what they hold. Nests deeper than 20 end there."""
    if isinstance(value, NamedValues):
        for name, item in value.items():
            yield from leaves(item, f"{where}: {name}" if where else name, depth + 1)
        return
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if isinstance(value, (torch.Tensor, ReturnedTensor)):
        described = value if isinstance(value, ReturnedTensor) else tensor(value)
        yield Leaf(where, described.type, tensor=described)
    elif isinstance(value, EXACT):
        yield Leaf(where, kind, repr(value))
    elif _is_array(value):
        yield Leaf(where, kind, tensor=tensor(torch.from_numpy(value.copy())))
    elif depth == MAX_DEPTH:
        yield Leaf(where, kind)
    elif isinstance(value, Mapping):
        yield Leaf(where, kind, str(len(value)))
        for key, item in value.items():
            yield from leaves(item, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, (list, tuple)):
        yield Leaf(where, kind, str(len(value)))
        for at, item in enumerate(value):
            yield from leaves(item, f"{where}[{at}]", depth + 1)
    elif isinstance(value, (set, frozenset)):
        yield Leaf(where, kind, repr(sorted(map(repr, value))))
    else:
        yield Leaf(where, kind)


def _is_array(value: Any) -> bool:
    """Whether it is a NumPy array of numbers."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc"


def tensor(value: torch.Tensor, most: int = MAX_BYTES) -> ReturnedTensor:
    """A tensor as data. A fake one has no values; of a sparse one, they are those of the dense.

    Args:
        value: the tensor.
        most: how many bytes of values may be sent; of more, a sample is.
    """
    fake = _is_fake(value)
    strided = value.layout == torch.strided
    data = None if fake or value.device.type == "meta" else content(value)
    keep = data is not None and len(data) <= most
    return ReturnedTensor(
        dtype=str(value.dtype).removeprefix("torch."),
        device=str(value.device),
        shape=tuple(value.shape),
        stride=tuple(value.stride()) if strided else (),
        type=_type(value),
        requires_grad=value.requires_grad,
        sha256=None if data is None else hashlib.sha256(data).hexdigest(),
        data=base64.b64encode(data).decode() if data is not None and keep else None,
        sample=None if data is None or keep else sample(data, value.element_size()),
    )


def sample(data: bytes, size: int) -> str:
    """Some of the elements of that size, in base64."""
    step = size * sample_step(len(data) // size)
    return base64.b64encode(
        b"".join(data[at : at + size] for at in range(0, len(data), step))
    ).decode()


def _type(value: torch.Tensor) -> str:
    if isinstance(value, torch.nn.Parameter):  # a fake one too
        return "torch.nn.parameter.Parameter"
    if type(value) is torch.Tensor or _is_fake(value):
        return "torch.Tensor"
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _is_fake(value: torch.Tensor) -> bool:
    """Asked without importing FakeTensor, which takes a second."""
    fakes = sys.modules.get("torch._subclasses.fake_tensor")
    return fakes is not None and isinstance(value, fakes.FakeTensor)


def content(value: torch.Tensor) -> bytes:
    """The bytes of the contiguous values on the host."""
    with torch.no_grad():
        dense = value.detach()
        if dense.layout != torch.strided:
            dense = dense.to_dense()
        flat = dense.resolve_conj().resolve_neg().cpu().contiguous().flatten()
        # Not by NumPy, which may be absent and has no bfloat16.
        return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())


def restored(facts: ReturnedTensor) -> torch.Tensor | None:
    """The values of a tensor as a contiguous one on the CPU; None where they were not sent."""
    if facts.data is None:
        return None
    dtype = getattr(torch, facts.dtype)
    data = bytearray(base64.b64decode(facts.data))
    if not data:
        return torch.empty(facts.shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(facts.shape)


def generators() -> str:
    """A hash of the states of the random generators: Python's, NumPy's, torch's."""
    digest = hashlib.sha256(repr(random.getstate()).encode())
    digest.update(content(torch.get_rng_state()))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        digest.update(repr(numpy.random.get_state()).encode())
    if torch.cuda.is_initialized():
        for state in torch.cuda.get_rng_state_all():
            digest.update(content(state))
    return digest.hexdigest()
