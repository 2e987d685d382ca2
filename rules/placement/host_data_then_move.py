"""A tensor is built from host data on the CPU and then moved to the device.

`torch.tensor(data, device=device)` does the same in one call. It copies just as much and is only
shorter, so the rule is pedantic. A constant, which the device could fill in by itself, is AMP501.

    tokens = torch.tensor(ids).to(x.device)

    tokens = torch.tensor(ids, device=x.device)

Fix safety: safe if the tensor is moved unchanged, and the target is certainly a device: the same
values, dtype and device. Unsafe if only the visible calls show the target. None if the tensor is
changed before the move, if the move has a dtype, or with `requires_grad=`.

Known limits: legacy constructors (AMP504) and `torch.from_numpy` have no `device=`.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Fix, Group, Rule, Same, Tensor, TensorTree, Unknown, View, calls

from .._shared.host_copies import OF_DATA, constant_of, moved_copy
from .._shared.moves import Move, move_of, without_move

CERTAIN = "the target of the move is certainly a device"

rule = Rule(
    "AMP510",
    __doc__,
    group=Group.PEDANTIC,
    help="pass `device=` to the call that builds the tensor",
    witness=Same(),
    safe_if=(CERTAIN,),
)


@rule.on(calls(".to", ".cuda"))
def check(call: View) -> Iterator[Finding]:
    copy = moved_copy(call)
    if copy is None or copy.call.callee not in OF_DATA:
        return
    if any(isinstance(atom, Tensor | TensorTree | Unknown) for atom in copy.data.value):
        return
    move = move_of(call)
    if move is None or constant_of(copy.data) is not None:
        return
    message = f"`{copy.call.brief}` is built on the CPU, then moved: pass `device=` instead"
    yield copy.call.finding(message, fix=built_there(copy.call, call, move))


def built_there(factory: View, call: View, move: Move) -> Fix | None:
    """Ex) torch.tensor(ids).to(d) -> torch.tensor(ids, device=d)"""
    if move.device is None or move.dtype is not None or call.receiver is None:
        return None
    if call.receiver.origin.cst is not factory.cst:
        return None
    if factory.arg("requires_grad") is not None:
        return None  # the moved tensor is not a leaf, the one that is built there would be
    if not factory.source.variables.same_meaning(call.cst, factory.cst):
        return None  # what names the device may have another value where the tensor is made
    addition = factory.source.edits.add_argument(factory.cst, f"device={move.device}")
    edits = (addition, without_move(call))
    return Fix.safe_if("Build it on the device", edits, {CERTAIN: move.certain})
