"""`torch.save` and `torch.load` on a simulated GPU: what was there comes back there.

A tensor without values is written as its shape, dtype and device, and read as one without values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor

# The attribute of a storage that stands for one on the GPU.
MARK = "_amplint_is_on_cuda"
_map_locations: list[Any] = [None]  # of the loads that run


def marked(storage: Any, location: Any = "cuda", *_: Any, **__: Any) -> Any:
    """The storage, which stands for one on CUDA. None for another location: as torch asks it."""
    if isinstance(location, str) and not location.startswith("cuda"):
        return None
    setattr(storage, MARK, True)
    return storage


def rebuilding(rebuild: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Move what is read to the device that stands for CUDA, if it is to be there."""

    def rebuilt(storage: Any, *args: Any) -> torch.Tensor:
        tensor = rebuild(storage, *args)
        return tensor.to("cuda") if hasattr(storage._untyped_storage, MARK) else tensor

    return rebuilt


def without_values(
    shape: Any, stride: Any, dtype: Any, device: str, needs_grad: bool, is_parameter: bool
) -> Any:
    """A tensor that was written without values, where `map_location` wants it."""
    place = torch.serialization._get_restore_location(_map_locations[-1])
    is_on_cuda = hasattr(place(torch.UntypedStorage(0), device), MARK)
    tensor = torch.empty_strided(
        shape, stride, dtype=dtype, device="cuda" if is_on_cuda else "cpu"
    ).zero_()
    return torch.nn.Parameter(tensor, needs_grad) if is_parameter else tensor


def reduced(tensor: FakeTensor, _: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    sizes = tuple(tensor.shape), tensor.stride(), tensor.dtype, str(tensor.device)
    return without_values, (*sizes, tensor.requires_grad, is_parameter)


def loading(load: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.load`, which would give every tensor without values in a mode of fake tensors."""

    def loaded(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        _map_locations.append(map_location)
        try:
            with mock.patch.object(torch._guards, "detect_fake_mode", lambda *_: None):
                return load(file, map_location, *args, **kwargs)
        finally:
            _map_locations.pop()

    return loaded


@contextmanager
def on_stand_in() -> Iterator[None]:
    """Have files know the device that stands for CUDA."""
    registry = [(0, lambda _: None, marked), *torch.serialization._package_registry]
    replaced: Mapping[Any, Mapping[str, Any]] = {
        torch.serialization: {"_package_registry": registry},
        torch.UntypedStorage: {"cuda": marked_on},
        torch._utils: {"_rebuild_tensor": rebuilding(torch._utils._rebuild_tensor)},
        torch: {"load": loading(torch.load)},
        FakeTensor: {"__reduce_ex__": reduced},
    }
    torch.serialization.add_safe_globals([without_values])
    with ExitStack() as stack:
        for owner, values in replaced.items():
            stack.enter_context(mock.patch.multiple(owner, **values))
        yield


def marked_on(storage: Any, *_: Any, **__: Any) -> Any:
    """Stands for `storage.cuda(index)`, which a `map_location` may call."""
    return marked(storage)
