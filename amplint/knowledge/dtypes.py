"""Dtypes by the names that `torch` gives them, in groups.

"half" is no name of torch: it stands for float16 or bfloat16, whichever an autocast region has.
Neither are those of `CHOICES`: they stand for what a flag chooses.
"""

from __future__ import annotations

from collections.abc import Collection

HALF = frozenset({"float16", "bfloat16", "half"})
CHOICES = {f"{half} or float32": half for half in sorted(HALF)}
"""What a tensor is on one path, by what it is on several: `torch.float16 if fp16 else torch.float`.

Two tensors of the same choice need not have the same dtype, for the flags may be others."""
FLOATS = HALF | CHOICES.keys() | {"float32", "float64"}
SIGNED_INTEGERS = frozenset({"int8", "int16", "int32", "int64"})
INTEGERS_BEYOND_HALF = SIGNED_INTEGERS - {"int8"}
"""Those with numbers that float16 and bfloat16 round (from 2049 and from 257 on)."""
INTEGRAL = SIGNED_INTEGERS | {"uint8", "bool"}
"""The dtypes of which `.item()` gives an int or a bool."""


def chosen(names: Collection[str]) -> str | None:
    """The dtype of which one of some names is right; None where that is no dtype.

    Ex) "half or float32" of float16, bfloat16 and float32
    """
    if len(names) == 1:
        return next(iter(names))
    narrow = set(names) - {"float32"}
    if not narrow <= HALF:
        return None
    half = narrow.pop() if len(narrow) == 1 else "half"
    return f"{half} or float32" if "float32" in names else half


def half_on_a_path(dtype: str | None) -> str | None:
    """The 16-bit dtype that a tensor has, or has on one path; None where it has none."""
    return dtype if dtype in HALF else CHOICES.get(dtype or "")
