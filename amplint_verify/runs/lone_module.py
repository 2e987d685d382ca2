"""A module without a program: it is built, and makes two steps of training on random inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils._pytree import tree_leaves

from amplint.project.modes import MODES, Mode
from amplint_verify.runs.module_inputs import FLOATS, TensorForm, input_of

STEPS = 2  # what is a mistake only in every step has to be seen in two
MOST_NUMBERS = 50_000_000  # with more, two steps on one core of a CPU take minutes


class TooManyNumbersError(Exception):
    """The module and its inputs have more numbers than a CPU should compute with."""


def train(
    create: Callable[[], torch.nn.Module], inputs: Sequence[str], under: str, device: str
) -> list[Any]:
    """The results of the module, of each step.

    Args:
        create: builds the module.
        inputs: as `input_of` takes them.
        under: a name in `MODES`, or "".
        device: the back end's.
    """
    pairs = [input_of(text) for text in inputs]
    numbers = sum(math.prod(form.shape) for _, form in pairs if isinstance(form, TensorForm))
    with placing(device, numbers):
        module = create().to(device)
    values = [filled(value, device) for _, value in pairs]
    values, region = under_mode(MODES.get(under), module, values, device)
    args = [value for value, (keyword, _) in zip(values, pairs, strict=True) if not keyword]
    kwargs = {keyword: value for value, (keyword, _) in zip(values, pairs, strict=True) if keyword}
    optimizer = torch.optim.SGD(list(module.parameters()) or [torch.empty(0)])
    results = []
    for _ in range(STEPS):
        with region:
            results.append(module(*args, **kwargs))
        losses = [leaf.float().mean() for leaf in tree_leaves(results[-1]) if has_gradient(leaf)]
        if losses:
            torch.stack(losses).sum().backward()
        optimizer.zero_grad()  # the step finds no gradient, and leaves the weights as they are
        optimizer.step()
    return results


def under_mode(
    mode: Mode | None, module: torch.nn.Module, values: list[Any], device: str
) -> tuple[list[Any], AbstractContextManager[object]]:
    """The inputs that callers give who ask for a precision, and the region that they open.

    Those who open none have cast the module as a whole.
    """
    if mode is None:
        return values, nullcontext()
    dtype: torch.dtype = getattr(torch, mode.dtype)
    if mode.is_region:
        return values, torch.autocast(device, dtype)
    module.to(dtype)

    def cast(value: Any) -> Any:
        is_cast = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(dtype) if is_cast else value

    return [cast(value) for value in values], nullcontext()


@contextmanager
def placing(device: str, numbers: int) -> Iterator[None]:
    """Move each parameter to the device as a module takes it, before its values are set.

    On a simulated GPU it has no values and needs no memory. All else that a constructor computes
    with keeps its values.

    Args:
        device: the back end's.
        numbers: how many there are beside the parameters.

    Raises TooManyNumbersError on a CPU, at the parameter that is too much.
    """

    def take(_: object, __: str, parameter: Any) -> Any:
        nonlocal numbers
        if parameter is None or isinstance(parameter, torch.nn.UninitializedParameter):
            return None
        numbers += parameter.numel()
        check()
        if parameter.device.type == device:
            return None
        return torch.nn.Parameter(parameter.detach().to(device), parameter.requires_grad)

    def check() -> None:
        if device == "cpu" and numbers > MOST_NUMBERS:
            raise TooManyNumbersError(
                f"it has more than {MOST_NUMBERS:,} numbers: too many for a CPU"
            )

    check()
    handle = register_module_parameter_registration_hook(take)
    try:
        yield
    finally:
        handle.remove()


def filled(value: Any, device: str) -> Any:
    """A tensor of random values for a form; all else as it is."""
    if not isinstance(value, TensorForm):
        return value
    if value.dtype in FLOATS:
        return torch.randn(value.shape, device=device).to(getattr(torch, value.dtype))
    numbers = torch.randint(value.bound, value.shape, device=device)
    return numbers.to(getattr(torch, value.dtype))


def has_gradient(value: Any) -> bool:
    """Whether a value is a tensor that depends on parameters, and can be a part of the loss."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.requires_grad
