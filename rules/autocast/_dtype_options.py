"""Regions without a dtype, beside a scaler that an option for the dtype switches."""

from __future__ import annotations

import re

from amplint import Autocast, NoGrad, View, constant, only, region_dtype
from amplint.knowledge.libraries import AUTOCASTS, SCALERS
from amplint.knowledge.vocabulary import ASKS_NO_DTYPE, PRECISION

from .._shared.guards import tests_around, tests_before

SETS_DTYPE = ("set_autocast_dtype", "set_autocast_gpu_dtype")


def scaler_of_option(region: View, operator: str) -> View | None:
    """The call that makes a scaler in the function of a region, where an option for the dtype
    switches it and no region of the function has a dtype: each is float16, whatever the option is.

    Args:
        operator: by which the option is compared: "Eq" with float16, "In" with both kinds of half.
    """
    if not is_always_float16(region) or region.mentions(*SETS_DTYPE):
        return None
    calls_here = [*region.operations("call")]
    if any(map(has_dtype, calls_here)):
        return None
    return next((each for each in calls_here if is_switched(each, operator)), None)


def is_always_float16(region: View) -> bool:
    """Whether a call opens a region that is on, and float16, wherever there is CUDA."""
    atom = only(region.value)
    if not isinstance(atom, Autocast) or not atom.enabled or region_dtype(atom) != "float16":
        return False
    around = (test.operators and ASKS_NO_DTYPE.search(test.text) for test in tests_around(region))
    asks_dtype = (PRECISION.search(test.text) for test in tests_before(region))
    return all(around) and not any(asks_dtype) and not has_no_graph(region)


def has_dtype(call: View) -> bool:
    api = AUTOCASTS.get(call.callee or "")
    return api is not None and call.arg("dtype", api.parameters.index("dtype")) is not None


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
