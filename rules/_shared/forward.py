"""Losses and backward passes: they belong behind the forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import Function, Instance
from amplint.knowledge.casts import MOVES
from amplint.knowledge.factories import FACTORIES

if TYPE_CHECKING:
    from amplint import View

PASSIVE = frozenset(
    """
    item detach numpy tolist append extend add update parameters named_parameters scale step
    zero_grad unscale_ get_scale state_dict write set_postfix format log info debug warn warning
    isfinite isinf isnan
    """.split()
).union(each.rpartition(".")[2] for each in MOVES)
# Tests of tensors: https://pytorch.org/docs/stable/amp.html has none of them.
TESTS = ("torch.isfinite", "torch.isinf", "torch.isnan")


def belongs_after(call: View) -> bool:
    """Whether a call belongs behind the forward pass: autocast is not meant for it.

    Ex) scaler.step(optimizer), clip_grad_norm_(...), loss.item(), print(loss)
    """
    name = call.callee
    if name is not None and not name.startswith("Tensor."):
        return name in FACTORIES or name.startswith(
            ("builtins.", "torch.nn.utils.clip_grad", *TESTS)
        )
    if call.backward is not None:
        return True
    if call.method not in PASSIVE:
        return False
    return not any(isinstance(atom, Function | Instance) for atom in call.operands[0].value)
