"""Dtypes of operands: where they come from, and what takes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from amplint import Reason, Tensor, View, reachable

from .._shared.dtypes import is_receiver_of, taken_by

DEFAULT_DTYPE = re.compile(r"\bset_default_(dtype|tensor_type)\b")
HALF_DEFAULT = r"^[^#]*\bset_default_(dtype|tensor_type)\(.*([Hh]alf|float16|bfloat16|BFloat16)"


def may_default_to_half(at: View) -> bool:
    """Whether a factory without a dtype may make something else than float32."""
    return at.matches(HALF_DEFAULT, "set_default_") or at.source.says(DEFAULT_DTYPE)


def dtype_evidence(*tensors: Tensor | None) -> Iterator[Reason | None]:
    """Why the tensors have their dtypes."""
    return (tensor.dtype_evidence for tensor in tensors if tensor is not None)


def takers(at: View, through: Collection[str]) -> Iterator[tuple[View, View]]:
    """The operations that take a value, perhaps behind methods of these names, each with what it
    takes.

    Ex) (embed(ids.long()), ids.long()), for `ids`
    """

    def called(value: View) -> Iterator[View]:
        return (each for each in taken_by(value) if is_through(each, value))

    def is_through(taker: View, value: View) -> bool:
        return is_receiver_of(value, taker) and taker.method in through

    for value in reachable([at], called):
        yield from ((each, value) for each in taken_by(value) if not is_through(each, value))


def first(places: Iterable[View]) -> View | None:
    """The first one in the text."""
    return min(places, key=lambda at: at.span, default=None)
