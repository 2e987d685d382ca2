"""A tensor is built on the CPU and then moved to the device.

`torch.zeros(n).cuda()` allocates and fills host memory, and copies it over the bus while the host
waits. Built with `device=`, it is made where it is needed.

    mask = torch.zeros(n).to(x.device)        # built on the host, copied

    mask = torch.zeros(n, device=x.device)    # built on the device

Also where the move stands a few lines further down, if nothing reads the tensor in between and a
few numbers at most are written into it (`mask[0] = 1`, `mask.fill_(0.5)`); where it is joined of
such tensors (`torch.cat([torch.ones(n), torch.zeros(n)]).to(x.device)`); and for constants, of
which only the device needs to know:

    zero = torch.tensor(0).to(x.device)               # torch.full((), 0, device=x.device)
    weight = torch.tensor([1.0] * n).to(x.device)     # torch.full((n,), 1.0, device=x.device)

And where a function of the project builds it from numbers alone, and the caller moves it:

    grid = make_grid(nx, ny).to(x.device)             # give `make_grid` the device

And, in code that runs for every batch, where each use of the tensor ends in a move, though behind a
branch, in a loop, or in a function of the project that it is given to:

    state = torch.zeros(batch, size)                  # torch.zeros(batch, size, device=x.device)
    for t in range(steps):
        state = self.step(x[:, t], state)             # which begins with `state.to(x.device)`

Fix safety: safe for zeros, ones, full, empty, eye, integer arange and a constant, which are the
same on every device. Unsafe for rand and its kin (another generator: other random numbers), for
linspace, float arange and windows (the last bit may differ), through `expand` (the copy has memory
of its own for each element), of a part (`[::2]`; the copy has no gaps between its elements), with
`requires_grad=True` (the moved tensor is not a leaf, the one built in place is), for a constant
that is repeated as often as a variable says, and where only the calls that were seen say what it is
cast to, compared with or moved to. None after `.type("torch.FloatTensor")` and its like: a tensor
type is on a device, too; nor at module level, where the move is a later line, nor where another
function builds it or moves it, nor for a bool, since `torch.jit.trace` cannot record `torch.full`
of one.

Known limits: `torch.tensor(data).cuda()` is no finding, for `device=` saves no copy there (AMP510);
where it runs for every batch, a constant is one of AMP502. Nothing is said of what is made once and
kept (`if self.window is None: self.window = ...`), once an epoch, or to see whether a device is
there, nor of `.cuda(index)` with an index that may be None, nor of a call with `out=`,
`pin_memory=True`, `generator=` or `names=`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    HOT,
    TRAINING,
    Change,
    DType,
    Edit,
    Finding,
    Fix,
    Group,
    HostBuilt,
    MovedLater,
    OncePerEpoch,
    Rule,
    Same,
    Spot,
    Tensor,
    calls,
)
from amplint import libcst as cst
from amplint.knowledge.factories import BUILDABLE, FACTORIES
from amplint.knowledge.vocabulary import LOADS_STATE

from .._shared.cst_factories import Built, built, changes_default_device, is_built, same_numbers
from .._shared.cst_host_copies import constant_of, copy_by, filling
from .._shared.cst_moves import Move, bound_before, move_of, without_move
from .._shared.guards import is_kept, is_probe
from .._shared.host_copies import OF_DATA

if TYPE_CHECKING:
    from amplint import Source

ALIKE = frozenset(name for name, facts in FACTORIES.items() if facts.device == "like")
DEFAULT = "torch.Tensor"
VALUES = "every device fills in the same values"
STEPS = "what is done before the move has the same bits on every device"
OPERANDS = "what it is done with is of the host for every caller"
NOT_SHARED = "no elements share memory"
WHOLE = "no part of it is taken"
LEAF = "no gradient is asked for"
DTYPE = "the dtype of the move, if any, takes the values"
CERTAIN = "it is moved to what certainly is a device"


def moves_new(at: Spot) -> bool:
    """Ex) torch.zeros(n).to(device)"""
    target = at.of(at.given("device", 0))
    elsewhere = not any(isinstance(atom, Tensor | DType) for atom in target)
    return elsewhere and (
        is_built(at, at.receiver) or is_built(at, at.receiver, OF_DATA | {DEFAULT})
    )


def moves_from_helper(at: Spot) -> bool:
    """Ex) make_mask(n).to(device)"""
    target = at.of(at.given("device", 0))
    if any(isinstance(atom, Tensor | DType) for atom in target):
        return False
    return at.ask(HostBuilt, at.receiver) is not None


rule = Rule(
    "AMP501",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="build it on the device: give `device=` to the factory, or to the function that calls it",
    witness=Same(),
    safe_if=(VALUES, STEPS, OPERANDS, NOT_SHARED, WHOLE, LEAF, DTYPE, CERTAIN),
    changes=frozenset({Change.ROUNDING, Change.STREAM}),
    supersedes=("AMP201", "AMP508"),
    candidates=calls(".to", ".cuda") & (lambda at: moves_new(at) or moves_from_helper(at))
    | calls(*BUILDABLE, *ALIKE) & HOT & (lambda at: at.ask(MovedLater) is not None),
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    move = move_of(call, src)
    if move is None or not isinstance(call.func, cst.Attribute):
        return
    made = built(call.func.value, src, refused=["device"])
    if made is None or is_made_once(call, src):
        return
    message = f"`{src.text(made.call.func)}(...)` is built on the CPU and then moved"
    fix = create_there(call, call.func.value, made, move, src)
    if not made.names:
        yield src.finding(rule, call, message, fix, ())
    else:
        related = (src.related_node(call, "moved to the device here"),)
        yield src.finding(rule, made.call, message, fix, related)


@rule.check
def check_helper(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) make_mask(n).to(device), where `make_mask` returns `torch.ones(n, n).tril()`"""
    if move_of(call, src) is None or not isinstance(call.func, cst.Attribute):
        return
    if built(call.func.value, src, refused=["device"]) is not None:
        return  # which `check` reports
    place = src.ask(HostBuilt, call.func.value)
    if place is None or is_made_once(call, src):
        return
    made = call.func.value
    if isinstance(made, cst.Name):
        made = bound_before(made, src) or made
    if not changes_default_device(src):
        message = f"`{src.brief(made)}` builds a tensor on the CPU, which is then moved"
        yield src.finding(rule, call, message, None, (src.related(place),))


@rule.check
def check_later(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) h = torch.zeros(n); for x in rows: h = cell(x, h), where `cell` moves what it is given"""
    move = src.ask(MovedLater, call)
    heat = src.heat(call)
    if move is None or heat is None or heat.temperature != TRAINING:
        return
    if is_made_once(call, src) or changes_default_device(src):
        return
    message = f"`{src.text(call.func)}(...)` is built on the CPU and then moved"
    yield src.finding(rule, call, message, None, (src.related(move),))


@rule.check
def check_constant(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) torch.tensor(0).to(d) -> torch.full((), 0, device=d)"""
    copy = copy_by(call, src)
    if copy is None or copy.move is copy.made or move_of(call, src) is None:
        return
    if is_made_once(call, src):
        return
    constant = constant_of(copy.data.value, src)
    name = src.name(copy.made.func)
    if constant is None or name not in OF_DATA | {DEFAULT}:
        return  # another legacy constructor decides the dtype, too (AMP504)
    # `torch.Tensor([1])` is a float, and `torch.full((1,), 1)` is none.
    made = filling(copy, constant, src) if name != DEFAULT else None
    fix = None
    if made is not None:
        conditions = {
            VALUES: constant.is_counted and made.is_literal and made.fits,
            STEPS: made.is_bare is True,
            LEAF: src.keyword(copy.made, "requires_grad") is None,
            CERTAIN: made.is_placed is True,
        }
        fix = Fix.safe_if("Fill the number in on the device", made.edits, conditions)
    message = f"`{src.brief(copy.made)}` is built on the CPU and then moved"
    yield src.finding(rule, copy.made, message, fix)


def is_made_once(call: cst.Call, src: Source) -> bool:
    """Whether a tensor is made so seldom that the copy does not count: it is kept, or is there to
    see whether it can be made, a loop makes it once an epoch, or weights are loaded."""
    function = src.function(call)
    is_loading = isinstance(function, cst.FunctionDef) and LOADS_STATE.search(function.name.value)
    seldom = is_kept(call, src) or is_probe(call, src) or src.ask(OncePerEpoch, call) is True
    return seldom or bool(is_loading)


def create_there(
    call: cst.Call, receiver: cst.BaseExpression, made: Built, move: Move, src: Source
) -> Fix | None:
    """Ex) torch.zeros(n).to(d) -> torch.zeros(n, device=d)
    Ex) m = torch.zeros(n); m = m.to(d) -> m = torch.zeros(n, device=d)"""
    if not made.alone:
        return None  # what it was compared with may be a tensor on the CPU
    if made.placed:
        return None  # a type, as in `.type("torch.FloatTensor")`, is on a device, too
    if made.names and src.function(call) is None:
        return None  # functions that are called in between may read a module's names
    if made.names and not src.variables.same_meaning(call, made.call):
        return None  # what names the device may have another value up there
    if move.dtype is not None and not made.shaped:
        return None  # the cast belongs after what was done to the values
    device = add_device(made.call, move, src)
    if device is None:
        return None
    removal = without_move(call, receiver, src)
    if removal is None:
        return None
    return Fix.safe_if(title(made.name), (device, removal), conditions(made, move, src))


def add_device(made: cst.Call, move: Move, src: Source) -> Edit | None:
    if move.device is None or (move.dtype is not None and src.keyword(made, "dtype") is not None):
        return None
    dtype = () if move.dtype is None else (f"dtype={move.dtype}",)
    return src.edits.add_argument(made, f"device={move.device}", *dtype)


def title(name: str) -> str:
    if FACTORIES[name].values == "random":
        return "Create the tensor on the device (other random numbers)"
    return "Create the tensor on the device"


def conditions(made: Built, move: Move, src: Source) -> dict[str, bool]:
    return {
        VALUES: same_numbers(made, src),
        STEPS: made.exact,
        OPERANDS: made.certain,
        NOT_SHARED: not made.expanded,
        WHOLE: not made.sliced,
        LEAF: src.keyword(made.call, "requires_grad") is None,
        # A dtype given with the move converts what was filled: a constant that is out of its range
        # would raise.
        DTYPE: move.dtype is None or made.name in CONVERTIBLE,
        CERTAIN: move.certain,
    }


CONVERTIBLE = frozenset({"torch.zeros", "torch.ones", "torch.empty"})
