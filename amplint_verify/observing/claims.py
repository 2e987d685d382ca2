"""The rules that a run can decide: by which act, on which back ends, and in which words.

docs/observe.md shows this table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from amplint.knowledge.casts import LAYERS, NO_HALF
from amplint_verify.recording.raised import OF_ANOTHER_PROCESS
from amplint_verify.recording.sightings import Act

DEVICES = ("sim", "cuda")  # they know what is on the device and what on the host
VALUES = ("cuda", "policy", "cpu")  # they know what a tensor holds
ALL = ("sim", *VALUES)


@dataclass(frozen=True)
class ActMeaning:
    """The meaning of an act.

    Args:
        code: of the rule that makes the claim.
        phrase: what was seen, for a message; `{detail}` stands for that of the sighting.
        backends: those that show it.
        every_step: whether it is a mistake only where it is done in most steps.
    """

    code: str
    phrase: str
    backends: tuple[str, ...] = ALL
    every_step: bool = False


CLAIMS: Mapping[Act, ActMeaning] = {
    Act.READ: ActMeaning("AMP101", "made the host wait", DEVICES, every_step=True),
    Act.TRUTH: ActMeaning(
        "AMP103", "made the host wait to test a tensor", DEVICES, every_step=True
    ),
    Act.FORMATTED: ActMeaning(
        "AMP104", "made the host wait to format a tensor", DEVICES, every_step=True
    ),
    Act.AS_NUMBER: ActMeaning(
        "AMP105", "made the host wait for a number on the device", DEVICES, every_step=True
    ),
    Act.SHAPE: ActMeaning(
        "AMP106", "made the host wait for the shape of its result", DEVICES, every_step=True
    ),
    Act.SYNCHRONIZE: ActMeaning("AMP108", "made the host wait for the device", every_step=True),
    Act.EMPTY_CACHE: ActMeaning("AMP111", "released the cached memory", every_step=True),
    Act.MIXED_WHERE: ActMeaning("AMP203", "mixed {detail}: the result is float32"),
    Act.FLOAT64: ActMeaning(
        "AMP208", "mixed {detail}: the result is float64, which autocast does not cast", DEVICES
    ),
    Act.BACKWARD_IN_REGION: ActMeaning("AMP301", "ran in an autocast region of {detail}"),
    Act.STEP_IN_REGION: ActMeaning("AMP303", "stepped in an autocast region of {detail}"),
    Act.STEP_PAST_SCALER: ActMeaning("AMP401", "used gradients that are still scaled"),
    Act.STEP_AGAIN: ActMeaning(
        "AMP401", "stepped again with gradients that the scaler has already used"
    ),
    Act.BACKWARD_PAST_SCALER: ActMeaning(
        "AMP402", "computed gradients of an unscaled loss, which the scaler then divided"
    ),
    Act.STALE_WEIGHTS: ActMeaning("AMP302", "keeps old casts of weights that have changed since"),
    Act.SCALER_MADE: ActMeaning("AMP409", "created a scaler", every_step=True),
    Act.MOVED_FACTORY: ActMeaning(
        "AMP501", "was built on the host and then moved", DEVICES, every_step=True
    ),
    Act.COPIED: ActMeaning("AMP503", "built a tensor from a tensor"),
    Act.SCALED_CLIP: ActMeaning("AMP404", "clipped gradients that are still scaled"),
    Act.BEYOND: ActMeaning("AMP801", "was given {detail}"),
    Act.VANISHING: ActMeaning("AMP802", "used {detail}, which is 0 in float16"),
    Act.ADAM_ON_HALF: ActMeaning(
        "AMP804", "stepped on float16 parameters, where its `eps` of {detail} is 0"
    ),
    # Seen only where there are values: not on sim.
    Act.ROUNDED_INTEGERS: ActMeaning(
        "AMP207", "rounded integers to other integers, in {detail}", VALUES
    ),
    Act.MERGED_POSITIONS: ActMeaning(
        "AMP805", "rounded different positions to the same number, in {detail}", VALUES
    ),
    Act.LOST_ANGLES: ActMeaning(
        "AMP805", "has not one right bit, since {detail} has rounded the angles", VALUES
    ),
    Act.OVERFLOW: ActMeaning(
        "AMP807", "overflowed {detail}; in float32 the result is finite", VALUES
    ),
}

# What torch says where it refuses, and the rule that explains it (torch 2.13). The first that is
# found counts.
REFUSALS: Mapping[str, str] = {
    "Index put requires the source and destination dtypes match": "AMP204",
    "self and source expected to have the same dtype": "AMP204",  # index_copy_
    "must have the same scalar type": "AMP204",  # index_add_
    "Expected self.dtype to be equal to src.dtype": "AMP204",  # scatter_
    "Input type (": "AMP206",  # a convolution
    "RNN input dtype (": "AMP206",
    "mat1 and mat2 must have the same dtype": "AMP206",  # a linear layer
    "self and mat2 must have the same dtype": "AMP206",
    "are unsafe to autocast": "AMP304",  # ATen/autocast_mode.cpp, binary_cross_entropy_banned
    "Low precision dtypes not supported": "AMP313",  # linalg.inv and its kin
    "step() has already been called since the last update()": "AMP403",  # amp/grad_scaler.py
    "unscale_() has already been called": "AMP405",
    "unscale_() is being called after step()": "AMP406",
    "No inf checks were recorded prior to update": "AMP407",
    "Attempting to unscale FP16 gradients": "AMP410",
    "Closure use is not currently supported if GradScaler is enabled": "AMP415",
    "outputs must be a Tensor or an iterable of Tensors": "AMP416",
    "Half without overflow": "AMP801",  # c10/util/TypeCast.h
    "BFloat16 without overflow": "AMP801",
    "Cannot re-initialize CUDA in forked subprocess": "AMP913",  # torch/cuda/__init__.py
    OF_ANOTHER_PROCESS: "AMP913",
}
# Words of a refusal of unequal dtypes. In the backward pass of an `autograd.Function`, which runs
# outside of the region, that is a mistake of its forward pass.
UNEQUAL = ("have the same dtype", "expected scalar type")
OF_FUNCTION = "AMP309"
# Rules whose words stand for other mistakes, too: of float64, or of a device. They speak of half.
ABOUT_HALF = frozenset({"AMP206", OF_FUNCTION})
NAMES_HALF = re.compile(r"half|b?float16", re.IGNORECASE)

# Calls that real kernels refuse. Simulated kernels make them, and are flagged.
FLAGGED: Mapping[str, str] = {
    **dict.fromkeys(("index_add_", "index_copy_", "index_put_", "index_reduce_", "put_"), "AMP204"),
    **dict.fromkeys(LAYERS, "AMP206"),
    **dict.fromkeys(NO_HALF, "AMP313"),
}
