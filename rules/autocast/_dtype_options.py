"""Regions without a dtype, beside a scaler that an option for the dtype switches."""

from __future__ import annotations

import re

from amplint import Autocast, NoGrad, View, constant, only, region_dtype
from amplint import libcst as cst
from amplint.knowledge.libraries import AUTOCASTS, SCALERS
from amplint.knowledge.vocabulary import ASKS_NO_DTYPE, PRECISION

from .._shared.guards import tests_around, tests_before

SETS_DTYPE = ("set_autocast_dtype", "set_autocast_gpu_dtype")


def regions_beside(scaler: View, operator: str) -> list[View]:
    """The calls that open a region in the function where a scaler is made, if an option for the
    dtype switches it, and none of the regions has a dtype or a switch: all are float16, whatever
    the option is.

    Args:
        operator: by which the option is compared: "Eq" with float16, "In" with both kinds of half.
    """
    if not is_switched(scaler, operator) or scaler.mentions(*SETS_DTYPE):
        return []
    regions = [each for each in scaler.operations("call") if each.callee in AUTOCASTS]
    return [] if any(map(is_chosen, regions)) else [*filter(is_always_float16, regions)]


def is_always_float16(region: View) -> bool:
    """Whether a call opens a region that is on, and float16, wherever there is CUDA."""
    atom = only(region.value)
    if not isinstance(atom, Autocast) or not atom.enabled or region_dtype(atom) != "float16":
        return False
    around = (test.operators and ASKS_NO_DTYPE.search(test.text) for test in tests_around(region))
    asks_dtype = (PRECISION.search(test.text) for test in tests_before(region))
    return all(around) and not any(asks_dtype) and not has_no_graph(region)


def is_chosen(region: View) -> bool:
    """Whether a region has a dtype or a switch, or is one of those of a table or a `match`."""
    parameters = AUTOCASTS[region.callee or ""].parameters
    around = region.source.ancestors(region.cst)
    return any(
        region.arg(name, parameters.index(name)) is not None for name in ("dtype", "enabled")
    ) or any(isinstance(each, cst.Dict | cst.Match) for each in around)


def is_switched(call: View, operator: str) -> bool:
    """Ex) GradScaler(enabled=args.dtype == "float16"), where the dtype may be another one"""
    api = SCALERS.get(call.callee or "")
    switch = call.arg("enabled", api.parameters.index("enabled")) if api is not None else None
    if switch is None or switch.origin.operators != (operator,):
        return False
    if operator == "In":
        return all(
            re.search(rf"\b{half}\b", switch.origin.text) for half in ("float16", "bfloat16")
        )
    return sum(map(is_float16, switch.origin.operands)) == 1


def is_float16(dtype: View) -> bool:
    return constant(dtype.value) == "float16" or dtype.text == "torch.float16"


def has_no_graph(at: View) -> bool:
    around = (atom for context in at.contexts_around for atom in context.value)
    is_off = any(isinstance(atom, NoGrad) for atom in around)
    return is_off or (at.tensor is not None and at.tensor.grad is False)
