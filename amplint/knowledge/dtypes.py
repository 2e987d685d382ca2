"""Dtypes by the names that `torch` has for them, in groups; of 16 bits, and of one of several, as
inference has them (`amplint.values.dtypes`)."""

from __future__ import annotations

from amplint.values.dtypes import CHOICES, HALF, NEAR_HALF, alternatives, covering, half_on_a_path

__all__ = [
    "CHOICES",
    "FLOATS",
    "HALF",
    "INTEGERS_BEYOND_HALF",
    "INTEGRAL",
    "OF_DATASETS",
    "SIGNED_INTEGERS",
    "WIDE_FLOATS",
    "alternatives",
    "covering",
    "half_on_a_path",
]

FLOATS = NEAR_HALF | {"float64"}
WIDE_FLOATS = frozenset({"float32", "float64"})
SIGNED_INTEGERS = frozenset({"int8", "int16", "int32", "int64"})
INTEGERS_BEYOND_HALF = SIGNED_INTEGERS - {"int8"}
"""Those with numbers that float16 and bfloat16 round (from 2049 and from 257 on)."""
INTEGRAL = SIGNED_INTEGERS | {"uint8", "bool"}
"""The dtypes of which `.item()` gives an int or a bool."""
OF_DATASETS = frozenset({"float32", "int64"})
"""Those that datasets mostly give: a cast of a batch of unknown dtype to one is taken for none."""
