"""Dtypes of 16 bits, and what covers several dtypes: of paths that meet, or of a flag.

"half" is no name of torch: it stands for float16 or bfloat16, whichever an autocast region has.
Neither are those of `CHOICES`: they stand for what a flag, or a path, chooses.
"""

from __future__ import annotations

from collections.abc import Set

HALF = frozenset({"float16", "bfloat16", "half"})
CHOICES = {f"{half} or float32": half for half in sorted(HALF)}
"""What a tensor is on one path, by what it is on several: `torch.float16 if fp16 else torch.float`,
or `linear(x) if deep else x.float()`.

Two tensors of the same choice need not have the same dtype, for the paths may be others."""
NEAR_HALF = HALF | CHOICES.keys() | {"float32"}


def half_on_a_path(dtype: str | None) -> str | None:
    """The 16-bit dtype that a tensor has, or has on one path; None where it has none."""
    return dtype if dtype in HALF else CHOICES.get(dtype or "")


def alternatives(dtype: str) -> frozenset[str]:
    """The dtypes of torch of which a tensor may have any.

    Ex) float16, bfloat16 and float32, of "half or float32"
    """
    half = half_on_a_path(dtype)
    if half is None:
        return frozenset({dtype})
    halves = HALF - {"half"} if half == "half" else {half}
    return frozenset({*halves, "float32"} if dtype in CHOICES else halves)


def covering(names: Set[str | None]) -> str | None:
    """The dtype that a tensor has which is of one of these on each path: the same, half of either
    kind, or a choice; None where it may be any.

    Ex) "float16 or float32" of float16 and float32, and of that choice and float16
    """
    if len(names) == 1:
        return next(iter(names))
    halves = {half_on_a_path(name) for name in names} - {None}
    if not halves or not names <= NEAR_HALF:
        return None
    half = halves.pop() if len(halves) == 1 else "half"
    return half if names <= HALF else f"{half} or float32"
