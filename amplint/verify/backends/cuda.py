"""`cuda`: a GPU, with two counters of waits beside the recorder's.

The recorder knows operations and lines, and misses what waits inside one kernel. PyTorch's
`set_sync_debug_mode` warns of what synchronizes, and misses copies of pageable memory that are
asked for as non-blocking. The callbacks of its GPU trace see every synchronization of a stream, a
device or an event; they are private, so they are used where they are found.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from amplint.verify.recording.record import Recorder, on_cuda, waiting_functions

DEBUG_MODE = "called a synchronizing CUDA operation"  # c10/cuda/CUDAFunctions.cpp
ABOUT_DEBUG_MODE = "Synchronization debug mode is a prototype feature"
TRACED = ("stream", "device", "event")


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


def limit_memory(size: int) -> None:
    """Let the process have that many bytes of GPU memory.

    Not RLIMIT_AS: CUDA reserves address space far beyond what it uses.
    """
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, size / total))


@contextmanager
def on_gpu(recorder: Recorder) -> Iterator[None]:
    """Run what is inside with the sync debug mode on."""
    recorder.on_device = on_cuda
    before = torch.cuda.get_sync_debug_mode()
    with ExitStack() as stack:
        stack.callback(torch.cuda.set_sync_debug_mode, before)
        torch.cuda.set_sync_debug_mode("warn")
        stack.enter_context(recorder)
        stack.enter_context(waiting_functions(recorder, call=True))
        yield
