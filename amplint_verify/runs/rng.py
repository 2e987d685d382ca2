"""Random numbers that do not depend on which generator draws them.

Two versions of a program that draw from different generators (one on the CPU, one on the device)
or in another order have different values everywhere, and are still the same program. Under
`normalised()` the n-th draw of an operation has the same values in both, wherever it runs. What
still differs then differs for another reason.

Floating numbers are drawn in float32 and cast, as CUDA's kernels do for half, so that
`randn(...).half()` and `randn(..., dtype=torch.half)` agree. The one value that this changes:
`rand` in half may come out as 1.0, as it does for who rounds it himself.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class Normalised(TorchDispatchMode):
    """Draws on the CPU, with a seed made of the operation's name and the number of the draw.

    The global generators are left as they are, and so is a generator that the program passes:
    both would advance differently on another device. Kernels that draw inside of a larger one
    without saying so (fused attention with dropout) are not reached.
    """

    def __init__(self) -> None:
        super().__init__()
        self.draws: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        family = func._schema.name.rpartition("::")[2].rstrip("_")
        seed = zlib.crc32(f"{family}:{self.draws[family]}".encode())
        self.draws[family] += 1
        with seeded(seed):
            return draw(func, args, kwargs)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The CPU's generator with this seed, and as it was afterwards."""
    state = torch.get_rng_state()
    try:
        torch.default_generator.manual_seed(seed)
        yield
    finally:
        torch.set_rng_state(state)


def draw(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operation on the CPU and in float32; what it writes and returns goes where it belongs."""
    arguments = bound(func, args, kwargs)
    tensors = [value for value in arguments.values() if isinstance(value, torch.Tensor)]
    device = kwargs.get("device") or next((each.device for each in tensors), torch.device("cpu"))
    dtype = dtype_of(func, arguments, tensors)

    here = {name: tree_map(to_draw, value) for name, value in arguments.items()}
    for name, plain in (("generator", None), ("pin_memory", None), ("device", torch.device("cpu"))):
        if here.get(name) is not None:
            here[name] = plain
    if dtype.is_floating_point and (arguments.get("dtype") is not None or not tensors):
        here["dtype"] = torch.float32
    result = func(**here)

    written = {}
    for argument in func._schema.arguments:
        for memory in writes(argument.alias_info):
            written[memory] = arguments[argument.name]
            written[memory].copy_(here[argument.name])

    def back(value: Any, returned: Any) -> Any:
        for memory in writes(returned.alias_info):
            return written[memory]
        if not isinstance(value, torch.Tensor):
            return value
        floating = value.is_floating_point() and dtype.is_floating_point
        return value.to(device, dtype) if floating else value.to(device)

    returns = func._schema.returns
    if len(returns) == 1:
        return back(result, returns[0])
    return tuple(back(*pair) for pair in zip(result, returns, strict=True))


def bound(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name."""
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def dtype_of(func: Any, arguments: dict[str, Any], tensors: list[torch.Tensor]) -> torch.dtype:
    """The dtype of what an operation draws; of one with an own default, as `randint`, an integer"""
    dtype: torch.dtype | None = arguments.get("dtype")
    if dtype is not None:
        return dtype
    if tensors:
        return tensors[0].dtype
    plain = any(arg.name == "dtype" and arg.default_value is None for arg in func._schema.arguments)
    return torch.get_default_dtype() if plain else torch.int64


def to_draw(value: Any) -> Any:
    """A tensor on the CPU, a floating one in float32."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.to("cpu", torch.float32) if value.is_floating_point() else value.to("cpu")


def writes(alias: Any) -> Iterable[str]:
    """The names of the memory that an argument or a result with this annotation writes to."""
    return alias.before_set if alias is not None and alias.is_write else ()


@contextmanager
def normalised() -> Iterator[None]:
    """Run with random numbers that depend only on the operation and the number of the draw."""
    with Normalised():
        yield
