"""What the rules about dtypes share: what differs, since where, and what may not be as it seems."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.finding import Related
from amplint.transfer import FLOATS, HALF
from amplint.values import Region, Tensor

if TYPE_CHECKING:
    import libcst as cst

    from amplint.source import Source

DEFAULT_DTYPE = re.compile(r"\bset_default_(dtype|tensor_type)\b")
HALF_DEFAULT = r"^[^#]*\bset_default_(dtype|tensor_type)\(.*([Hh]alf|float16|bfloat16|BFloat16)"


def differ(one: str | None, other: str | None) -> bool:
    """Whether two float dtypes are known to differ, one of them being half."""
    if one not in FLOATS or other not in FLOATS or one == other or not {one, other} & HALF:
        return False
    return not ({one, other} <= HALF and "half" in (one, other))  # either may be the other


def default_may_be_half(src: Source) -> bool:
    """Whether a factory without a dtype may make something else than float32."""
    if DEFAULT_DTYPE.search(src.content.text):
        return True
    set_somewhere = src.mentions("set_default_dtype") or src.mentions("set_default_tensor_type")
    return set_somewhere and src.matches(HALF_DEFAULT)


def enabled_region(node: cst.CSTNode, src: Source) -> Region | None:
    """The autocast region around a node, unless it is certainly off."""
    region = src.region(node)
    return region if region is not None and region.enabled is not False else None


def dtype_places(src: Source, *tensors: Tensor | None) -> tuple[Related, ...]:
    """Why the tensors have their dtypes, each reason once."""
    reasons = [t.settled_dtype for t in tensors if t is not None and t.settled_dtype is not None]
    return tuple(src.related(why) for why in dict.fromkeys(reasons))
