"""A tensor is built on the CPU and then moved to the device.

`torch.zeros(n).cuda()` allocates and fills host memory, and copies it over the bus while the host
waits. Built with `device=`, it is made where it is needed.

    mask = torch.zeros(n).to(x.device)        # built on the host, copied

    mask = torch.zeros(n, device=x.device)    # built on the device

Also where the move stands a few lines further down, if nothing reads the tensor in between.

Fix safety: safe for zeros, ones, full, empty, eye and integer arange, which are the same on every
device. Unsafe for rand and its kin (another generator: other random numbers), for linspace, float
arange and windows (the last bit may differ), and with `requires_grad=True` (the moved tensor is not
a leaf, the one built in place is).

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
from amplint.moves import Move, made_before, move_of
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

REFUSED = ("device", "out", "pin_memory", "generator", "names", "layout")
# What these give is the same numbers, on whatever device.
SHAPE_METHODS = frozenset(
    {"unsqueeze", "squeeze", "view", "reshape", "expand", "repeat", "t", "transpose", "permute"}
)
FROM_DATA = frozenset({"data", "arg"})  # dtype words of factories that copy host data


@rule.on(cst.Call)
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    move = move_of(call, src)
    if move is None or src.function(call) is None or not isinstance(call.func, cst.Attribute):
        return
    receiver = call.func.value
    if isinstance(receiver, cst.Call):
        made = reshaped(receiver)
        if (name := factory(made, src)) is not None:
            fix = create_there(call, receiver, made, name, move, src)
            yield report(call, made, src, fix)
    elif isinstance(receiver, cst.Name):
        earlier = made_before(receiver, src)
        if earlier is not None and (name := factory(earlier, src)) is not None:
            fix = create_there_earlier(call, receiver, earlier, name, move, src)
            yield report(earlier, earlier, src, fix, call)


def report(
    place: cst.Call, made: cst.Call, src: Source, fix: Fix | None, moved: cst.Call | None = None
) -> Finding:
    message = f"`{src.text(made.func)}(...)` is built on the CPU and then moved"
    related = () if moved is None else (src.related_node(moved, "moved to the device here"),)
    return src.finding(rule, place, message, fix, related)


def reshaped(call: cst.Call) -> cst.Call:
    """Ex) torch.arange(n) of torch.arange(n).unsqueeze(0)"""
    while (
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value in SHAPE_METHODS
        and isinstance(call.func.value, cst.Call)
    ):
        call = call.func.value
    return call


def factory(call: cst.Call, src: Source) -> str | None:
    """The name of the factory that the call is, if it could build the tensor on a device."""
    name = src.name(call.func)
    facts = FACTORIES.get(name) if name is not None else None
    if name is None or facts is None or facts.device != "default" or not facts.takes_device:
        return None
    if facts.dtype in FROM_DATA or any(arg.star == "**" for arg in call.args):
        return None
    if src.mentions("set_default_device") or src.mentions("set_default_tensor_type"):
        return None  # then it may not be built on the CPU at all
    if any(src.keyword(call, refused) is not None for refused in REFUSED):
        return None
    return name


def create_there(
    call: cst.Call, receiver: cst.Call, made: cst.Call, name: str, move: Move, src: Source
) -> Fix | None:
    """Ex) torch.zeros(n).to(d) -> torch.zeros(n, device=d)"""
    device = add_device(made, move, src)
    if device is None:
        return None
    edits: tuple[Edit, ...] = (device, src.remove_between(receiver, call))
    return Fix(title(name), edits, safety(made, name, move, src))


def create_there_earlier(
    call: cst.Call, read: cst.Name, made: cst.Call, name: str, move: Move, src: Source
) -> Fix | None:
    """Ex) m = torch.zeros(n); m = m.to(d) -> m = torch.zeros(n, device=d)"""
    if not src.same_meaning(call, made):
        return None  # what names the device may have another value up there
    device = add_device(made, move, src)
    if device is None:
        return None
    statement = src.assignment(call)
    if statement is not None and src.assigned_name(call) == read.value:
        removal = src.remove_statement(statement)
    else:
        removal = src.remove_between(read, call)
    return Fix(title(name), (device, removal), safety(made, name, move, src)) if removal else None


def add_device(made: cst.Call, move: Move, src: Source) -> Edit | None:
    if move.dtype is not None and src.keyword(made, "dtype") is not None:
        return None
    dtype = f", dtype={move.dtype}" if move.dtype is not None else ""
    return src.add_argument(made, f"device={move.device}{dtype}")


def title(name: str) -> str:
    if FACTORIES[name].values == "random":
        return "Create the tensor on the device (other random numbers)"
    return "Create the tensor on the device"


def safety(made: cst.Call, name: str, move: Move, src: Source) -> Safety:
    exact = FACTORIES[name].deterministic
    if name == "torch.arange":
        atom = only(src.value(made))
        exact = isinstance(atom, Tensor) and atom.dtype == "int64"
    leaf = src.keyword(made, "requires_grad") is not None
    # A dtype given with the move converts what was filled: an out-of-range constant would raise.
    converted = move.dtype is not None and name not in CONVERTIBLE
    return Safety.SAFE if exact and not leaf and not converted and move.certain else Safety.UNSAFE


CONVERTIBLE = frozenset({"torch.zeros", "torch.ones", "torch.empty"})
