"""The calls that belong behind the forward pass, and may leave the region of autocast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import Function, Instance
from amplint import libcst as cst
from amplint.knowledge.factories import FACTORIES

if TYPE_CHECKING:
    from amplint import Source

PASSIVE = frozenset(
    """
    item detach cpu numpy tolist append extend add update parameters named_parameters scale step
    zero_grad unscale_ get_scale state_dict write set_postfix format log info debug
    """.split()
)


def belongs_after(call: cst.Call, src: Source) -> bool:
    """Whether autocast is not meant for a call.

    Ex) scaler.step(optimizer), clip_grad_norm_(...), loss.item(), print(loss)
    """
    name = src.name(call.func)
    if name is not None:
        return name in FACTORIES or name.startswith(("builtins.", "torch.nn.utils.clip_grad"))
    if src.backward(call) is not None:
        return True
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in PASSIVE:
        return False
    return not any(isinstance(atom, Function | Instance) for atom in src.value(call.func))
