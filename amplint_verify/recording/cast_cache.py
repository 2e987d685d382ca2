"""The casts of weights that a region keeps, and whether the weights have changed since.

Autocast casts a parameter once, and uses that until the outermost region ends (torch/csrc and
ATen/autocast_mode.cpp, `cached_cast`). What is written to the weights inside a region is seen after
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from amplint_verify.recording.half_range import HALF
from amplint_verify.recording.sightings import UserExpression
from amplint_verify.recording.timeline import CASTING
from amplint_verify.torch_names import aten


class KeptCast(NamedTuple):
    """A cast that a region keeps.

    Args:
        function: of torch, for which it was made, such as "linear".
        writes: how many writes there were before it.
    """

    function: str
    writes: int


class CastLog:
    """The casts that the outermost region keeps.

    `region`: where it was entered; None outside of any, or where no code of the user's has.
    """

    def __init__(self) -> None:
        self.region: UserExpression | None = None
        self.casts: MutableMapping[torch.Tensor, KeptCast] = WeakTensorKeyDictionary()
        self.writes = 0
        self.written: dict[int, int] = {}  # by storage: the number of its last write

    def clear(self) -> None:
        """The outermost region has ended."""
        self.region = None
        self.casts.clear()
        self.written.clear()

    def concern(self, func: Any) -> bool:
        """Whether an operation may cast a weight, or write to one that was cast."""
        return func.overloadpacket is aten._to_copy or bool(self.casts)

    def operation(self, func: Any, args: Any, result: Any, function: str, region: str) -> None:
        """Write down a cast of a parameter, or a write to memory that such a cast was made of.

        Args:
            func, args, result: of the operation.
            function: of torch, that is being called.
            region: the dtype of the region around it; "" outside of any.
        """
        if func.overloadpacket is aten._to_copy:
            if region and function not in CASTING and is_weight(args[0]) and result.dtype in HALF:
                self.casts[args[0]] = KeptCast(function, self.writes)
        elif func._schema.is_mutable:
            self.writes += 1
            for changed in changed_by(func, args):
                self.written[storage_of(changed)] = self.writes

    def is_stale(self, function: str, arguments: Any) -> bool:
        """Whether a function was given a parameter whose cast is older than its last write."""
        if not self.written:
            return False
        weights = (leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor))
        return any(self._is_outdated(weight, function) for weight in weights if is_weight(weight))

    def _is_outdated(self, weight: torch.Tensor, function: str) -> bool:
        cast = self.casts.get(weight)
        if cast is None or cast.function != function:
            return False
        return self.written.get(storage_of(weight), 0) > cast.writes


def is_weight(tensor: torch.Tensor) -> bool:
    """Whether autocast keeps its cast: a leaf in float32 that takes a gradient."""
    return tensor.dtype == torch.float32 and tensor.is_leaf and tensor.requires_grad


def storage_of(tensor: torch.Tensor) -> int:
    """A number for the memory of a tensor, the same for each view of it; 0 of one that has none of
    its own, such as a sparse one."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


def changed_by(func: Any, args: Any) -> Iterator[torch.Tensor]:
    """The tensors that an operation writes to, of those it is given by position."""
    for each, argument in zip(args, func._schema.arguments, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from (leaf for leaf in tree_leaves(each) if isinstance(leaf, torch.Tensor))


@contextmanager
def keeping(cache: CastLog, here: Callable[[], UserExpression | None]) -> Iterator[None]:
    """Call a cache when the outermost region begins and ends.

    Args:
        cache: hears of both.
        here: returns the innermost expression of the user's.
    """
    increment, clear = torch.autocast_increment_nesting, torch.clear_autocast_cache

    def entered() -> int:
        nesting = int(increment())
        if nesting == 1:
            cache.region = here()
        return nesting

    def cleared() -> None:
        clear()
        cache.clear()

    with (
        mock.patch.object(torch, "autocast_increment_nesting", entered),
        mock.patch.object(torch, "clear_autocast_cache", cleared),
    ):
        yield
