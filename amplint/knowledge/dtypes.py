"""Dtypes by the names that `torch` gives them, in groups.

"half" is no name of torch: it stands for float16 or bfloat16, whichever an autocast region gives.
"""

from __future__ import annotations

HALF = frozenset({"float16", "bfloat16", "half"})
FLOATS = HALF | {"float32", "float64"}
SIGNED_INTEGERS = frozenset({"int8", "int16", "int32", "int64"})
INTEGERS_BEYOND_HALF = SIGNED_INTEGERS - {"int8"}
"""Those with numbers that float16 and bfloat16 round (from 2049 and from 257 on)."""
INTEGRAL = SIGNED_INTEGERS | {"uint8", "bool"}
"""The dtypes of which `.item()` gives an int or a bool."""
