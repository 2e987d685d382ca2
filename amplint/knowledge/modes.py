"""The modes of `--under`: the precision in which callers out of sight run a library's code.

A maintainer asks what happens to users who train under autocast, or who cast the model as a whole.
`check`, `observe` and the plugin of pytest take the same words.
"""

from __future__ import annotations

from typing import NamedTuple


class Mode(NamedTuple):
    """A precision that callers ask for.

    Args:
        dtype: the half dtype, "float16" or "bfloat16".
        is_region: whether they open an autocast region of that dtype; else they cast the module and
            its floating-point inputs.
    """

    dtype: str
    is_region: bool


MODES = {
    "autocast-float16": Mode("float16", is_region=True),
    "autocast-bfloat16": Mode("bfloat16", is_region=True),
    "float16": Mode("float16", is_region=False),
    "bfloat16": Mode("bfloat16", is_region=False),
}
