"""`policy`: CUDA's autocast policy over the CPU's kernels, with real values.

Every operation of CUDA's table gets a Python kernel under the key of CPU autocast, and what only
the CPU's table has falls through. Under `torch.autocast("cpu")` a program is then cast as it would
be on a GPU, with values, a backward pass, a GradScaler and an optimizer.

Casts of weights are kept until the outermost region is left, as torch keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest import mock

import torch
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from amplint_verify.backends import standin, tables
from amplint_verify.recording.record import Recorder, waiting_functions
from amplint_verify.torch_names import aten

Kernel = Callable[..., Any]
_torch_c: Any = torch._C
_libraries: list[Any] = []  # kernels live as long as their library
_casts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by identity: a weight, and its cast
BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional."
    "binary_cross_entropy_with_logits\nor torch.nn.BCEWithLogitsLoss.  "
    "binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
)
# On a GPU these run in cuDNN, and autocast casts all that `_cudnn_rnn` takes (AutocastRNN.cpp). A
# CPU build has no such operation, so the layers themselves are cast.
RECURRENT = tuple(
    f"{layer}.{form}"
    for layer in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    for form in ("input", "data")
)

# Products, which CPUs without instructions for half precision compute up to 35 times as slowly in
# it.
PRODUCTS = frozenset(
    getattr(aten, name).default
    for name in ("mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward")
)


def performed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Perform an operation as torch does, but sum products of half precision in float32, as a GPU
    does, and round once."""
    dtypes = {leaf.dtype for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)}
    if func not in PRODUCTS or len(dtypes) != 1 or not dtypes <= {torch.float16, torch.bfloat16}:
        return func(*args, **kwargs)
    result = func(*tree_map_only(torch.Tensor, torch.Tensor.float, args), **kwargs)
    return tree_map_only(torch.Tensor, lambda each: each.to(*dtypes), result)


def is_eligible(value: Any) -> bool:
    """Whether autocast may cast an argument: as `is_eligible` in ATen/autocast_mode.h."""
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype != torch.float64
        and value.device.type == "cpu"
    )


def cast(values: Any, dtype: torch.dtype) -> Any:
    """Cast what is eligible in a nest of lists, tuples and dicts."""
    return tree_map(
        lambda value: cached_cast(value, dtype) if is_eligible(value) else value, values
    )


def cached_cast(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Cast a tensor, or take the cast that was made of a weight: as in ATen/autocast_mode.cpp."""
    if not (dtype == region_dtype() and is_weight(value) and torch.is_autocast_cache_enabled()):
        return value.to(dtype)
    weight, cast = _casts.get(id(value), (None, value))
    if weight is not value or cast.dtype != dtype or cast.requires_grad < torch.is_grad_enabled():
        cast = value.to(dtype)
        _casts[id(value)] = (value, cast)
    return cast


def is_weight(value: torch.Tensor) -> bool:
    return (
        value.dtype == torch.float32
        and value.requires_grad
        and value.is_leaf
        and not value._is_view()
    )


def region_dtype() -> torch.dtype:
    return torch.get_autocast_dtype("cpu")


def widest(values: Any) -> torch.dtype:
    """The dtype that `promote` casts to: as `prioritize` in ATen/autocast_mode.h."""
    dtype = region_dtype()
    for leaf in tree_leaves(values):
        if is_eligible(leaf) and leaf.dtype == torch.float32:
            return torch.float32
        if is_eligible(leaf) and leaf.dtype != dtype:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return dtype


def lower(op: Any) -> Kernel:
    return lambda *args, **kwargs: op(*cast(args, region_dtype()), **cast(kwargs, region_dtype()))


def fp32(op: Any) -> Kernel:
    return lambda *args, **kwargs: op(*cast(args, torch.float32), **cast(kwargs, torch.float32))


def promote(op: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtype = widest((args, kwargs))
        return op(*cast(args, dtype), **cast(kwargs, dtype))

    return kernel


def fp32_set_dtype(op: Any) -> Kernel:
    """The result is float32, unless the caller asks for another dtype."""
    names = [argument.name for argument in op._schema.arguments]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        if is_eligible(args[0]) and arguments.get("dtype") is None:
            at = names.index("dtype")
            args, kwargs = (
                (args[:at], {**kwargs, "dtype": torch.float32})
                if len(args) <= at or op._schema.arguments[at].kwarg_only
                else ((*args[:at], torch.float32, *args[at + 1 :]), kwargs)
            )
        return op(*args, **kwargs)

    return kernel


def fp32_append_dtype(op: Any) -> Kernel:
    """`norm` has no dtype to set: the overload that has one is called."""
    stem = op._overloadname.replace("Scalar", "ScalarOpt").replace("OptOpt", "Opt")
    with_dtype = getattr(op.overloadpacket, f"{stem}_dtype")
    names = [argument.name for argument in op._schema.arguments]
    defaults = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if not is_eligible(args[0]):
            return op(*args, **kwargs)
        arguments = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        return with_dtype(*(arguments[name] for name in names), dtype=torch.float32)

    return kernel


def banned(_: Any) -> Kernel:
    def kernel(*_: Any, **__: Any) -> Any:
        raise RuntimeError(BANNED)

    return kernel


KERNELS: dict[str, Callable[[Any], Kernel]] = {
    "lower": lower,
    "fp32": fp32,
    "fp32-set-dtype": fp32_set_dtype,
    "fp32-append-dtype": fp32_append_dtype,
    "promote": promote,
    "banned": banned,
}


def below_autocast(kernel: Kernel) -> Kernel:
    """Run a kernel whose own calls are not cast, as below any autocast kernel."""
    keys = _torch_c.DispatchKeySet(_torch_c.DispatchKey.AutocastCPU)

    def guarded(*args: Any, **kwargs: Any) -> Any:
        with _torch_c._ExcludeDispatchKeyGuard(keys):
            return kernel(*args, **kwargs)

    return guarded


def overload(name: str) -> Any:
    """The operator of e.g. "softmax.int"; without a suffix, its default overload. None of an
    operation that the installed torch does not have."""
    base, _, suffix = name.partition(".")
    return getattr(getattr(aten, base), suffix or "default", None)


@cache
def install() -> tuple[str, ...]:
    """Put CUDA's policy in the place of the CPU's, for as long as the process lives.

    Returns:
        the operations whose policy is not known: they are left as they are.
    """
    table = tables.current()
    cuda = {**table["cuda"], **dict.fromkeys(RECURRENT, "lower")}
    library: Any = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    for name, policy in cuda.items():
        operator = overload(name)
        if policy in KERNELS and operator is not None:
            register(library, name, below_autocast(KERNELS[policy](operator)))
    for name in set(table["cpu"]) - set(cuda):
        register(library, name, torch.library.fallthrough_kernel)
    return tuple(name for name, policy in table["cuda"].items() if policy not in KERNELS)


def register(library: Any, name: str, kernel: Kernel) -> None:
    """Override a kernel. Since 2.9, torch wants to be shown that this is meant."""
    try:
        library.impl(name, kernel, "AutocastCPU", allow_override=True)
    except TypeError:
        library.impl(name, kernel, "AutocastCPU")


@contextmanager
def as_on_cuda(recorder: Recorder) -> Iterator[None]:
    """Run what is inside under CUDA's policy, whether it says "cuda" or "cpu"."""
    install()
    recorder.perform = performed
    modes: Iterable[Any] = (
        standin.gpu(),
        standin.amp_on("cpu", torch.float16),
        recorder,
        waiting_functions(recorder, call=False),
        standin.Redirect(standin.host),
        mock.patch.object(torch, "clear_autocast_cache", _casts.clear),
    )
    with ExitStack() as stack:
        for mode in modes:
            stack.enter_context(mode)
        yield


@contextmanager
def region(dtype: torch.dtype) -> Iterator[None]:
    """A region of autocast on this machine's devices, the CPU under CUDA's policy. Without a GPU,
    the CPU's region answers for that of "cuda", too."""
    install()
    before, clear = torch.get_autocast_dtype("cpu"), torch.clear_autocast_cache

    def clear_both() -> None:
        clear()
        _casts.clear()

    try:
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(torch, "clear_autocast_cache", clear_both))
            has_gpu = torch.cuda.is_available()
            gpu: Any = torch.autocast("cuda", dtype) if has_gpu else standin.amp_on("cpu", dtype)
            stack.enter_context(gpu)
            stack.enter_context(torch.autocast("cpu", dtype))
            yield
    finally:
        torch.set_autocast_dtype("cpu", before)
