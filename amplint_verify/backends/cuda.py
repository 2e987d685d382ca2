"""`cuda`: a GPU, with two counters of waits beside the recorder's.

The recorder knows operations and lines, and misses some that wait inside one kernel. PyTorch's
`set_sync_debug_mode` warns of what synchronizes, and misses copies of pageable memory that are
asked for as non-blocking. The callbacks of its GPU trace see every synchronization of a stream, a
device or an event; they are private, so they are used where they are found.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from amplint_verify.recording.observation import Wait
from amplint_verify.recording.record import Recorder, on_cuda, waiting_functions

DEBUG_MODE = "called a synchronizing CUDA operation"  # c10/cuda/CUDAFunctions.cpp
ABOUT_DEBUG_MODE = "Synchronization debug mode is a prototype feature"
TRACED = ("stream", "device", "event")
# What makes a tensor of numbers and of nests of them, and where it takes them; of a tensor or an
# array, it is dispatched.
BUILDERS = {torch.tensor: 0, torch.as_tensor: 0, torch.Tensor.new_tensor: 1}
PLAIN = (bool, int, float, complex, list, tuple)


class Trace:
    """Counts synchronizations by the callbacks of PyTorch's GPU trace.

    `missing` says why there are none, or is None. Callbacks cannot be taken back: one instance a
    process.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.missing: str | None = None
        try:
            module: Any = importlib.import_module("torch.cuda._gpu_trace")
            for what in TRACED:
                register = getattr(module, f"register_callback_for_{what}_synchronization")
                register(self._counting(f"{what} synchronizations"))
            activate: Any = torch._C._activate_gpu_trace
            activate()
        except (ImportError, AttributeError) as error:
            self.missing = f"this torch has no GPU trace: {error}"

    def _counting(self, name: str) -> Any:
        def count(*_: Any) -> None:
            self.counts[name] += 1

        return count


class CudaReads(TorchFunctionMode):
    """Counts what reads the device, or copies to it, and passes no dispatcher.

    Printing switches the modes off that see operations, and so does making a tensor of a list
    (torch/_tensor_str.py, torch/csrc/utils/tensor_new.cpp).
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.__repr__ and args[0].is_cuda:
            self.recorder.waited(Wait.SCALAR_READ, "Tensor.__repr__", args[0])
        result = func(*args, **kwargs)
        if func in BUILDERS:
            at = BUILDERS[func]
            self._built(args[at] if at < len(args) else kwargs.get("data"), result)
        return result

    def _built(self, data: Any, result: Any) -> None:
        """Note what was read and copied to make a tensor of some data."""
        if not isinstance(data, PLAIN):
            return
        for leaf in tree_leaves(data):
            if isinstance(leaf, torch.Tensor) and leaf.is_cuda:
                self.recorder.waited(Wait.SCALAR_READ, "torch.tensor", leaf)
        if result.is_cuda:
            size = result.numel() * result.element_size()
            self.recorder.waited(Wait.TO_DEVICE, "torch.tensor", result, size)


def synchronizing(recorder: Recorder, of: Any) -> Any:
    """Have the method `synchronize` of a class counted."""
    method = of.synchronize

    def counted(self: Any) -> Any:
        recorder.waited(Wait.SYNCHRONIZE, f"torch.cuda.{of.__name__}.synchronize")
        return method(self)

    return mock.patch.object(of, "synchronize", counted)


def as_without_determinism(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called as if no deterministic algorithms were asked for, unless the
    program itself has: that is not by warnings alone."""

    def called(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_deterministic_algorithms_warn_only_enabled():
            return function(*args, **kwargs)
        torch.use_deterministic_algorithms(False)
        try:
            return function(*args, **kwargs)
        finally:
            torch.use_deterministic_algorithms(True, warn_only=True)

    return called


@contextmanager
def deterministic() -> Iterator[None]:
    """Have results repeat themselves, as far as that leaves dtypes as they are.

    `interpolate` would take another path, of operations that autocast does not know: half stayed
    half, where it becomes float32 (seen with torch 2.11 on a GPU).
    """
    # What chooses kernels by timing them would differ from run to run.
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    functional = torch.nn.functional
    plain = as_without_determinism(functional.interpolate)
    with mock.patch.object(functional, "interpolate", plain):
        yield


def limit_memory(size: int) -> None:
    """Let the process have that many bytes of GPU memory.

    Not RLIMIT_AS: CUDA reserves address space far beyond what it uses.
    """
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, size / total))


@contextmanager
def on_gpu(recorder: Recorder) -> Iterator[None]:
    """Run what is inside with the sync debug mode on."""
    before = torch.cuda.get_sync_debug_mode()
    with ExitStack() as stack:
        stack.callback(torch.cuda.set_sync_debug_mode, before)
        torch.cuda.set_sync_debug_mode("warn")
        stack.enter_context(recorded(recorder))
        yield


@contextmanager
def recorded(recorder: Recorder) -> Iterator[None]:
    """Record what is inside, as it is: where there is no GPU, nothing counts as being on one."""
    recorder.on_device = on_cuda
    with ExitStack() as stack:
        stack.enter_context(recorder)
        stack.enter_context(CudaReads(recorder))
        for each in (torch.cuda.Stream, torch.cuda.Event):
            stack.enter_context(synchronizing(recorder, each))
        stack.enter_context(waiting_functions(recorder, call=True))
        yield
