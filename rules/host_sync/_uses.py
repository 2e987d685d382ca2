"""The use of a value that is read from the device, and what to do about the read by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from amplint import PackedLengths, reachable
from amplint import libcst as cst
from amplint.knowledge.host_reads import LOGGED, takes_size

from .._shared.guards import leaves, raises
from .._shared.scalers import scaler_at

if TYPE_CHECKING:
    from amplint import View


class Use(Enum):
    PACKED = auto()  # lengths for `pack_padded_sequence`, which takes them from the CPU alone
    SIZE = auto()  # a size or a slice bound, which is needed before the result is allocated
    LIBRARY = auto()  # an array that a library of the host computes with
    STOPS = auto()  # tested to be finite, or else the run ends
    SKIPS_SCALED = auto()  # tested to be finite, or else the batch is skipped, as a scaler does
    SKIPS = auto()  # the same without a scaler


ADVICE: Mapping[Use | None, str] = {
    None: "",  # a log, a meter or another use: as the rule says
    Use.PACKED: (
        "keep the lengths on the CPU from the start: `pack_padded_sequence` reads them there"
    ),
    Use.SIZE: "keep lengths on the host as a list from the collator, and take the size from it",
    Use.LIBRARY: (
        "this wait is needed here; make it once for the batch, or start the copy early with "
        "`non_blocking=True` and wait for its event before the host reads it"
    ),
    Use.STOPS: "check every N steps: a run that is going to stop may stop a few steps later",
    Use.SKIPS_SCALED: (
        "let the scaler skip the step: `scaler.step` does so if a gradient is inf or NaN"
    ),
    Use.SKIPS: "this wait is the price of the check, if a batch that is not finite must be skipped",
}

# What brings a whole tensor to the host, and not one number.
ARRAY_READS = frozenset({"cpu", "numpy", "to", "tolist", "type"})
ARRAYS = frozenset({"numpy.array", "numpy.asarray", "numpy.ascontiguousarray"})
# Not libraries that compute with an array: Python and torch themselves, and what shows or logs.
NO_LIBRARY = frozenset({"builtins", "logging", "matplotlib", "mlflow", "torch", "tqdm", "wandb"})
# What makes a number of numbers.
OF_NUMBERS = frozenset({"builtins.int", "builtins.min", "builtins.max"})
ARITHMETIC = frozenset({"binop", "unary"})
ASKS_FINITE = frozenset({"isfinite", "isinf", "isnan"})


def use_of_read(read: View) -> Use | None:
    """The use of the value that a call has read, where that decides what to do."""
    if read.ask(PackedLengths):
        return Use.PACKED
    numbers = reachable([read], lambda each: filter(_is_number_of, each.uses))
    uses = [(number, use) for number in numbers for use in number.uses]
    if any(is_size(number, use) for number, use in uses):
        return Use.SIZE
    if _is_array(read) and _feeds_library(read):
        return Use.LIBRARY
    tests = (use_of_test(use) for _, use in uses if _asks_finite(use))
    return next((use for use in tests if use is not None), None)


def _is_number_of(use: View) -> bool:
    """Ex) int(n), min(n, 3), n + 1"""
    return use.callee in OF_NUMBERS or use.op in ARITHMETIC


def is_size(number: View, use: View) -> bool:
    """Ex) n of x.new_zeros(n, 8), of x.view((n, -1)), of torch.arange(n), of range(n), of x[:n]"""
    if use.op in ("subscript", "put"):
        index = use.operands[1]
        slices = (each for each in within(index) if each.op == "slice")
        return any(number.is_same(bound) for each in slices for bound in each.operands)
    name = use.callee or ""
    return any(
        number.is_same(each) and (name == "builtins.range" or takes_size(name, position, keyword))
        for position, keyword, given in use.arguments
        for each in within(given)
    )


def within(at: View) -> Sequence[View]:
    """The elements of a tuple or a list; else an expression itself."""
    return at.operands if at.op in ("tuple", "list") else (at,)


def _is_array(read: View) -> bool:
    """Ex) x.cpu(), x.tolist(), np.asarray(x); not x.item()"""
    return read.method in ARRAY_READS or read.callee in ARRAYS


def _feeds_library(read: View) -> bool:
    """Ex) linear_sum_assignment(cost.cpu().numpy()), maximum_path(value.cpu().numpy())"""

    def same_array(at: View) -> Iterator[View]:
        for use in at.uses:
            if use.op == "attr" or (use.op == "call" and _is_of_array(use, at)):
                yield use

    return any(
        _is_library(use)
        for array in reachable([read], same_array)
        for use in array.uses
        if any(array.is_same(given) for _, _, given in use.arguments)
    )


def _is_of_array(call: View, array: View) -> bool:
    """Ex) array.astype("int32"), which is called on the attribute; np.exp(array)"""
    called = call.called
    return called.is_same(array) or (call.callee or "").startswith("numpy.")


def _is_library(call: View) -> bool:
    """Whether a call is of a library that computes on the host; not of NumPy, which reduces what is
    logged as often as not."""
    name = call.callee or ""
    top, _, rest = name.partition(".")
    logs = name in LOGGED or f".{call.method}" in LOGGED
    return bool(rest) and top not in NO_LIBRARY | {"numpy", "Tensor"} and not logs


def use_of_test(test: View) -> Use | None:
    """The use of a test whether a number or a tensor is finite, by what follows where it is not."""
    src, inner = test.source, test.cst
    for around in src.ancestors(inner):
        if isinstance(around, cst.Assert):
            return Use.STOPS
        if isinstance(around, cst.If):
            if inner is not around.test:
                return None
            branches = [around.body]
            if isinstance(around.orelse, cst.Else):
                branches.append(around.orelse.body)
            if any(raises(each, src) for each in branches):
                return Use.STOPS
            if not any(leaves(each) for each in branches):
                return None
            calls = test.operations("call")
            scaled = any(scaler_at(each.receiver) is not None for each in calls)
            return Use.SKIPS_SCALED if scaled else Use.SKIPS
        if isinstance(around, cst.BaseStatement | cst.BaseSmallStatement):
            return None
        inner = around
    return None


def tests_finite(test: View) -> bool:
    """Ex) torch.isnan(loss).any(), not math.isfinite(value); and a variable that is one of these"""
    parts = reachable([test.origin], lambda each: each.operands)
    return any(_asks_finite(part) for part in parts)


def _asks_finite(at: View) -> bool:
    """Ex) torch.isfinite(loss), loss.isnan(), math.isinf(value)"""
    return at.op == "call" and (at.method or at.callee or "").rpartition(".")[2] in ASKS_FINITE
