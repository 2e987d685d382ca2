"""The modes of `--under`: the precision in which callers out of sight run a library's code.

A maintainer asks what happens to users who train under autocast, or who cast the model as a whole.
`check`, `observe` and the plugin of pytest take the same words.
"""

from __future__ import annotations

from typing import NamedTuple


class Mode(NamedTuple):
    """A precision that callers ask for.

    Args:
        dtype: the half dtype, "float16" or "bfloat16"; "" for the one that the project names.
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


class Assumption(NamedTuple):
    """The assumption of one analysis about callers out of sight.

    Under a mode there are two analyses. In a region, inputs are half in the first one and float32
    in the second, since a library meets both: the first layer of a model is handed float32, and
    what comes out of a layer is half. (Each combination of the dtypes of several inputs was
    tempting, and nobody has asked for the errors that only these show.) Where the module is cast,
    the first one assumes nothing, so that what the second one adds rests on the cast.

    Args:
        mode: what they ask for.
        has_half_inputs: whether the floating-point inputs are half, and float32 else.
    """

    mode: Mode
    has_half_inputs: bool


RUNS_SO = "if this runs under autocast, as the settings say"
"""The condition of what is found in a region that the settings assume."""

IS_FLOAT32 = "is float32 here"
"""The condition of what is found with float32 inputs alone."""

IS_HALF = "is half here, as activations under autocast are"
"""The condition of what is found with half inputs."""
