"""The program in float64: what its results would be without rounding.

Every floating tensor is float64, whatever dtype the program or autocast asks for; autocast leaves
float64 alone by itself. Random numbers are those of the run that it is a reference for: both run
under `rng.normalised`. A float32 leaf that comes from outside (a parameter made of an array) and
takes a gradient fails here, and a program that asks for a dtype and acts on the answer may do
something else: then there is no reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from amplint_verify.runs.rng import normalised
from amplint_verify.torch_names import aten

# These check that the scale and what is found are float32.
OF_THE_SCALER = (aten._amp_foreach_non_finite_check_and_unscale_, aten._amp_update_scale_)


class Float64(TorchDispatchMode):
    """Computes in float64, and makes what is made in float64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags:
            result = func(*args, **kwargs)
            return result if func._schema.is_mutable else tree_map(wide, result)
        if func.overloadpacket in OF_THE_SCALER:
            return with_narrow_scale(func, args)
        if is_low(kwargs.get("dtype")):
            kwargs = {**kwargs, "dtype": torch.float64}
        if func._schema.is_mutable:  # what is written has to be the program's own tensor
            return func(*args, **kwargs)
        return func(*tree_map(wide, args), **tree_map(wide, kwargs))


def is_low(dtype: object) -> bool:
    return isinstance(dtype, torch.dtype) and dtype.is_floating_point and dtype != torch.float64


def wide(value: Any) -> Any:
    """A floating tensor in float64; anything else as it is."""
    return value.double() if isinstance(value, torch.Tensor) and is_low(value.dtype) else value


def with_narrow_scale(func: Any, args: tuple[Any, ...]) -> Any:
    """Call with float32 in the place of float64 tensors, and give those what was written."""
    narrow = [
        each.float() if isinstance(each, torch.Tensor) and each.dtype == torch.float64 else each
        for each in args
    ]
    result = func(*narrow)
    for each, written in zip(args, narrow, strict=True):
        if each is not written:
            each.copy_(written)
    return args[0] if result is not None else None


@contextmanager
def in_float64() -> Iterator[None]:
    """Run with normalised random numbers, and without rounding to anything below float64."""
    default = torch.get_default_dtype()
    with normalised(), Float64():
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(default)
