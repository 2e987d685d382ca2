"""Which dtype and device several operands agree on, and what autocast makes of the dtype."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from amplint.inference.transfer.kinds import Site
from amplint.knowledge import libraries
from amplint.knowledge.casts import policy
from amplint.knowledge.dtypes import CHOICES, FLOATS, covering, half_on_a_path
from amplint.values.atoms import (
    ACCELERATOR,
    CPU,
    NO_DEVICE,
    Arguments,
    Autocast,
    Device,
    Host,
    Reason,
    Region,
    Sequence,
    Shows,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    first_of,
    ordered,
)
from amplint.values.lattice import NESTS, agreed, join_tensors, normalise, with_inside


def tensors_in(values: Iterable[Value]) -> list[Tensor]:
    """The tensors among the values, those in sequences included; a nest counts as one.

    What a value is on one path and on another is one tensor of which less is known, not two.
    """
    tensors: list[Tensor] = []
    for value in values:
        ways: list[Tensor] = []
        for atom in ordered(value):
            if isinstance(atom, Tensor):
                ways.append(atom)
            elif isinstance(atom, TensorTree):
                ways.append(Tensor(device=atom.device))
            elif isinstance(atom, Sequence):
                inner = atom.items if atom.items is not None else (atom.element,)
                tensors.extend(tensors_in(inner))
        if ways:
            tensors.append(join_tensors(ways))
    return tensors


def common_device(operands: list[Tensor]) -> Device:
    """Where an operation on these runs: only a 0-dim CPU tensor may join tensors elsewhere."""
    elsewhere = [t for t in operands if t.device.kind == ACCELERATOR]
    if elsewhere:
        evidence = first_of(t.device.evidence for t in elsewhere)
        return next(t.device for t in elsewhere if t.device.evidence is evidence)
    hosts = [t for t in operands if t.device.kind == "cpu"]
    if hosts and (len(hosts) == len(operands) or any(t.rank == 1 for t in hosts)):
        return CPU  # in memory of its own, which is not pinned
    return NO_DEVICE


MAX_UNSURE = 3  # operands that may or may not be 0-dim, kept apart in all combinations


def promote(
    operands: list[Tensor], float_result: bool = False, numbers: frozenset[str] = frozenset()
) -> str | None:
    """Native type promotion among tensors; Python numbers never widen a float.

    `numbers`: the kinds of the Python numbers among the operands; they lift integers and bools.

    Tensors with dimensions decide before 0-dim ones of the same category; where that is unknown of
    one, the result is known if it comes to the same.
    """
    unsure = [place for place, tensor in enumerate(operands) if tensor.rank is None]
    if unsure and len({t.dtype for t in operands}) > 1:
        if len(unsure) > MAX_UNSURE:
            return None
        possible = with_ranks(operands, unsure)
        return agreed(promote(ranked, float_result, numbers) for ranked in possible)
    dimensioned = [t.dtype for t in operands if t.rank != 0]
    scalars = [t.dtype for t in operands if t.rank == 0]
    floats = [d for d in dimensioned if d in FLOATS]
    if None in dimensioned or (None in scalars and not floats):
        return None
    floats = floats or [d for d in scalars if d in FLOATS]
    if floats:
        return widest(floats)
    if float_result:
        return "float32"
    candidates = set(dimensioned or scalars)
    if candidates == {"bool"}:  # any integer, with dimensions or not, is of a higher category
        candidates = set(scalars) - candidates or candidates
    return lifted(candidates.pop(), numbers) if len(candidates) == 1 else None


def lifted(dtype: str | None, numbers: frozenset[str]) -> str | None:
    """The dtype of integers or bools after an operation with Python numbers of these kinds."""
    if "float" in numbers:
        return "float32"
    if numbers - {"bool", "int"} or (dtype == "bool" and numbers):
        return "int64" if numbers == {"int"} else None
    return dtype


def with_ranks(operands: list[Tensor], unsure: list[int]) -> Iterator[list[Tensor]]:
    """The operands, with and without dimensions where that is unknown, in all combinations."""
    for ranks in itertools.product((0, 1), repeat=len(unsure)):
        by_number = dict(zip(unsure, ranks, strict=True))
        yield [replace(t, rank=by_number.get(n, t.rank)) for n, t in enumerate(operands)]


def number_kinds(values: Iterable[Value]) -> frozenset[str]:
    """The kinds of host values among the arguments that may be numbers; "?" for what may be any."""
    kinds: set[str] = set()
    for value in values:
        for atom in value:
            if isinstance(atom, Host) and atom.kind not in ("none", "str"):
                kinds.add(atom.kind)
            elif isinstance(atom, Unknown):
                kinds.add("?")
    return frozenset(kinds)


def widest(floats: Iterable[str | None]) -> str | None:
    """The dtype that holds all of these; None where they may be of any width."""
    kinds = set(floats)
    if "float64" in kinds:
        return "float64"
    if "float32" in kinds or {"float16", "bfloat16"} <= kinds:
        return "float32"
    if len({half_on_a_path(kind) for kind in kinds}) > 1 and kinds & CHOICES.keys():
        return None  # two kinds of half, which are float32 together, on a path or on none
    return covering(kinds)


def region_dtype(region: Region | Autocast) -> str:
    """The 16-bit dtype of an enabled region, "half" where it is not known which."""
    if region.dtype is not None:
        return region.dtype
    return libraries.DEFAULT_DTYPES.get(region.device or "", "half")


def without_half(value: Value) -> Value:
    """The value, with tensors of 16 bits taken for tensors of an unknown dtype."""
    if not any(
        atom.half_on_a_path if isinstance(atom, Tensor) else type(atom) in NESTS for atom in value
    ):
        return value
    return normalise(
        replace(atom, dtype=None, dtype_evidence=None, half=None)
        if isinstance(atom, Tensor) and atom.half_on_a_path
        else with_inside(atom, without_half)
        for atom in value
    )


def as_float32(value: Value) -> Value:
    """The value, with tensors of 16 bits cast to float32."""
    return normalise(
        replace(atom, dtype=atom.dtype and "float32", dtype_evidence=None, half=None)
        if isinstance(atom, Tensor) and atom.half_on_a_path
        else with_inside(atom, as_float32)
        for atom in value
    )


def floats_as(dtype: str, evidence: Reason | None, value: Value) -> Value:
    """The value, with float32 tensors cast as their module is."""
    return normalise(
        replace(atom, dtype=dtype, dtype_evidence=evidence)
        if isinstance(atom, Tensor) and atom.dtype == "float32"
        else atom
        for atom in value
    )


def autocast_dtype(
    name: str, operands: list[Tensor], arguments: Arguments, site: Site
) -> tuple[str | None, Reason | None] | None:
    """The dtype of a result under autocast; None where autocast leaves the operation alone."""
    region = site.region
    rule = (
        policy(name, region.device) if region is not None and region.enabled is not False else None
    )
    if region is None or rule is None or rule == "banned":
        return None
    if rule == "unknown":
        return (None, None)
    if runs_elsewhere(region, operands):
        return None
    if any(t.dtype == "float64" for t in operands):
        return (None, None)
    if operands and all(t.dtype is not None and t.dtype not in FLOATS for t in operands):
        return None  # only floating tensors are eligible
    if rule == "half":
        return (region_dtype(region), region.evidence)
    if rule == "fp32" or (rule == "fp32-unless-dtype" and not arguments.has("dtype")):
        return ("float32", site.evidence("autocast runs this in float32", Shows.AUTOCAST))
    if rule == "promote":
        wide = [t for t in operands if t.dtype == "float32"]
        if wide:  # nothing is wider than that, whatever the others are
            return ("float32", first_of([*(t.dtype_evidence for t in wide), region.evidence]))
        if all(t.dtype is not None for t in operands):
            floats = [t.dtype for t in operands if t.dtype in FLOATS]
            return (widest(floats or ["float32"]), region.evidence)
    return (None, None)


def runs_elsewhere(region: Region, operands: list[Tensor]) -> bool:
    """Whether an operation on these is surely one of another device than the region's."""
    elsewhere = "cpu" if region.device not in (None, "cpu") else ACCELERATOR
    return region.device is not None and any(
        t.device.kind == elsewhere and t.rank != 0 for t in operands
    )
