"""Host data are built into a tensor on the CPU, which is then moved to the device.

`torch.tensor(data, device=device)` says the same in one call. It copies as much: nothing is saved
but the words, hence pedantic. A constant, which the device could fill in by itself, is AMP501.

    tokens = torch.tensor(ids).to(x.device)

    tokens = torch.tensor(ids, device=x.device)

Fix safety: safe where the tensor is moved as it was built, to what certainly is a device: the same
values, dtype and device. Unsafe where only the calls that were seen say what it is moved to. None
where something is done to it before, where a dtype is given with the move, or with
`requires_grad=`.

Known limits: legacy constructors take no device (AMP504), and `torch.from_numpy` takes none either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Finding, Fix, Group, Rule, Same, Spot, Tensor, TensorTree, Unknown, calls
from amplint import libcst as cst

from .._shared.cst_factories import is_built
from .._shared.cst_host_copies import Copy, constant_of, copy_by, is_bare
from .._shared.cst_moves import move_of, without_move
from .._shared.host_copies import OF_DATA

if TYPE_CHECKING:
    from amplint import Source

CERTAIN = "it is moved to what certainly is a device"


def moves_data(at: Spot) -> bool:
    """Ex) torch.tensor(ids).to(device)"""
    return is_built(at, at.receiver, OF_DATA)


rule = Rule(
    "AMP510",
    __doc__,
    group=Group.PEDANTIC,
    since="0.1",
    help="give `device=` to the call that builds the tensor",
    witness=Same(),
    safe_if=(CERTAIN,),
    candidates=calls(".to", ".cuda") & moves_data,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    copy = copy_by(call, src)
    if copy is None or copy.move is copy.made or move_of(call, src) is None:
        return
    data = copy.data.value
    if src.name(copy.made.func) not in OF_DATA or constant_of(data, src) is not None:
        return
    if any(isinstance(atom, Tensor | TensorTree | Unknown) for atom in src.value(data)):
        return
    message = f"`{src.brief(copy.made)}` is built on the CPU, then moved: it takes `device=`"
    yield src.finding(rule, copy.made, message, built_there(copy, src))


def built_there(copy: Copy, src: Source) -> Fix | None:
    """Ex) torch.tensor(ids).to(d) -> torch.tensor(ids, device=d)"""
    move, function = move_of(copy.move, src), copy.move.func
    if move is None or move.device is None or move.dtype is not None:
        return None
    if not isinstance(function, cst.Attribute):
        return None
    if not is_bare(function.value, copy.made, src):
        return None
    if src.keyword(copy.made, "requires_grad") is not None:
        return None  # the moved tensor is not a leaf, the one that is built there would be
    if not src.variables.same_meaning(copy.move, copy.made):
        return None  # what names the device may have another value where the tensor is made
    given = src.edits.add_argument(copy.made, f"device={move.device}")
    removal = without_move(copy.move, function.value, src)
    if given is None or removal is None:
        return None
    return Fix.safe_if("Build it on the device", (given, removal), {CERTAIN: move.certain})
