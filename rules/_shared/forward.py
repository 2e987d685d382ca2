"""The calls that belong behind the forward pass, and may leave the region of autocast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import Function, Instance
from amplint import libcst as cst
from amplint.knowledge.casts import MOVES
from amplint.knowledge.factories import FACTORIES

if TYPE_CHECKING:
    from amplint import Source

PASSIVE = frozenset(
    """
    item detach numpy tolist append extend add update parameters named_parameters scale step
    zero_grad unscale_ get_scale state_dict write set_postfix format log info debug warn warning
    isfinite isinf isnan
    """.split()
).union(each.rpartition(".")[2] for each in MOVES)
# Tests of tensors: https://pytorch.org/docs/stable/amp.html has none of them.
TESTS = ("torch.isfinite", "torch.isinf", "torch.isnan")


def belongs_after(call: cst.Call, src: Source) -> bool:
    """Whether autocast is not meant for a call.

    Ex) scaler.step(optimizer), clip_grad_norm_(...), loss.item(), print(loss)
    """
    name = src.name(call.func)
    if name is not None:
        return name in FACTORIES or name.startswith(
            ("builtins.", "torch.nn.utils.clip_grad", *TESTS)
        )
    if src.backward(call) is not None:
        return True
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in PASSIVE:
        return False
    return not any(isinstance(atom, Function | Instance) for atom in src.value(call.func))
