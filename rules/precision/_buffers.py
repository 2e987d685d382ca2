"""A tensor that a function makes: the operations that leave it this one, and what is written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from amplint import HALF, View, reachable
from amplint.knowledge.casts import SAME_DTYPE_WRITES
from amplint.knowledge.operations import SHAPE_METHODS

from .._shared.constants import number_of
from .._shared.dtypes import is_receiver_of, taken_by

# What in-place methods write: the position of the argument.
COPIES = frozenset({"index_copy", "index_put", "masked_scatter", "put", "scatter"})
WRITTEN = {
    "copy_": 0,
    "fill_": 0,
    "index_fill_": 2,
    "masked_fill_": 1,
    **{f"{name}_": SAME_DTYPE_WRITES[name] for name in COPIES},
}
# In-place methods that write zeros and ones alone, or nothing.
WRITE_BITS = frozenset(
    {"bernoulli_", "requires_grad_", "tril_", "triu_", "zero_", *(f"{e}_" for e in SHAPE_METHODS)}
)


def buffers(call: View) -> Iterable[View]:
    """The operations whose value is the buffer: the one that makes it, in-place methods, shapes and
    slice assignments."""
    return reachable([call], lambda at: (each for each in taken_by(at) if _leaves_buffer(each, at)))


def half_holds(call: View) -> bool:
    """Whether half holds all that the function writes into a tensor: half data, and numbers that
    float16 and bfloat16 alike have. What nothing is known of may be float32."""
    return all(map(_is_held, written_into(call)))


def written_into(call: View) -> Iterator[View | None]:
    """All that the function writes into a tensor, its fill value included; None for the unknown.

    Ex) y of `buffer[0] = y` and `buffer[:2].copy_(y)`; None of `buffer.normal_()`
    """
    if call.callee == "torch.full":
        yield call.arg("fill_value", 1)
    for part in reachable([call], lambda at: (e for e in taken_by(at) if _shares_memory(e, at))):
        yield from _written_by(part)


def _shares_memory(at: View, buffer: View) -> bool:
    """Ex) buffer[0], and what leaves it the buffer"""
    is_part = at.op == "subscript" and at.operands[0].is_same(buffer)
    return is_part or _leaves_buffer(at, buffer)


def _written_by(at: View) -> Iterable[View | None]:
    """Ex) y of `buffer[0] = y` and buffer.copy_(y)"""
    if at.op == "put":
        return (at.assigned,)
    if at.op != "call" or not at.method.endswith("_") or at.method in WRITE_BITS:
        return ()
    position = WRITTEN.get(at.method)
    return (at.arg("value", position) if position is not None else None,)


def _is_held(value: View | None) -> bool:
    if value is None:
        return False
    if value.tensor is not None:
        return value.tensor.dtype in HALF
    number = number_of(value)
    return number is not None and is_exact_in_half(number)


def is_exact_in_half(number: float) -> bool:
    """Whether float16 and bfloat16 both have the number: infinite, or of eight binary digits within
    the normal numbers of float16 (2**-14 to 65504).

    Source: IEEE 754 binary16; bfloat16 has eight digits of precision.
    """
    if not math.isfinite(number) or number == 0:
        return True
    digits, exponent = math.frexp(abs(number))
    return (digits * 2**8).is_integer() and -13 <= exponent <= 16


def _leaves_buffer(at: View, buffer: View) -> bool:
    """Ex) buffer.normal_(), buffer.unsqueeze(0), torch.triu(buffer), buffer[:n] = x"""
    if is_receiver_of(buffer, at):
        return at.method.endswith("_") or at.method in {*SHAPE_METHODS, "tril", "triu"}
    if at.op == "put":
        return at.operands[0].is_same(buffer)
    return at.callee in ("torch.tril", "torch.triu")
