"""`scaler.scale` gets a number instead of a loss.

`scaler.scale(loss.item())` raises ("outputs must be a Tensor or an iterable of Tensors"): a number
has no graph for a backward pass. A scaler that is switched off returns the number, and then
`.backward()` raises.

    scaler.scale(loss.item()).backward()             # raises

    scaler.scale(loss).backward()

Fix safety: safe if the line can only raise, and nothing catches the error: the scaler is made by
torch in the same function, and the number is certainly read from a tensor. Otherwise unsafe.

Known limits: a number from a function of another library is not recognised.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Fix, Group, Host, Raises, Rule, View, calls, only
from amplint import libcst as cst
from amplint.knowledge.libraries import SCALERS

from .._shared.guards import is_caught
from .._shared.scalers import scaler_at
from .._shared.tensors import is_surely_tensor

SCALER = "the scaler is made by torch in this function: the line can only raise"
TENSOR = "the number is read from a tensor for every caller"
UNCAUGHT = "nothing around it catches the error"

rule = Rule(
    "AMP416",
    __doc__,
    group=Group.CORRECTNESS,
    help="scale the loss itself, not a number that was read from it",
    witness=Raises("outputs must be a Tensor or an iterable of Tensors"),
    safe_if=(SCALER, TENSOR, UNCAUGHT),
    supersedes=("AMP101",),
)


@rule.on(calls(".scale"))
def check(call: View) -> Iterator[Finding]:
    scaler, arguments = scaler_at(call.receiver), list(call.arguments)
    if scaler is None or len(arguments) != 1:
        return
    [(_, _, loss)] = arguments
    atom = only(loss.value)
    if not isinstance(atom, Host) or atom.kind not in ("int", "float", "number"):
        return
    if scaler.enabled is False and not isinstance(call.source.parent(call.cst), cst.Attribute):
        return
    message = f"`{call.brief}` scales a number, which cannot be backpropagated"
    if is_item(loss):
        yield loss.finding(message, fix=tensor(call, loss))
    else:
        yield call.finding(message)


def is_item(loss: View) -> bool:
    """Ex) loss.item()"""
    return loss.op == "call" and loss.method == "item" and not any(loss.arguments)


def tensor(call: View, loss: View) -> Fix | None:
    """Ex) scaler.scale(loss.item()).backward() -> scaler.scale(loss).backward()"""
    src, read = call.source, loss.receiver
    after = src.parent(call.cst)
    if read is None or not isinstance(after, cst.Attribute):
        return None
    conditions = {
        SCALER: after.attr.value == "backward" and is_made_here(call),
        TENSOR: is_surely_tensor(read),
        UNCAUGHT: not is_caught(call),
    }
    edit = src.edits.remove_between(read.cst, loss.cst)
    return Fix.safe_if("Scale the loss itself", (edit,), conditions)


def is_made_here(call: View) -> bool:
    """Ex) scaler = torch.amp.GradScaler("cuda"), of whatever is switched off and on"""
    scaler = call.cst.func.value
    origin = call.source.variables.origin(scaler) if isinstance(scaler, cst.Name) else None
    name = call.of(origin).callee if origin is not None else None
    return name is not None and name in SCALERS and name.startswith("torch.")
