"""A stand-in for `torch.cuda` on a machine without a GPU: availability, devices, events, streams.

Programs that say "cuda" then run as they are: on tensors without values (`sim`), or on the CPU
(`policy`). All of this changes torch for the whole process, so it is for child processes only.
"""

from __future__ import annotations

import contextlib
import os
import re
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from amplint_verify.backends import files
from amplint_verify.torch_names import present


class NotSimulableError(Exception):
    """The program needs something that only a GPU can do."""


class EventStandIn:
    """Stands for `torch.cuda.Event`: it has always happened, and no time has passed."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, *_: Any) -> None:
        pass

    def wait(self, *_: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, _: Any) -> float:
        return 0.0

    def synchronize(self) -> None:
        synchronize()


def synchronize(*_: Any) -> None:
    torch.cuda.synchronize()  # counted there


class StreamStandIn(EventStandIn):
    """Stands for `torch.cuda.Stream`."""

    def wait_stream(self, *_: Any) -> None:
        pass

    def wait_event(self, *_: Any) -> None:
        pass

    def record_event(self, *_: Any) -> EventStandIn:
        return EventStandIn()

    def is_capturing(self) -> bool:
        return False


class DeviceStandIn(contextlib.nullcontext[None]):
    """Stands for `torch.cuda.device`: a class, since torch asks what is one."""


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


NAME = "no GPU: a stand-in"
# What a program asks a region by; the old name has no argument for the device.
ASKING = ("is_autocast_enabled", "get_autocast_dtype")
OLD_NAME = "get_autocast_gpu_dtype"
CUDA: dict[str, Any] = {
    "is_available": _constant(True),
    "is_bf16_supported": _constant(True),
    "is_initialized": _constant(True),
    "init": _constant(None),
    "_lazy_init": _constant(None),
    "device_count": _constant(1),
    "current_device": _constant(0),
    "set_device": _constant(None),
    "get_device_name": _constant(NAME),
    "get_device_properties": _constant(
        types.SimpleNamespace(
            name=NAME, total_memory=1 << 34, major=9, minor=0, multi_processor_count=1
        )
    ),
    "get_device_capability": _constant((9, 0)),
    "manual_seed": _constant(None),
    "manual_seed_all": _constant(None),
    "seed": _constant(None),
    "seed_all": _constant(None),
    "memory_allocated": _constant(0),
    "max_memory_allocated": _constant(0),
    "memory_reserved": _constant(0),
    "max_memory_reserved": _constant(0),
    "reset_peak_memory_stats": _constant(None),
    "mem_get_info": _constant((1 << 34, 1 << 34)),
    "memory_summary": _constant(""),
    "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
    "get_rng_state_all": lambda: [torch.zeros(16, dtype=torch.uint8)],
    "set_rng_state": _constant(None),
    "set_rng_state_all": _constant(None),
    "is_current_stream_capturing": _constant(False),
    "Event": EventStandIn,
    "Stream": StreamStandIn,
    "current_stream": _constant(StreamStandIn()),
    "default_stream": _constant(StreamStandIn()),
    "stream": _constant(contextlib.nullcontext()),
    "device": DeviceStandIn,
}
# `torch.accelerator`, since 2.6. Optimizers ask its stream in a build for CUDA, where every answer
# needs a driver.
ACCELERATOR: dict[str, Any] = {
    "is_available": _constant(True),
    "device_count": _constant(1),
    "current_accelerator": lambda *_, **__: torch.device("cuda"),
    "current_device_index": _constant(0),
    "current_device_idx": _constant(0),
    "set_device_index": _constant(None),
    "set_device_idx": _constant(None),
    "current_stream": _constant(StreamStandIn()),
    "set_stream": _constant(None),
    "synchronize": synchronize,
}


def is_cuda(device: Any) -> bool:
    """Whether an argument names a CUDA device; a number alone is one of the accelerator."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    is_number = isinstance(device, int) and not isinstance(device, bool)
    return is_number or (isinstance(device, str) and device.partition(":")[0] == "cuda")


# A type of tensors on CUDA, or its name, as `x.type(...)` takes and returns them.
OLD_TYPE = re.compile(r"torch\.cuda\.(\w+Tensor)\b")
# torch/cuda/__init__.py, `_lazy_init`
BAD_FORK = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must "
    "use the 'spawn' start method"
)


class Redirect(TorchFunctionMode):
    """Has every operation that names the current CUDA device use another one, and pins nothing.

    A process that is forked from one that has used CUDA cannot: torch raises, and so does this.

    Args:
        target: returns the device that stands for a named one.
    """

    # Functions in which a positional argument may name a device.
    POSITIONAL = (torch.Tensor.to, torch.Tensor.type, torch._C._nn._parse_to)

    def __init__(self, target: Callable[[torch.device], torch.device]) -> None:
        super().__init__()
        self.target = target
        self.user = 0  # the process that has used CUDA first; forks inherit it

    def device(self, named: Any) -> torch.device:
        """The device that stands for one of CUDA. Raises RuntimeError in a process without it."""
        self.user = self.user or os.getpid()
        if self.user != os.getpid():
            raise RuntimeError(BAD_FORK)
        device = torch.device("cuda", named) if isinstance(named, int) else torch.device(named)
        return self.target(device)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.pin_memory:
            return args[0]  # pinned or not, a tensor of the host holds the same values
        if func is torch.Tensor.is_pinned:
            return False
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        if func is torch.Tensor.cuda:
            named = args[1] if len(args) > 1 else kwargs.pop("device", None)
            return args[0].to(self.device("cuda" if named is None else named), **kwargs)
        if func is torch.device and args and isinstance(args[0], int):
            return torch.device("cuda", *args)  # an index alone is one of the accelerator
        if func is torch.Tensor.type and (named := OLD_TYPE.search(str(args[1:]))):
            return args[0].to(self.device("cuda"), getattr(torch, named[1]).dtype)
        if is_cuda(kwargs.get("device")):
            kwargs["device"] = self.device(kwargs["device"])
        if func in self.POSITIONAL:
            args = tuple(self.device(a) if is_cuda(a) else a for a in args)
        return func(*args, **kwargs)


def first_gpu(device: torch.device) -> torch.device:
    """A fake tensor needs to know which GPU it is on."""
    return torch.device("cuda", device.index or 0)


def host(_: torch.device) -> torch.device:
    return torch.device("cpu")


def on_one_gpu(self: Any, *inputs: Any, **kwargs: Any) -> Any:
    """Stands for `DataParallel.forward` of one device: it moves what it is given there, and calls
    the module (torch/nn/parallel/data_parallel.py). Its own scatters by a kernel of CUDA builds."""
    args, kwargs = tree_map_only(torch.Tensor, torch.Tensor.cuda, (inputs, kwargs))
    return self.module(*args, **kwargs)


@contextmanager
def gpu() -> Iterator[None]:
    """Have torch say that there is a GPU, and enable autocast and GradScaler for "cuda"."""
    with ExitStack() as stack:
        modules = [(torch.cuda, CUDA)]
        if hasattr(torch, "accelerator"):
            modules.append((torch.accelerator, ACCELERATOR))
        for module, table in modules:
            replacements = {name: value for name, value in table.items() if hasattr(module, name)}
            stack.enter_context(mock.patch.multiple(module, **replacements))
        # A loader pins in a thread, where no mode sees it.
        pinning = torch.utils.data._utils.pin_memory
        stack.enter_context(mock.patch.object(pinning, "pin_memory", lambda data, *_: data))
        stack.enter_context(mock.patch.object(torch.nn.DataParallel, "forward", on_one_gpu))
        stack.enter_context(files.on_stand_in())
        common = torch.cuda.amp.common
        stack.enter_context(
            mock.patch.object(common, "amp_definitely_not_available", _constant(False))
        )
        yield


@contextmanager
def asked_regions() -> Iterator[None]:
    """Have regions keep whether they were asked to be on: without a GPU, torch turns them off."""
    autocast = torch.amp.autocast_mode.autocast
    begin = autocast.__init__

    @wraps(begin)
    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self.is_wanted = kwargs.get("enabled", (*args[2:3], True)[0])

    with mock.patch.object(autocast, "__init__", noted):
        yield


@contextmanager
def amp_on(target: str, default: torch.dtype) -> Iterator[None]:
    """Have `torch.autocast("cuda")` and `GradScaler("cuda")` work on another type of device.

    Args:
        target: e.g. "cpu".
        default: the dtype of a region that names none.
    """
    autocast, scaler = torch.amp.autocast_mode.autocast, torch.amp.GradScaler
    enter_autocast, enter_scaler = autocast.__init__, scaler.__init__
    enter, leave = autocast.__enter__, autocast.__exit__

    def instead(device: str) -> str:
        return target if device == "cuda" else device

    def begin(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        enter_autocast(self, instead(device_type), *args, **kwargs)

    def begin_scaler(self: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:
        enter_scaler(self, instead(device), *args, **kwargs)

    def is_earlier(region: Any) -> bool:
        """Whether a region was made before, as by a decorator of a module that was imported."""
        return region.device != instead(region.device) and hasattr(region, "is_wanted")

    def start(self: Any) -> Any:
        if not is_earlier(self):
            return enter(self)
        region = autocast(target, self.fast_dtype, self.is_wanted, self._cache_enabled)
        vars(self).setdefault("instead", []).append(region)
        enter(region)
        return self

    def end(self: Any, *error: Any) -> Any:
        return leave(self.instead.pop() if is_earlier(self) else self, *error)

    def asking(function: Callable[..., Any]) -> Callable[..., Any]:
        # Without an argument, torch answers for "cuda".
        return lambda device_type="cuda": function(instead(device_type))

    cast: Callable[..., Any] = torch.amp.autocast_mode._cast

    def casting(value: Any, device_type: str, dtype: torch.dtype) -> Any:
        return cast(value, instead(device_type), dtype)

    queries: dict[str, Any] = {
        name: asking(function) for name, function in present(torch, ASKING).items()
    }
    if hasattr(torch, OLD_NAME):
        queries[OLD_NAME] = queries["get_autocast_dtype"]
    torch.set_autocast_dtype(target, default)
    with (
        mock.patch.multiple(autocast, __init__=begin, __enter__=start, __exit__=end),
        mock.patch.object(scaler, "__init__", begin_scaler),
        mock.patch.object(torch.amp.autocast_mode, "_cast", casting),  # custom_fwd(cast_inputs=)
        mock.patch.multiple(torch, **queries),
    ):
        yield
