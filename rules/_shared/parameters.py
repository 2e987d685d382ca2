"""Parameters: values that callers may pass for a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import libcst as cst
from amplint import reachable

if TYPE_CHECKING:
    from amplint import View


def is_given(named: View) -> bool:
    """Whether a dotted name begins with a parameter, or a variable that was made of one: then
    callers that are not seen may have it be something else.

    Ex) amp.autocast of `def embed(x, amp): ...`, self.scaler_class, getattr(amp, "autocast")
    """
    return any(each.op == "param" for each in reachable([named.origin], _parts))


def _parts(at: View) -> list[View]:
    """Ex) amp of amp.autocast and of getattr(amp, "autocast")"""
    made_of = {"attr": at.operands[:1], "call": at.operands[1:]}
    return [each.origin for each in made_of.get(at.op, ())]


def holds_argument(at: View) -> bool:
    """Whether a variable may hold what callers pass, be it on one path alone."""
    return _own_parameter(at) is not None


def holds_unannotated(at: View) -> bool:
    """The same, where no annotation says what callers pass."""
    param = _own_parameter(at)
    return param is not None and param.annotation is None


def _own_parameter(at: View) -> cst.Param | None:
    """The parameter of the function that has the name of a variable, unless the variable certainly
    holds something else."""
    node, src = at.cst, at.source
    function = src.function(node)
    if not isinstance(node, cst.Name) or function is None or src.variables.origin(node) is not None:
        return None
    params = (*function.params.posonly_params, *function.params.params)
    named = (*params, *function.params.kwonly_params)
    return next((param for param in named if param.name.value == node.value), None)
