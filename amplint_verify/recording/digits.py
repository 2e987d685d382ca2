"""Digits that half loses: each operation is done once more, on float32 copies of what it takes.

Each storage of numbers that half has rounded has a copy, which its views share. The copies go the
way of the program, with its branches and its random numbers: they differ by rounding alone.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves, tree_map

from amplint_verify.recording.half_range import HALF, is_backward, widened
from amplint_verify.torch_names import aten

# A result without one right bit is wrong by half of its size. Operands have kept their digits if
# they are wrong by less than Higham and Mary's probabilistic bound (2019) of as many roundings,
# lambda * sqrt(n) * u, beyond which lies one of 1e7 numbers.
NO_BIT = 0.5
LAMBDA = 6.0
MOST_NUMBERS = 2**26  # of all copies
# They jump, so a rounding in the last digit decides between two results.
JUMPS = frozenset(
    {aten.ceil, aten.floor, aten.floor_divide, aten.fmod, aten.frac, aten.remainder}
    | {aten.round, aten.sgn, aten.sign, aten.trunc}
)
OF_ANGLES = frozenset({aten.cos, aten.sin})
# The sizes of the factors do not show how much float32 itself loses in a sum of products.
PRODUCTS = frozenset(
    {aten.addmm, aten.baddbmm, aten.bmm, aten.convolution, aten.dot, aten.mm, aten.mv}
)


class WideCopy(NamedTuple):
    """The copy of a storage.

    Args:
        storage: of the program; it may be gone.
        numbers: of the copy, at the places of those in the storage.
        half: the dtype that has rounded them.
        roundings: how many of them have followed each other.
    """

    storage: StorageWeakRef
    numbers: torch.Tensor
    half: torch.dtype
    roundings: int


class Expectation(NamedTuple):
    """The expectation of the result of an operation.

    Args:
        result: of the operation on copies.
        pairs: the operands and their copies.
        half: the dtype that has rounded these, or rounds the result.
        roundings: as of a copy.
    """

    result: Any
    pairs: list[tuple[torch.Tensor, torch.Tensor]]
    half: torch.dtype
    roundings: int


class WideCopies:
    """The copies of one call of the project."""

    def __init__(self) -> None:
        self._copies: dict[int, WideCopy] = {}

    def expect(self, func: Any, args: Any, kwargs: Any) -> Expectation | None:
        """The expectation of a result; None if half has no part in it."""
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if is_dense(leaf)]
        copies = [copy for copy in map(self._copy_of, tensors) if copy is not None]
        dtypes = (*(each.half for each in copies), *(each.dtype for each in tensors))
        half = next((each for each in (*dtypes, kwargs.get("dtype")) if each in HALF), None)
        if half is None or is_backward() or not computes(func):
            return None
        pairs = [(each, self._wide(each)) for each in tensors if each.is_floating_point()]
        wide, wide_kwargs = tree_map(self._wide, (args, kwargs))
        if func._schema.is_mutable:
            wide = (wide[0].clone(), *wide[1:])
        try:
            result = func(*wide, **wide_kwargs)
        except (IndexError, RuntimeError, TypeError):
            return None
        return Expectation(result, pairs, half, max((c.roundings for c in copies), default=0))

    def loss(self, func: Any, expected: Expectation, result: Any) -> tuple[float, float] | None:
        """The error of a result that has lost its digits, and the bound of what its operands have
        lost; None of another one."""
        worst = None
        leaves = tree_leaves(expected.result), tree_leaves(result)
        for wide, actual in zip(*leaves, strict=False):
            if not is_dense(actual) or not actual.is_floating_point() or wide.shape != actual.shape:
                continue
            if actual.numel() == 0:
                continue
            self._keep(actual, wide, expected)
            error, size = largest(actual.float() - wide), largest(wide)
            most = bound(expected.half, expected.roundings)
            is_judged = not func._schema.is_mutable and func.overloadpacket not in PRODUCTS
            if is_judged and NO_BIT * size <= error < math.inf and has_digits(expected, wide):
                worst = error / size, most
        return worst

    def _copy_of(self, tensor: torch.Tensor) -> WideCopy | None:
        return self._copies.get(tensor.untyped_storage()._cdata)

    def _wide(self, leaf: Any) -> Any:
        """The copy of a tensor; of one that half has not rounded, its own values."""
        copy = self._copy_of(leaf) if is_dense(leaf) else None
        if copy is None:
            return widened(leaf)
        return copy.numbers.as_strided(leaf.shape, leaf.stride(), leaf.storage_offset())

    def _keep(self, tensor: torch.Tensor, wide: torch.Tensor, expected: Expectation) -> None:
        storage = tensor.untyped_storage()
        if (copy := self._copy_of(tensor)) is None:
            self._make_room()
            length = storage.nbytes() // tensor.element_size()
            numbers = tensor.as_strided((length,), (1,), 0).float().clone()
            copy = WideCopy(StorageWeakRef(storage), numbers, expected.half, 0)
        place = tensor.shape, tensor.stride(), tensor.storage_offset()
        copy.numbers.as_strided(*place).copy_(wide)
        roundings = max(copy.roundings, expected.roundings + (tensor.dtype in HALF))
        self._copies[storage._cdata] = copy._replace(roundings=roundings)

    def _make_room(self) -> None:
        """Forget what the program has no more, and all if that is not enough."""
        for is_needed in (lambda copy: not copy.storage.expired(), lambda _: False):
            if sum(len(copy.numbers) for copy in self._copies.values()) > MOST_NUMBERS:
                self._copies = {k: copy for k, copy in self._copies.items() if is_needed(copy)}


def is_dense(leaf: Any) -> bool:
    """Whether a value is a tensor with values of no more digits than float32."""
    is_tensor = isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided
    return is_tensor and not leaf.is_meta and leaf.dtype not in (torch.float64, torch.complex128)


def computes(func: Any) -> bool:
    """Whether an operation makes numbers of its operands alone, the same each time."""
    is_view = not func._schema.is_mutable and any(r.alias_info for r in func._schema.returns)
    is_random = torch.Tag.nondeterministic_seeded in func.tags
    is_torch = func.namespace == "aten" and func.overloadpacket not in JUMPS
    return is_torch and not is_view and not is_random


def bound(half: torch.dtype, roundings: int) -> float:
    """The relative error of a number that was rounded so often."""
    return LAMBDA * math.sqrt(roundings) * torch.finfo(half).eps / 2


def has_digits(expected: Expectation, result: torch.Tensor) -> bool:
    """Whether each of the operands has kept its digits, and the result has some in float32."""
    most = bound(expected.half, expected.roundings)
    operands = expected.pairs
    if any(((own.float() - wide).abs() > most * wide.abs()).any() for own, wide in operands):
        return False
    terms = max((own.numel() for own, _ in operands), default=1) / result.numel()
    size = max((largest(wide) for _, wide in operands), default=0.0)
    noise = max(terms, 1) * size * torch.finfo(torch.float32).eps
    return noise < bound(expected.half, 1) * largest(result)


def largest(tensor: torch.Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0
