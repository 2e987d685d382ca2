"""A tensor is built on the CPU and then moved to the device.

`torch.zeros(n).cuda()` allocates and fills host memory, and copies it over the bus while the host
waits. Built with `device=`, it is made where it is needed.

    mask = torch.zeros(n).to(x.device)        # built on the host, copied

    mask = torch.zeros(n, device=x.device)    # built on the device

Also where the move stands a few lines further down, if nothing reads the tensor in between.

Fix safety: safe for zeros, ones, full, empty, eye and integer arange, which are the same on every
device. Unsafe for rand and its kin (another generator: other random numbers), for linspace, float
arange and windows (the last bit may differ), through `expand` (the copy has memory of its own for
each element), and with `requires_grad=True` (the moved tensor is not a leaf, the one built in place
is).

Known limits: `torch.tensor(data).cuda()` is no finding, for `device=` saves no copy there; nor is
`.cuda(index)` with an index that may be None, nor a call with `out=`, `pin_memory=True`,
`generator=` or `names=`, nor module-level code, which runs once.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amplint import (
    Edit,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Same,
    Source,
    Tensor,
    only,
)
from amplint.factories import Built, built, built_before
from amplint.moves import Move, move_of
from amplint.torch_ops import FACTORIES

rule = Rule(
    "AMP501",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    witness=Same(),
    words=frozenset({"cuda", "to"}),
    outranks=("AMP201", "AMP508"),
)


@rule.on(cst.Call)
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    move = move_of(call, src)
    if move is None or src.function(call) is None or not isinstance(call.func, cst.Attribute):
        return
    receiver = call.func.value
    if isinstance(receiver, cst.Call):
        made = built(receiver, src, refused=["device"])
        if made is not None:
            fix = create_there(call, receiver, made, move, src)
            yield report(call, made, src, fix)
    elif isinstance(receiver, cst.Name):
        made = built_before(receiver, src, refused=["device"])
        if made is not None:
            fix = create_there_earlier(call, receiver, made, move, src)
            yield report(made.call, made, src, fix, call)


def report(
    place: cst.Call, made: Built, src: Source, fix: Fix | None, moved: cst.Call | None = None
) -> Finding:
    message = f"`{src.text(made.call.func)}(...)` is built on the CPU and then moved"
    related = () if moved is None else (src.related_node(moved, "moved to the device here"),)
    return src.finding(rule, place, message, fix, related)


def create_there(
    call: cst.Call, receiver: cst.Call, made: Built, move: Move, src: Source
) -> Fix | None:
    """Ex) torch.zeros(n).to(d) -> torch.zeros(n, device=d)"""
    device = add_device(made.call, move, src)
    if device is None:
        return None
    edits: tuple[Edit, ...] = (device, src.remove_between(receiver, call))
    return Fix(title(made.name), edits, safety(made, move, src))


def create_there_earlier(
    call: cst.Call, read: cst.Name, made: Built, move: Move, src: Source
) -> Fix | None:
    """Ex) m = torch.zeros(n); m = m.to(d) -> m = torch.zeros(n, device=d)"""
    if not src.same_meaning(call, made.call):
        return None  # what names the device may have another value up there
    device = add_device(made.call, move, src)
    if device is None:
        return None
    statement = src.assignment(call)
    if statement is not None and src.assigned_name(call) == read.value:
        removal = src.remove_statement(statement)
    else:
        removal = src.remove_between(read, call)
    return Fix(title(made.name), (device, removal), safety(made, move, src)) if removal else None


def add_device(made: cst.Call, move: Move, src: Source) -> Edit | None:
    if move.dtype is not None and src.keyword(made, "dtype") is not None:
        return None
    dtype = f", dtype={move.dtype}" if move.dtype is not None else ""
    return src.add_argument(made, f"device={move.device}{dtype}")


def title(name: str) -> str:
    if FACTORIES[name].values == "random":
        return "Create the tensor on the device (other random numbers)"
    return "Create the tensor on the device"


def safety(made: Built, move: Move, src: Source) -> Safety:
    exact = FACTORIES[made.name].deterministic and not made.expanded
    if made.name == "torch.arange":
        atom = only(src.value(made.call))
        exact = isinstance(atom, Tensor) and atom.dtype == "int64" and not made.expanded
    leaf = src.keyword(made.call, "requires_grad") is not None
    # A dtype given with the move converts what was filled: an out-of-range constant would raise.
    converted = move.dtype is not None and made.name not in CONVERTIBLE
    return Safety.SAFE if exact and not leaf and not converted and move.certain else Safety.UNSAFE


CONVERTIBLE = frozenset({"torch.zeros", "torch.ones", "torch.empty"})
