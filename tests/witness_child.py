"""The warm process that runs fixtures; `witness.py` starts it and speaks to it.

A request names a directory and a module in it. The answer says how `run(device)` of that module
ended, what it returned, how often the host read a tensor, and what was warned of.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

SECONDS = 60
SCALAR_READS = {
    torch.ops.aten._local_scalar_dense,
    torch.ops.aten.is_nonzero,
    torch.ops.aten.equal,
    torch.ops.aten.allclose,
}
MASKS = (torch.bool, torch.uint8)
# These do not pass the dispatcher when the tensor is on the CPU.
READING_METHODS = ("tolist", "numpy", "cpu")
# These are no operations on tensors at all; without a device they raise or do nothing.
WAITING_FUNCTIONS = ("synchronize", "empty_cache")


class Reads(TorchDispatchMode):
    """Counts what makes the host wait for an accelerator, or would, were the tensors on one."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in SCALAR_READS or has_unknown_shape(func, args, kwargs or {}):
            self.count += 1
        return func(*args, **(kwargs or {}))

    def counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return method(*args, **kwargs)

        return counting


def has_unknown_shape(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether values must be read to know the shape of the result."""
    if torch.Tag.dynamic_output_shape not in func.tags or kwargs.get("output_size") is not None:
        return False
    if func.overloadpacket is torch.ops.aten.index:  # only by a mask; other indices have shapes
        return any(each is not None and each.dtype in MASKS for each in args[1])
    return True


def serve() -> None:
    """Fork one child a request; what fixtures print goes to standard error."""
    torch.set_num_threads(1)
    warm_up()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            signal.alarm(SECONDS)
            with os.fdopen(writer, "w") as pipe:
                pipe.write(json.dumps(observe(**json.loads(line))))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        out.write((answer or json.dumps({"error": f"killed (status {status})"})) + "\n")
        out.flush()


def warm_up() -> None:
    """What torch imports late, it would import anew in every child."""
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward()
    optimizer.step()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        weight.exp()


def observe(directory: str, module: str, device: str) -> dict[str, Any]:
    """Import the module, run it, and write down what happened."""
    os.chdir(directory)
    sys.path.insert(0, directory)
    answer: dict[str, Any] = {"error": None, "result": None}
    reads = Reads()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for name in WAITING_FUNCTIONS:
                setattr(torch.cuda, name, reads.counted(lambda *_: None))
            program = importlib.import_module(module)
            for name in READING_METHODS:
                setattr(torch.Tensor, name, reads.counted(getattr(torch.Tensor, name)))
            with reads:
                result = program.run(device)
            answer["reads"] = reads.count
            answer["result"] = plain(result)
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
    answer["warnings"] = [str(warning.message) for warning in caught]
    return answer


def plain(value: Any) -> Any:
    """A result as JSON: tensors as their dtype, shape and exact values."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().flatten()
        exact = flat.double() if value.is_floating_point() else flat.long()
        return {
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "values": [number.item() for number in exact],
        }
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value


if __name__ == "__main__":
    serve()
