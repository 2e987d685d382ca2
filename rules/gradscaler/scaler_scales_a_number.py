"""`scaler.scale` is given a number instead of a loss.

`scaler.scale(loss.item())` raises ("outputs must be a Tensor or an iterable of Tensors"): a number
has no graph to run back through. A scaler that is switched off hands the number through, and it is
`.backward()` that raises.

    scaler.scale(loss.item()).backward()             # raises

    scaler.scale(loss).backward()

Fix safety: safe where the line can only raise, and nothing catches that: the scaler is made by
torch in the same function, and the number is certainly read from a tensor. Else unsafe.

Known limits: a number that comes from a function of another library is not known to be one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Finding, Fix, Group, Host, Object, Raises, Rule, Spot, calls, only
from amplint import libcst as cst
from amplint.knowledge.libraries import SCALERS

from .._shared.guards import is_caught
from .._shared.tensors import surely_tensor

if TYPE_CHECKING:
    from amplint import Source

SCALER = "the scaler is made by torch in this function: the line can only raise"
TENSOR = "the number is read from a tensor for every caller"
UNCAUGHT = "nothing around it catches the error"


def scales_number(at: Spot) -> bool:
    scaler, given = only(at.of(at.receiver)), [only(at.of(each)) for each in at.arguments]
    is_scaler = isinstance(scaler, Object) and scaler.kind == "scaler"
    return is_scaler and any(isinstance(atom, Host) for atom in given)


rule = Rule(
    "AMP416",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="scale the loss itself, not a number that was read from it",
    witness=Raises("outputs must be a Tensor or an iterable of Tensors"),
    safe_if=(SCALER, TENSOR, UNCAUGHT),
    supersedes=("AMP101",),
    candidates=calls(".scale") & scales_number,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    function = call.func
    if not isinstance(function, cst.Attribute) or function.attr.value != "scale":
        return
    scaler = only(src.value(function.value))
    if not isinstance(scaler, Object) or scaler.kind != "scaler" or len(call.args) != 1:
        return
    given = only(src.value(call.args[0].value))
    if not isinstance(given, Host) or given.kind not in ("int", "float", "number"):
        return
    loss = call.args[0].value
    backward = isinstance(src.parent(call), cst.Attribute)
    if scaler.enabled is False and not backward:
        return
    message = f"`{src.brief(call)}` scales a number, which cannot be backpropagated"
    yield src.finding(rule, loss if is_item(loss) else call, message, tensor(call, loss, src))


def is_item(loss: cst.BaseExpression) -> bool:
    """Ex) loss.item()"""
    return (
        isinstance(loss, cst.Call)
        and isinstance(loss.func, cst.Attribute)
        and loss.func.attr.value == "item"
        and not loss.args
    )


def tensor(call: cst.Call, loss: cst.BaseExpression, src: Source) -> Fix | None:
    """Ex) scaler.scale(loss.item()).backward() -> scaler.scale(loss).backward()"""
    after = src.parent(call)
    if not isinstance(loss, cst.Call) or not isinstance(loss.func, cst.Attribute):
        return None
    if not is_item(loss) or not isinstance(after, cst.Attribute):
        return None
    edit = src.edits.remove_between(loss.func.value, loss)
    conditions = {
        SCALER: after.attr.value == "backward" and is_made_here(call, src),
        TENSOR: surely_tensor(loss.func.value, src),
        UNCAUGHT: not is_caught(call, src),
    }
    return Fix.safe_if("Scale the loss itself", (edit,), conditions)


def is_made_here(call: cst.Call, src: Source) -> bool:
    """Ex) scaler = torch.amp.GradScaler("cuda"), of whatever is switched off and on"""
    scaler = call.func.value if isinstance(call.func, cst.Attribute) else call.func
    made = src.origin(scaler) if isinstance(scaler, cst.Name) else None
    name = src.name(made.func) if isinstance(made, cst.Call) else None
    return name is not None and name in SCALERS and name.startswith("torch.")
