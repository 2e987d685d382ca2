"""`sim`: CUDA tensors without values, and PyTorch's own kernels of CUDA autocast over them.

What is on the CPU keeps its values: only tensors on the device are fake (`FakeTensorMode`). Where
the host reads one of those, or its size depends on values, the answer is a guess, and counted.

What was tempting and does not work: a `ShapeEnv` with symbolic sizes in the place of guesses
(`if x.item() > 0`, `range(n)` and formatting fail on its symbols), and making CPU tensors fake too
(the sampler of a `DataLoader` then reads guesses where it would read its permutation).
"""

from __future__ import annotations

import ctypes
import logging
import os
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from amplint_verify.backends import standin
from amplint_verify.backends.standin import NotSimulableError, is_cuda
from amplint_verify.recording.graph import leaves_of
from amplint_verify.recording.observation import Wait
from amplint_verify.recording.raised import OF_ANOTHER_PROCESS
from amplint_verify.recording.record import MASKS, Recorder, on_cuda, waiting_functions
from amplint_verify.torch_names import aten

# c10::DeviceType, torch/headeronly/core/DeviceType.h (c10/core/DeviceType.h before 2.9): the same
# numbers from 1.8 to 2.13.
SLOT_CUDA, SLOT_META = 1, 14
REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"

# What FakeTensor starts a GPU's context with, by version.
CONTEXTS = ("init_cuda_context", "init_gpu_context")

# torch/csrc/utils/tensor_new.cpp
COPY_WARNING = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor)."
)
# Texts of errors that say that a kernel is not there, not that the program is wrong.
ABSENT = (
    "not linked with support for cuda devices",
    "not compiled with CUDA",
    "Torch not compiled with CUDA",
    "Cannot access accelerator device",
    "No CUDA GPUs are available",
    "Found no NVIDIA driver",
    "CUDA driver version is insufficient",
    "no CUDA-capable device",
    "Cannot find an initialized CUDA",
    "was not compiled with cuDNN",
    "The tensor has a non-zero number of elements, but its data is not allocated yet",
    "Couldn't swap",
)


def fill_guard() -> str | None:
    """Give CUDA a device guard that does nothing. Returns why it cannot be done, or None.

    Without a guard (a build for the CPU), C++ code that switches to a tensor's device ends the
    process; CUDA's own (a build for CUDA) raises where there is no driver.
    """
    library = Path(torch.__file__).parent / "lib" / "libc10.so"
    try:
        registry = (ctypes.c_void_p * (SLOT_META + 1)).in_dll(ctypes.CDLL(str(library)), REGISTRY)
    except (OSError, ValueError) as error:
        return f"this build of torch has no device guard to fill: {error}"
    registry[SLOT_CUDA] = registry[SLOT_META]
    return None


# ------------------------------------------------------------------------------- guesses


class Simulator:
    """Performs operations: those on CPU tensors for real, the others on fake ones.

    Args:
        guess: what an unknown value is taken for: True and 1, or False and 0.
    """

    def __init__(self, guess: bool) -> None:
        self.guess = guess
        self.guesses = 0
        self.mode = FakeTensorMode()
        self.process = os.getpid()

    def perform(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Perform an operation, or guess its result."""
        if _is_on_host(args, kwargs):
            with fake_tensor.unset_fake_temporarily():
                return func(*args, **kwargs)
        if os.getpid() != self.process:  # what has no values cannot be sent back, and that hangs
            raise NotSimulableError(OF_ANOTHER_PROCESS)
        if func.overloadpacket is aten.copy_ and not isinstance(args[0], FakeTensor):
            self.guesses += 1  # a buffer of the host keeps what it holds
            return args[0]
        args, kwargs = tree_map(self.faked, (args, kwargs))
        if func.overloadpacket in WITHOUT_FAKE:
            return WITHOUT_FAKE[func.overloadpacket](*args, **kwargs)
        if func.overloadpacket in (aten.index, aten.index_put, aten.index_put_):
            args = self.with_guessed_indices(args)
        try:
            return func(*args, **kwargs)
        except (
            fake_tensor.DataDependentOutputException,
            fake_tensor.DynamicOutputShapeException,
        ):
            return self.guessed(func, args, kwargs)

    def faked(self, value: Any) -> Any:
        """A tensor of the host, without its values. Not by the converter of `FakeTensorMode`: it
        would remember tensors that change places when a module moves."""
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            return value
        with self.mode:
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=value.device
            )

    def number(self, dtype: torch.dtype) -> bool | int | float:
        """A guess of a value of that dtype."""
        self.guesses += 1
        if dtype == torch.bool:
            return self.guess
        return float(self.guess) if dtype.is_floating_point else int(self.guess)

    def nest(self, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
        """Nested lists of guesses, as `tolist` returns them."""
        if not shape:
            return self.number(dtype)
        return [self.nest(shape[1:], dtype) for _ in range(shape[0])]

    def some(self, count: int) -> int:
        """A guess of how many of `count` elements are meant: half of them."""
        self.guesses += 1
        return (count + 1) // 2

    def guessed(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A result of the right dtype and device, and of a shape that it may have."""
        guess = GUESSES.get(func.overloadpacket)
        if guess is None:
            raise NotSimulableError(f"what {func} returns depends on values")
        return guess(self, *args, **kwargs)

    def with_guessed_indices(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of an `index`, with a list of positions for every mask on the device."""
        if not any(isinstance(i, FakeTensor) and i.dtype in MASKS for i in args[1]):
            return args
        counts: dict[int, int] = {}
        indices: list[Any] = []
        for index in args[1]:
            if isinstance(index, FakeTensor) and index.dtype in MASKS:
                # Masks beside each other select as many: their count is guessed once.
                size = counts.setdefault(index.numel(), self.some(index.numel()))
                where = index.new_zeros((size,), dtype=torch.int64)
                indices += [where] * index.dim()
            else:
                indices.append(index)
        values = args[2:]
        if values and isinstance(values[0], torch.Tensor) and values[0].dim():
            # As many values as the mask selects: their number is known, so it is taken.
            count = values[0].shape[0]
            indices = [
                i.new_zeros((count,)) if isinstance(i, FakeTensor) and count > 1 else i
                for i in indices
            ]
        return (args[0], indices, *values)


def _is_on_host(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation neither takes nor makes a tensor on the device."""
    if is_cuda(kwargs.get("device")):
        return False
    return not any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, kwargs)))


def _unique(sim: Simulator, x: Any, *_: Any, **__: Any) -> Any:
    count = sim.some(x.numel())
    longs = {"dtype": torch.int64}
    return x.new_empty((count,)), x.new_empty(x.shape, **longs), x.new_empty((count,), **longs)


def _unique_dim(sim: Simulator, x: Any, dim: int, *_: Any, **__: Any) -> Any:
    shape = list(x.shape)
    size, shape[dim] = shape[dim], sim.some(shape[dim])
    longs = {"dtype": torch.int64}
    return x.new_empty(shape), x.new_empty((size,), **longs), x.new_empty((shape[dim],), **longs)


def _bincount(sim: Simulator, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    dtype = torch.int64 if weights is None else torch.float64
    return x.new_empty((max(minlength, sim.some(x.numel())),), dtype=dtype)


def _yes_or_no(sim: Simulator, *_: Any, **__: Any) -> Any:
    return sim.number(torch.bool)


GUESSES: Mapping[Any, Callable[..., Any]] = {
    aten._local_scalar_dense: lambda sim, x: sim.number(x.dtype),
    aten.item: lambda sim, x: sim.number(x.dtype),
    aten.is_nonzero: _yes_or_no,
    aten.equal: _yes_or_no,
    aten.allclose: _yes_or_no,
    aten.nonzero: lambda sim, x: x.new_empty((sim.some(x.numel()), x.dim()), dtype=torch.int64),
    aten.argwhere: lambda sim, x: x.new_empty((sim.some(x.numel()), x.dim()), dtype=torch.int64),
    aten.masked_select: lambda sim, x, mask: x.new_empty((sim.some(max(x.numel(), mask.numel())),)),
    aten._unique2: _unique,
    aten._unique: lambda sim, x, *_, **__: _unique(sim, x)[:2],
    aten.unique_consecutive: _unique,
    aten.unique_dim: _unique_dim,
    aten.unique_dim_consecutive: _unique_dim,
    aten.bincount: _bincount,
    aten.repeat_interleave: lambda sim, repeats, **_: repeats.new_empty(
        (2 * sim.some(repeats.numel()),)
    ),
}

# Kernels that have no fake one in torch, and whose results are known without it.
WITHOUT_FAKE: Mapping[Any, Callable[..., Any]] = {
    aten._thnn_fused_gru_cell: lambda *args: (  # output and workspace, as in RNN.cu
        torch.empty_like(args[2]),
        args[2].new_empty((args[2].shape[0], 5 * args[2].shape[1])),
    ),
}


# ------------------------------------------------------------------------------- what torch calls


class SimReads(TorchFunctionMode):
    """Answers methods of fake tensors that hand out their values, which passes no dispatcher."""

    def __init__(self, sim: Simulator, recorder: Recorder) -> None:
        super().__init__()
        self.sim = sim
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        x: Any = args[0] if args else None
        if func is torch.Tensor.new_tensor and isinstance(args[-1], FakeTensor):
            return self.copied(args[-1], x.device, **kwargs)
        if not isinstance(x, FakeTensor):
            return func(*args, **kwargs)
        if func is torch.tensor:
            return self.copied(x, x.device, **kwargs)
        if func is torch.Tensor.__format__ and x.dim() == 0:
            return format(x.item(), *args[1:])
        if func is torch.Tensor.tolist:
            return self.sim.nest(tuple(self.host(x).shape), x.dtype)
        if func in (torch.Tensor.numpy, torch.Tensor.__array__) and x.device.type == "cpu":
            return self.array(x).__array__(kwargs.get("dtype"))  # `np.asarray(x, dtype)` has one
        if func is torch.Tensor.__repr__:
            self.recorder.waited(Wait.SCALAR_READ, "Tensor.__repr__", x)
        return func(*args, **kwargs)

    def copied(self, data: Any, device: torch.device, **kwargs: Any) -> Any:
        """A new tensor of a fake one's values: by itself, torch would put it on meta."""
        warnings.warn(COPY_WARNING, stacklevel=3)
        requires_grad = kwargs.pop("requires_grad", False)
        kwargs.pop("pin_memory", None)
        kwargs.setdefault("device", device)
        return data.detach().clone().to(**kwargs).requires_grad_(requires_grad)

    def host(self, x: Any) -> Any:
        """The tensor on the host; the copy is dispatched, and so recorded."""
        return x if x.device.type == "cpu" else x.detach().cpu()

    def array(self, x: Any) -> Any:
        """A NumPy array of guesses."""
        with fake_tensor.unset_fake_temporarily():
            filler = self.sim.number(x.dtype)
            return torch.full(tuple(x.shape), filler, dtype=x.dtype).numpy()


def backward(run: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.autograd.backward`, modelled where it starts at fake tensors.

    The engine asks the accelerator for its streams, which a machine without one has not. What is
    modelled is that every leaf has a gradient then, of its dtype and on its device.
    """

    def modelled(tensors: Any, *args: Any, **kwargs: Any) -> None:
        roots = [leaf for leaf in tree_leaves(tensors) if isinstance(leaf, torch.Tensor)]
        if not any(isinstance(root, FakeTensor) for root in roots):
            run(tensors, *args, **kwargs)
            return
        for root in roots:
            if not root.requires_grad:
                raise RuntimeError(
                    "element 0 of tensors does not require grad and does not have a grad_fn"
                )
        with torch.no_grad():
            for leaf in leaves_of(roots):
                if leaf.grad is None:
                    leaf.grad = torch.empty_like(leaf.detach())

    return modelled


def gradient(run: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.autograd.grad`, modelled where it starts at fake tensors: as `backward`."""

    def modelled(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        roots = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
        if not any(isinstance(root, FakeTensor) for root in roots):
            return run(outputs, inputs, *args, **kwargs)
        if kwargs.get("create_graph"):
            raise NotSimulableError("the derivative of a gradient")
        tensors = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
        with torch.no_grad():
            return tuple(torch.empty_like(each.detach()) for each in tensors)

    return modelled


def _no_context(*_: Any) -> None:
    """Nothing on the device is ever made."""


def _itself(mode: FakeTensorMode, _: Any) -> FakeTensorMode:
    return mode


def _no_weakrefs(_: Any) -> list[Any]:
    return []


def _lift_host_tensors(on: bool) -> Callable[[], None]:
    """Have `torch.tensor(data, device="cuda")` build on the CPU and dispatch the copy.

    Returns what sets it back. Before 2.5, torch dispatched that copy anyway.
    """
    torch_c: Any = torch._C
    if not hasattr(torch_c, "_set_only_lift_cpu_tensors"):
        return lambda: None
    before = torch_c._only_lift_cpu_tensors()
    torch_c._set_only_lift_cpu_tensors(on)
    return lambda: torch_c._set_only_lift_cpu_tensors(before)


@contextmanager
def simulated(recorder: Recorder, simulator: Simulator) -> Iterator[None]:
    """Run what is inside on a GPU that is not there. Raises NotSimulableError."""
    obstacle = fill_guard()
    if obstacle and torch.version.cuda is None:
        raise NotSimulableError(obstacle)
    # It logs the traceback of every error of a kernel, of those too that are the point of a run.
    logging.getLogger(fake_tensor.__name__).setLevel(logging.CRITICAL)
    recorder.on_device, recorder.perform, recorder.strict = on_cuda, simulator.perform, True
    weakrefs = types.SimpleNamespace(getweakrefs=_no_weakrefs)
    swapping = torch.__future__.get_swap_module_params_on_conversion()
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(standin.gpu())
        for name in CONTEXTS:
            if hasattr(fake_tensor, name):
                enter(mock.patch.object(fake_tensor, name, _no_context))
        stack.callback(_lift_host_tensors(True))
        # FakeTensors have weak references of their own, which would forbid to swap them.
        enter(mock.patch.object(torch.utils, "weakref", weakrefs))
        # A parameter stays the same object when its module moves, as it does for real.
        torch.__future__.set_swap_module_params_on_conversion(True)
        stack.callback(torch.__future__.set_swap_module_params_on_conversion, swapping)
        # A copy of a fake tensor would have a copy of the mode, and the two do not mix.
        enter(mock.patch.object(FakeTensorMode, "__deepcopy__", _itself, create=True))
        # FakeTensor's own would read one element after the other.
        enter(mock.patch.object(FakeTensor, "tolist", torch.Tensor.tolist))
        enter(mock.patch.object(torch.autograd, "backward", backward(torch.autograd.backward)))
        enter(mock.patch.object(torch.autograd, "grad", gradient(torch.autograd.grad)))
        enter(warnings.catch_warnings())
        enter(simulator.mode)
        enter(recorder)
        enter(waiting_functions(recorder, call=False))
        enter(standin.Redirect(standin.first_gpu))
        enter(SimReads(simulator, recorder))
        yield


def reason(error: BaseException, text: str) -> str | None:
    """Why an error with this text says nothing about the program; None if it does."""
    if isinstance(error, NotSimulableError):
        return text
    kinds = (
        fake_tensor.UnsupportedOperatorException,
        fake_tensor.UnsupportedFakeTensorException,
        NotImplementedError,
    )
    if any(part in text for part in ABSENT) or isinstance(error, kinds):
        # A kernel that is absent is named in one sentence; all back ends that have it follow.
        return text.partition("\n")[0].partition(" This could be")[0] or type(error).__name__
    return None
