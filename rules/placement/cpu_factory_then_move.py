"""A tensor is built on the CPU and then moved to the device.

`torch.zeros(n).cuda()` allocates and fills host memory, and copies it over the bus while the host
waits. With `device=`, it is built where it is needed.

    mask = torch.zeros(n).to(x.device)        # built on the host, copied

    mask = torch.zeros(n, device=x.device)    # built on the device

The move may also be a few lines later, if nothing reads the tensor in between, and at most the
tensor whose device it goes to is written into it (`rows[:, :n] = x`, then `rows.to(x.device)`).
Also found are tensors joined from such tensors
(`torch.cat([torch.ones(n), torch.zeros(n)]).to(x.device)`), and constants, or the number of a round
of a loop, that only the device needs:

    zero = torch.tensor(0).to(x.device)               # torch.full((), 0, device=x.device)
    weight = torch.tensor([1.0] * n).to(x.device)     # torch.full((n,), 1.0, device=x.device)

A function of the project may build the tensor from numbers alone, and its caller may move it:

    grid = make_grid(nx, ny).to(x.device)             # give `make_grid` the device

A function of the project that does nothing else may move it, too:

    mask = to_gpu(torch.zeros(n))                     # def to_gpu(x): return x.cuda()

Fix safety: safe for zeros, ones, full, empty, eye, integer arange and a constant, which are the
same on every device. Unsafe for rand and similar functions (another generator: other random
numbers), for linspace, float arange and windows (the last bit may differ), after `expand` (the copy
has separate memory for each element), for a slice (`[::2]`; the copy has no gaps between its
elements), with `requires_grad=True` (the moved tensor is not a leaf, the one built on the device
is), for a constant that a variable repeats, and if only the visible calls show what it is cast to,
compared with or moved to. None after `.type("torch.FloatTensor")` and similar calls, since a tensor
type includes a device; at module level, if the move is on a later line; if another function builds
or moves the tensor; or for a bool, since `torch.jit.trace` cannot record `torch.full` of one.

Known limits: `torch.tensor(data).cuda()` is not reported, because `device=` saves no copy there
(AMP510); a constant that is copied for every batch is AMP502. Not reported are tensors that are
made once and kept (`if self.window is None: self.window = ...`), once an epoch, where a state
dict is loaded or converted, or to test whether there is a device; `.cuda(index)` with an index that
may be None; and calls with `out=`, `pin_memory=True`, `generator=` or `names=`.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    CPU,
    READ,
    Change,
    DType,
    Evidence,
    Finding,
    Fix,
    Function,
    Group,
    Rule,
    Same,
    Tensor,
    View,
    calls,
    calls_of,
)
from amplint import libcst as cst
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.vocabulary import LOADS_STATE

from .._shared.default_device import changes_default_device
from .._shared.factories import Built, built, same_numbers
from .._shared.guards import is_caught, is_kept
from .._shared.host_copies import LEAF, OF_DATA, OF_FILL, Copy, constant_of, filling, moved_copy
from .._shared.moves import Move, is_sole_reader, move_of, without_move
from ._host_built import HostBuilt
from ._moving_helper import MovedByHelper
from ._once_per_epoch import OncePerEpoch

DEFAULT = "torch.Tensor"
CONVERTIBLE = frozenset({"torch.zeros", "torch.ones", "torch.empty"})
VALUES = "every device fills in the same values"
STEPS = "operations before the move have bit-identical results on every device"
OPERANDS = "the other operands are on the host for every caller"
NOT_SHARED = "no elements share memory"
WHOLE = "no part of it is sliced out"
DTYPE = "the dtype of the move, if any, can hold the values"
CERTAIN = "the target of the move is certainly a device"


rule = Rule(
    "AMP501",
    __doc__,
    group=Group.PERFORMANCE,
    help="build it on the device: pass `device=` to the factory, or to the function that calls it",
    witness=Same(),
    safe_if=(VALUES, STEPS, OPERANDS, NOT_SHARED, WHOLE, DTYPE, CERTAIN, *OF_FILL),
    changes=frozenset({Change.ROUNDING, Change.STREAM}),
    supersedes=("AMP201", "AMP508"),
)


@rule.on(calls(".to", ".cuda"))
def check(call: View) -> Iterator[Finding]:
    target, receiver = call.arg("device", 0), call.receiver
    if receiver is None:
        return
    if target is not None and any(isinstance(atom, Tensor | DType) for atom in target.value):
        return
    if (factory := built(receiver, refused=["device"], device=target)) is not None:
        yield from moved_factory(call, factory)
    elif (copy := moved_copy(call, waiting=False)) is not None:
        yield from moved_constant(call, copy)
    elif (place := receiver.ask(HostBuilt)) is not None:
        yield from moved_result(call, receiver, place)


@rule.on(calls_of(Function))
def check_helper(call: View) -> Iterator[Finding]:
    """Ex) to_gpu(torch.zeros(n)), where `to_gpu(x)` returns `x.cuda()`"""
    argument = next((each for _, keyword, each in call.arguments if keyword is None), None)
    place = call.ask(MovedByHelper) if argument is not None and not call.has_star else None
    if argument is None or place is None:
        return
    moved, factory = call.tensor, built(argument, refused=["device"])
    if factory is None or (moved is not None and moved.device == CPU) or is_made_once(call):
        return
    message = f"`{factory.call.called.text}(...)` is built on the CPU and then moved"
    yield factory.call.finding(message, (place,))


def moved_factory(call: View, factory: Built) -> Iterator[Finding]:
    """Ex) torch.zeros(n).to(device)"""
    move = move_of(call)
    if move is None or is_made_once(call):
        return
    message = f"`{factory.call.called.text}(...)` is built on the CPU and then moved"
    fix = create_there(call, factory, move)
    if factory.is_named:
        yield factory.call.finding(message, (call.related("moved to the device here"),), fix)
    else:
        yield call.finding(message, fix=fix)


def moved_result(call: View, receiver: View, place: Evidence) -> Iterator[Finding]:
    """Ex) make_mask(n).to(device), where `make_mask` returns `torch.ones(n, n).tril()`"""
    if move_of(call) is None or is_made_once(call) or changes_default_device(call):
        return
    builder = receiver
    if receiver.op == READ and is_sole_reader(receiver, receiver.origin):
        builder = receiver.origin
    message = f"`{builder.brief}` builds a tensor on the CPU, which is then moved"
    yield call.finding(message, (place,))


def moved_constant(call: View, copy: Copy) -> Iterator[Finding]:
    """Ex) torch.tensor(0).to(d) -> torch.full((), 0, device=d)"""
    name = copy.call.callee
    # Another legacy constructor decides the dtype, too (AMP504).
    if name not in OF_DATA | {DEFAULT} or move_of(call) is None or is_made_once(call):
        return
    constant = constant_of(copy.data)
    if constant is None:
        return
    # `torch.Tensor([1])` is a float, and `torch.full((1,), 1)` is none.
    fix = filling(copy, constant) if name != DEFAULT else None
    yield copy.call.finding(f"`{copy.call.brief}` is built on the CPU and then moved", fix=fix)


def is_made_once(call: View) -> bool:
    """Whether a tensor is made so seldom that the copy does not count: it is kept, or is there to
    see whether it can be made, a loop makes it once an epoch, or weights are loaded."""
    function = call.source.function(call.cst)
    is_loading = isinstance(function, cst.FunctionDef) and LOADS_STATE.search(function.name.value)
    seldom = is_kept(call) or is_probe(call) or call.ask(OncePerEpoch) is True
    return seldom or bool(is_loading)


def create_there(call: View, factory: Built, move: Move) -> Fix | None:
    """Ex) torch.zeros(n).to(d) -> torch.zeros(n, device=d)
    Ex) m = torch.zeros(n); m = m.to(d) -> m = torch.zeros(n, device=d)"""
    source = call.source
    if not factory.alone:
        return None  # what it was compared with may be a tensor on the CPU
    if factory.placed:
        return None  # a type, as in `.type("torch.FloatTensor")`, is on a device, too
    if factory.is_named and source.function(call.cst) is None:
        return None  # functions that are called in between may read a module's names
    if factory.is_named and not source.variables.same_meaning(call.cst, factory.call.cst):
        return None  # what names the device may have another value up there
    if move.dtype is not None and not factory.shaped:
        return None  # the cast belongs after what was done to the values
    if move.device is None or (move.dtype is not None and factory.call.arg("dtype") is not None):
        return None
    dtype = () if move.dtype is None else (f"dtype={move.dtype.text}",)
    device = source.edits.add_argument(factory.call.cst, f"device={move.device}", *dtype)
    return Fix.safe_if(title(factory.name), (device, without_move(call)), conditions(factory, move))


def title(name: str) -> str:
    if FACTORIES[name].values == "random":
        return "Create the tensor on the device (draws different random numbers)"
    return "Create the tensor on the device"


def conditions(factory: Built, move: Move) -> dict[str, bool]:
    return {
        VALUES: same_numbers(factory),
        STEPS: factory.exact,
        OPERANDS: factory.certain,
        NOT_SHARED: not factory.expanded,
        WHOLE: not factory.sliced,
        LEAF: factory.call.arg("requires_grad") is None,
        # A dtype given with the move converts what was filled: a constant that is out of its range
        # would raise.
        DTYPE: move.dtype is None or factory.name in CONVERTIBLE,
        CERTAIN: move.certain,
    }


def is_probe(at: View) -> bool:
    """Whether the node is there to see whether it raises.

    Ex) try: _ = torch.zeros(1).to(device) except RuntimeError: return False
    """
    node, src = at.cst, at.source
    statement = src.parent(node)
    thrown = isinstance(statement, cst.Expr) or src.assigned_name(node) == "_"
    return thrown and is_caught(at)
