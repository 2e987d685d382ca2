"""Parameters: values that callers may pass for a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import View


def holds_unannotated(at: View) -> bool:
    """Whether a variable may hold what callers pass for a parameter that has no annotation."""
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
