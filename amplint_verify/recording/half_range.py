"""Numbers that half does not have: what an operation was given, and what became of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map

from amplint.knowledge.casts import NO_HALF, policy
from amplint_verify.torch_names import aten

HALF = (torch.float16, torch.bfloat16)
# What they return holds whatever the memory has held.
UNWRITTEN = frozenset(
    {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided}
)
MOST_OF_ZERO = 2.0**-25  # rounds to 0 in float16, as all below it does
# Operations with a number that is to keep off a zero: the names of its argument.
NUMBERS_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("__add__", "__iadd__", "__radd__", "add", "add_"), ("other",)),
    **dict.fromkeys(("clamp", "clamp_", "clip", "clip_"), ("min",)),
    **dict.fromkeys(("clamp_min", "clamp_min_"), ("min",)),
}
# Functions whose last argument, or one of these names, is a number that the result holds; and
# those of which that is true of each argument but the first.
LAST = frozenset(
    """
    __add__ __iadd__ __isub__ __radd__ __setitem__ __sub__ add add_ fill_ fill_diagonal_ full
    full_like index_fill index_fill_ masked_fill masked_fill_ new_full pad sub sub_
    """.split()
)
EACH = frozenset({"where"})
NAMED = ("fill_value", "other", "value")


def vanishing(name: str, args: Any, kwargs: Any) -> float | None:
    """The number that an operation on float16 is given and that is 0 there; None if there is none.

    Args:
        name: of the operation; one of `NUMBERS_OF`.
        args, kwargs: what it is given.
    """
    operands = [*args, *(kwargs[each] for each in NUMBERS_OF[name] if each in kwargs)]
    numbers = [each for each in operands if isinstance(each, float)]
    return next((each for each in numbers if 0 < abs(each) <= MOST_OF_ZERO), None)


def beyond(name: str, args: Any, kwargs: Any) -> tuple[float, torch.dtype] | None:
    """The number that a tensor in half is to hold and cannot, and the dtype; None if there is none.

    Args:
        name: of the function.
        args, kwargs: what it is given.
    """
    if name not in LAST and name not in EACH:
        return None
    dtype = dtype_asked(args, kwargs)
    if dtype not in HALF:
        return None
    most = torch.finfo(dtype).max
    operands = [*(args[1:] if name in EACH else args[-1:]), *map(kwargs.get, NAMED)]
    numbers = [each for each in operands if isinstance(each, float) or type(each) is int]
    number = next((each for each in numbers if most < abs(each) < math.inf), None)
    return None if number is None else (number, dtype)


def dtype_asked(args: Any, kwargs: Any) -> torch.dtype | None:
    """The dtype that a result is asked to have: by name, or that of the operands."""
    dtype = kwargs.get("dtype")
    if isinstance(dtype, torch.dtype):
        return dtype
    floating = (
        each.dtype
        for each in (*args, *kwargs.values())
        if isinstance(each, torch.Tensor) and each.is_floating_point()
    )
    return next(floating, None)


def overflows(func: Any, args: Any, kwargs: Any, result: Any) -> bool:
    """Whether the result is half and not finite, and is finite if the same is done in float32.

    Not asked of backward passes, whose overflow a scaler is there to skip; of what changes its
    operands, which are gone; of what draws random numbers, or is none of torch's own operations and
    may do more than compute, since that would happen twice; and of operands that are not finite
    themselves.
    """
    if not isinstance(result, torch.Tensor) or result.dtype not in HALF:
        return False
    if func._schema.is_mutable or func.overloadpacket in UNWRITTEN:
        return False
    if func.namespace != "aten" or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    if is_backward() or bool(result.isfinite().all()):
        return False
    if not all(map(finite, tree_leaves((args, kwargs)))):
        return False
    try:
        wide, wide_kwargs = tree_map(widened, (args, kwargs))
        again = func(*wide, **wide_kwargs)
    except (RuntimeError, TypeError):
        return False  # it asks for a dtype that is given elsewhere, or for too much memory
    return isinstance(again, torch.Tensor) and bool(again.isfinite().all())


def is_backward() -> bool:
    """Whether a backward pass is under way."""
    return bool(torch._C._current_graph_task_id() != -1)


def finite(leaf: Any) -> bool:
    if isinstance(leaf, torch.Tensor):
        return bool(leaf.isfinite().all())
    return not isinstance(leaf, float) or math.isfinite(leaf)


def widened(leaf: Any) -> Any:
    """Half as float32: of tensors, and of a dtype that is asked for."""
    if isinstance(leaf, torch.Tensor):
        return leaf.float() if leaf.dtype in HALF else leaf
    return torch.float32 if leaf in HALF else leaf


# ------------------------------------------------------------------------------- whole numbers


def merged_positions(func: Any, args: Any, result: Any) -> bool:
    """Whether numbers that follow each other at equal distances were made, or cast, and are no
    longer distinguished in half. Ex) the last of torch.arange(4096, dtype=torch.float16)"""
    if not isinstance(result, torch.Tensor) or result.dtype not in HALF:
        return False
    packet = func.overloadpacket
    if packet is aten.arange:
        return has_equal_neighbours(result)
    if packet is not aten._to_copy or is_backward() or not is_row(result):
        return False
    return is_progression(args[0]) and has_equal_neighbours(result)


def is_row(tensor: torch.Tensor) -> bool:
    """Whether it has more than one element, all of them along one dimension."""
    return tensor.numel() > 1 and tensor.numel() == max(tensor.shape)


def is_progression(tensor: torch.Tensor) -> bool:
    """Whether each element is larger than the one before by the same whole number."""
    if tensor.dtype in (torch.bool, *HALF) or tensor.is_complex():
        return False
    steps = tensor.flatten().double().diff()
    return bool(steps[0] >= 1) and bool((steps == steps[0].round()).all())


def has_equal_neighbours(tensor: torch.Tensor) -> bool:
    row = tensor.flatten()
    return bool((row[1:] == row[:-1]).any())


def has_rounded_integers(func: Any, args: Any, result: Any) -> bool:
    """Whether a cast to half has made an integer another. Ex) 2049 in float16"""
    if func.overloadpacket is not aten._to_copy or result.dtype not in HALF:
        return False
    source = args[0]
    if source.is_floating_point() or source.is_complex() or source.dtype is torch.bool:
        return False
    return bool((result.double() != source.double()).any())


# ------------------------------------------------------------------------------- no kernel


class Kernel(NamedTuple):
    """A kernel that is not there.

    Args:
        name: of the function, such as "torch.linalg.inv".
        dtype: of the operand.
    """

    name: str
    dtype: torch.dtype


def resolved(names: frozenset[str]) -> Iterator[tuple[Any, str]]:
    """The functions of torch and the methods of tensors that names stand for, with the name."""
    for name in sorted(names):
        owner, _, last = name.removeprefix("torch.").rpartition(".")
        holder: Any = torch.Tensor if owner == "Tensor" else torch
        for part in owner.split(".") if holder is torch and owner else ():
            holder = getattr(holder, part, None)
        function = getattr(holder, last, None)
        if function is not None and not isinstance(function, type):
            yield function, name


WITHOUT_HALF: Mapping[Any, str] = dict(resolved(NO_HALF))


def no_kernel(func: Any, args: Any, kwargs: Any, region: str) -> Kernel | None:
    """The kernel that a call asks for and that half does not have, unless autocast casts.

    Args:
        func: one of `WITHOUT_HALF`.
        args, kwargs: what it is given.
        region: the device type of the region around it, "" outside of any.
    """
    name = WITHOUT_HALF[func]
    if region and policy(name, region) is not None:
        return None
    leaves = tree_leaves((args, kwargs))
    dtypes = (leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor))
    half = next((dtype for dtype in dtypes if dtype in HALF), None)
    return None if half is None else Kernel(name, half)
