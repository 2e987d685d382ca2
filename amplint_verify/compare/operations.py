"""Hold two runs against each other: what they gave back, and the operations that they did.

There is no tolerance that is right for every program. Values are compared by tiers: `bits`,
`after_cast`, `accurate` (no further from a float64 run), `close`. Which one may be used is for the
change to declare; where it declares nothing, a single bit counts.
"""

from __future__ import annotations

import base64
import difflib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import zip_longest
from typing import Any

import torch

from amplint_verify.recording.observation import Leaf, OperationRow, ReturnedTensor, sample_step

GROWTH = 1.1  # by how much an error may grow and still count as the same
ROUNDINGS = 4  # units of the last place that no error needs to stay below
# Relative and absolute tolerance of `torch.testing.assert_close`, by dtype.
CLOSE = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
}
WINDOW = 400  # operations, in which the first difference of two traces is looked for an end


@dataclass(frozen=True)
class LeafDifference:
    """One leaf that is not the same.

    Args:
        where: e.g. "result['loss']".
        what: the property: "dtype", "device", "shape", "stride", "type", "kind", "grad", "value",
            or "presence" for a leaf that only one of the two has.
        before, after: what it was and is, in a few words; of values, how far they lie apart stands
            behind the second, in parentheses: the greatest difference, with its place.
    """

    where: str
    what: str
    before: str
    after: str

    def __str__(self) -> str:
        distance = self.after.removeprefix(self.before)
        if self.what == "value" and distance.startswith(" ("):  # all else is said to be the same
            return f"{self.where}: {self.before}: values differ{distance}"
        return f"{self.where}: {self.what} {self.before} -> {self.after}"


Compare = Callable[[Leaf, Leaf], "LeafDifference | None"]

# ------------------------------------------------------------------------------------- leaves


def differences(
    before: Sequence[Leaf], after: Sequence[Leaf], compare: Compare
) -> tuple[LeafDifference, ...]:
    """The leaves that `compare` does not take for the same, and those that only one side has."""
    ours, theirs = {leaf.where: leaf for leaf in before}, {leaf.where: leaf for leaf in after}
    comparisons: list[LeafDifference | None] = []
    for where in {**ours, **theirs}:
        one, other = ours.get(where), theirs.get(where)
        if one is None or other is None:
            comparisons.append(LeafDifference(where, "presence", brief(one), brief(other)))
        else:
            comparisons.append(compare(one, other))
    return tuple(difference for difference in comparisons if difference is not None)


def bits(before: Leaf, after: Leaf) -> LeafDifference | None:
    """Equal in every property and every bit."""
    return kinds(before, after) or by_value(before, after, same_bits)


def kinds(before: Leaf, after: Leaf) -> LeafDifference | None:
    """Equal in every property, of runs whose values are guesses."""
    return differing(before, after, ())


def after_cast(before: Leaf, after: Leaf) -> LeafDifference | None:
    """Equal once the first has the dtype of the second, which is another floating one."""
    return differing(before, after, ("dtype",)) or by_value(before, after, within_an_ulp)


def accurate(
    reference: Mapping[str, Leaf], eps: float, before: Leaf, after: Leaf
) -> LeafDifference | None:
    """No further from the reference, the leaf of the same name in a float64 run, than before.

    Args:
        reference: the leaves of the float64 run by name.
        eps: of the dtype whose rounding is no error, if that is coarser than the leaf's own.
        before, after: the leaves.
    """
    exact = reference.get(before.where)
    compare = partial(
        no_further, None if exact is None else values(exact), max(eps, precision(after))
    )
    return differing(before, after, ("dtype",)) or by_value(before, after, compare)


def close(before: Leaf, after: Leaf) -> LeafDifference | None:
    """As close as `torch.testing.assert_close` demands of the dtype."""
    return kinds(before, after) or by_value(before, after, nearly_equal)


def differing(before: Leaf, after: Leaf, but: Iterable[str]) -> LeafDifference | None:
    """The first property, except for some, that is not the same."""
    ours, theirs = properties(before), properties(after)
    for name in ours:
        if name not in but and ours[name] != theirs.get(name):
            return LeafDifference(before.where, name, ours[name], theirs.get(name, "none"))
    return None


def properties(leaf: Leaf) -> dict[str, str]:
    """The kind of a leaf, apart from its value."""
    tensor = leaf.tensor
    if tensor is None:
        return {"kind": leaf.kind}
    return {
        "kind": leaf.kind,
        "type": tensor.type,
        "dtype": tensor.dtype,
        "device": tensor.device,
        "shape": str(list(tensor.shape)),
        "stride": str(list(tensor.stride)),
        "grad": "requires grad" if tensor.requires_grad else "no grad",
    }


def by_value(
    before: Leaf, after: Leaf, alike: Callable[[torch.Tensor, torch.Tensor], str | None]
) -> LeafDifference | None:
    """The objection of `alike` to two values; texts and hashes decide where they can."""
    if before.tensor is None or after.tensor is None:
        if before.text == after.text:
            return None
    elif before.tensor.dtype == after.tensor.dtype and before.tensor.sha256 == after.tensor.sha256:
        return None
    one, other = values(before), values(after)
    objection = by_sample(before, after) if one is None or other is None else alike(one, other)
    if objection is None:
        return None
    return LeafDifference(before.where, "value", brief(before), f"{brief(after)} ({objection})")


def by_sample(before: Leaf, after: Leaf) -> str:
    """How far tensors lie apart of which only a sample is kept, as far as that shows it."""
    one, other = before.tensor, after.tensor
    if one is None or other is None or one.shape != other.shape:
        return "values are not kept"
    ours, theirs = sampled(one), sampled(other)
    if ours is None or theirs is None:
        return "values are not kept"
    among = f"of {len(ours)} elements that were kept"
    if torch.equal(ours, theirs):
        return f"in none {among}"
    step = sample_step(math.prod(one.shape))
    return f"by {largest_gap(ours, theirs, one.shape, step)}, {among}"


def same_bits(one: torch.Tensor, other: torch.Tensor) -> str | None:
    return f"by {largest_gap(one, other, one.shape)}"


def within_an_ulp(one: torch.Tensor, other: torch.Tensor) -> str | None:
    if one.dtype not in CLOSE or other.dtype not in CLOSE:
        return same_bits(one, other)
    distance = ulps(one.to(other.dtype), other)
    return None if distance <= 1 else f"{distance} units in the last place apart"


def no_further(
    reference: torch.Tensor | None, eps: float, one: torch.Tensor, other: torch.Tensor
) -> str | None:
    if one.dtype not in CLOSE or other.dtype not in CLOSE:
        return same_bits(one, other)
    if reference is None or reference.shape != other.shape:
        return "there is no reference"
    was, now = error(one, reference), error(other, reference)
    if now <= max(GROWTH * was, ROUNDINGS * eps):
        return None
    return f"the error was {was:.1e} and is {now:.1e}"


def nearly_equal(one: torch.Tensor, other: torch.Tensor) -> str | None:
    relative, absolute = CLOSE.get(other.dtype, (0.0, 0.0))
    alike = torch.allclose(one, other, relative, absolute, equal_nan=True)
    return None if alike else same_bits(one, other)


# ------------------------------------------------------------------------------------- numbers


def values(leaf: Leaf) -> torch.Tensor | None:
    """The values of a leaf, on the CPU; None where they were not kept, or it has none."""
    if leaf.tensor is not None:
        return decode(leaf.tensor)
    if leaf.kind in ("float", "int", "bool"):
        kind = {"float": torch.float64, "int": torch.int64, "bool": torch.bool}[leaf.kind]
        try:
            return torch.tensor(BOOLS.get(leaf.text) or float(leaf.text), dtype=kind)
        except (ValueError, OverflowError):
            return None
    return None


BOOLS = {"True": 1.0, "False": 0.0}


def decode(tensor: ReturnedTensor) -> torch.Tensor | None:
    """The tensor whose bytes were kept; None if they were not."""
    return None if tensor.data is None else numbers(tensor.data, tensor).reshape(tensor.shape)


def sampled(tensor: ReturnedTensor) -> torch.Tensor | None:
    """The elements of a tensor that were kept in place of all."""
    return None if tensor.sample is None else numbers(tensor.sample, tensor)


def numbers(elements: str, tensor: ReturnedTensor) -> torch.Tensor:
    """Bytes of elements of a tensor as numbers."""
    data = bytearray(base64.b64decode(elements))
    dtype: torch.dtype = getattr(torch, tensor.dtype)
    return torch.frombuffer(data, dtype=dtype) if data else torch.empty((0,), dtype=dtype)


def precision(leaf: Leaf) -> float:
    """The distance of 1 from the next number of the leaf's dtype. A float of Python's came out of a
    tensor, and that holds float32 at best unless the program says otherwise."""
    dtype = torch.float32 if leaf.tensor is None else getattr(torch, leaf.tensor.dtype)
    return float(torch.finfo(dtype).eps) if dtype.is_floating_point else 0.0


def ulps(one: torch.Tensor, other: torch.Tensor) -> int:
    """How many steps from number to number of their dtype lie between two tensors, at most over
    all elements.

    Zeros of either sign are one number, and so are all NaNs; infinity follows the largest number.
    Steps between a NaN and a number, and more than 2**62, count as 2**62.
    """
    nan = one.isnan()
    if not torch.equal(nan, other.isnan()):
        return FAR
    here, there = ordered(one), ordered(other)
    far = (here.double() - there.double()).abs() >= FAR
    gaps = (here - there).abs().masked_fill(far, FAR).masked_fill(nan, 0)
    return int(gaps.max()) if gaps.numel() else 0


FAR = 1 << 62


def ordered(tensor: torch.Tensor) -> torch.Tensor:
    """Integers in the order of the floating numbers, next to each other where those are."""
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    number = tensor.contiguous().view(integer).to(torch.int64)
    return torch.where(number < 0, torch.iinfo(integer).min - number, number)


def error(one: torch.Tensor, reference: torch.Tensor) -> float:
    """The distance from the reference, relative to it, in the 2-norm; infinite for NaN."""
    exact = reference.double()
    gap = (one.double() - exact).norm().item()
    size = exact.norm().item() or 1.0
    ratio = gap / size
    return math.inf if math.isnan(ratio) else ratio


def largest_gap(one: torch.Tensor, other: torch.Tensor, shape: Sequence[int], step: int = 1) -> str:
    """The largest absolute difference, where it is, and what the elements are there.

    Args:
        one, other: the elements.
        shape: of the whole tensors.
        step: the distance of the elements from each other there, if they are a sample.
    """
    if one.shape != other.shape:
        return "another shape"
    if not one.numel():
        return "nothing"
    gaps = (one.to(torch.complex128) - other.to(torch.complex128)).abs().flatten()
    at = int(gaps.argmax())  # that of a NaN, if there is one
    gap = f"{gaps[at].item():.3g}"
    if math.prod(shape) == 1:
        return gap
    ours, theirs = (each.flatten()[at].item() for each in (one, other))
    place = [int(each) for each in torch.unravel_index(torch.tensor(at * step), tuple(shape))]
    return f"{gap} at {place}: {ours:.6g} -> {theirs:.6g}"


def brief(leaf: Leaf | None) -> str:
    """A leaf in a few words."""
    if leaf is None:
        return "nothing"
    if leaf.tensor is None:
        return leaf.text or leaf.kind
    tensor = leaf.tensor
    shape = "x".join(map(str, tensor.shape))
    text = f"{tensor.dtype}[{shape}]@{tensor.device}"
    values = decode(tensor)
    if values is not None and values.numel() == 1 and not values.is_complex():
        return f"{text} {values.item():.9g}"
    return text


# ------------------------------------------------------------------------------------- traces


@dataclass(frozen=True)
class Divergence:
    """Where two traces first part: what the one did there, and what the other.

    Either may be empty: an operation was added, or is gone.
    """

    before: tuple[OperationRow, ...]
    after: tuple[OperationRow, ...]


def signature(row: OperationRow) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The identity of an operation, wherever in the text it stands."""
    return row.op, row.inputs, row.outputs


def first_divergence(
    before: Sequence[OperationRow], after: Sequence[OperationRow]
) -> Divergence | None:
    """The first stretch of operations that is not the same; None for traces that are."""
    ours, theirs = list(map(signature, before)), list(map(signature, after))
    pairs = zip_longest(ours, theirs)
    start = next((index for index, (one, other) in enumerate(pairs) if one != other), None)
    if start is None:
        return None
    # A diff of all that follows takes time that is quadratic in it, and only its start is of use.
    window = slice(start, start + WINDOW)
    matcher = difflib.SequenceMatcher(None, ours[window], theirs[window], autojunk=False)
    _, i1, i2, j1, j2 = next(code for code in matcher.get_opcodes() if code[0] != "equal")
    return Divergence(tuple(before[start + i1 : start + i2]), tuple(after[start + j1 : start + j2]))


Place = tuple[str, int]  # a path below the root and a row
# Autocast casts a weight where it is first used in a region: the line changes with the region.
CASTS = ("aten._to_copy.", "aten.copy_.", "aten.to.", "aten.clone.", "aten.detach.")


def operations(rows: Iterable[OperationRow]) -> dict[Place, set[tuple[str, ...]]]:
    """The operations of each line, without casts."""
    by_place: dict[Place, set[tuple[str, ...]]] = {}
    for row in rows:
        if row.path and not row.op.startswith(CASTS):
            by_place.setdefault((row.path, row.row), set()).add(
                (row.op, *row.inputs, "->", *row.outputs)
            )
    return by_place


def draws(rows: Iterable[OperationRow]) -> Counter[tuple[str, str]]:
    """How often each operation drew random numbers on each device."""
    return Counter(
        (family(row.op), row.outputs[0].partition("@")[2].partition(":")[0])
        for row in rows
        if row.outputs and is_seeded(row.op)
    )


def family(op: str) -> str:
    """Ex) "normal" of "aten.normal_.default" """
    return op.split(".")[1].rstrip("_")


@cache
def is_seeded(op: str) -> bool:
    """Whether an operation, as rows name it, draws from a generator."""
    operation: Any = torch.ops
    for part in op.split("."):
        operation = getattr(operation, part, None)
    return torch.Tag.nondeterministic_seeded in getattr(operation, "tags", ())
