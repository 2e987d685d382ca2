"""A constant on the host is copied to the device for every batch.

`torch.tensor(data, device="cuda")` builds the tensor on the host and copies it; the memory is not
pinned, so the host waits until the device has caught up and the copy is done. Once per step, that
costs as much as an `.item()`.

    loss = torch.tensor(0.0, device=device)                # a copy, and a wait

    loss = torch.full((), 0.0, device=device)              # filled in by the device

    for x, y in loader:
        weight = torch.tensor([0.3, 0.7], device=device)   # a copy in every step

    weight = torch.tensor([0.3, 0.7], device=device)       # a copy
    for x, y in loader:

In a module, a list that never changes is a buffer: `self.register_buffer("weight",
torch.tensor([0.3, 0.7]), persistent=False)`. Often a Python number will do: `torch.where(mask, x,
0.0)`, and `math.prod(x.shape)` for `torch.tensor(x.shape, device=x.device).prod()`. Reported are
numbers, which never need the copy; lists that are the same in every iteration, because they consist
of constants, options, configuration values, or fields that only the constructor of a module sets
(or of another object that is created before the loop); a tensor that is computed from such a list
on the CPU and then moved; shapes; and a number that is assigned to one element of a tensor. This
assignment is a copy, while a slice is filled on the device (run on an H200 with torch 2.11: `x[0,
0] = 1.0` waits for a tensor with two dimensions, and `x[0] = 1.0` does not).

    losses[step] = 0.0             # losses has one dimension: a copy, and a wait

    losses[step].fill_(0.0)        # filled in by the device

Fix safety: for a literal, `torch.full((), ...)` is safe: the same value, dtype and device. Unsafe
if the number is not known, because `torch.full` raises on numbers that float32 cannot hold; for
`x.new_tensor(...)` in a project with sparse or nested tensors, which have no `new_full`, or with
tensor subclasses, whose `new_full` may differ; with `requires_grad=` and a move, whose result is
not a leaf, or if the project mentions `torch.jit`, since TorchScript does not accept it for
`torch.full`; with a dtype in the move, which then rounds once instead of twice; with arithmetic
before the move, whose last bit may differ; and if a list is built before the loop, because every
iteration then uses the same tensor. No fix for a bool, since `torch.jit.trace` cannot record
`torch.full` of one.

Known limits: lists whose elements may change (such as sizes), copies with `non_blocking=True`,
cached tensors, and values that were read from the device just before (AMP101) are not reported. An
element is reported only if the function itself has created the tensor, and its number of dimensions
is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    HOT,
    READ,
    UNKNOWN,
    Change,
    Evidence,
    Finding,
    Fix,
    Group,
    Host,
    Related,
    Rule,
    Safety,
    Same,
    Sequence,
    View,
    calls,
    nodes,
    only,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS

from .._shared.constants import PLAIN_NUMBERS
from .._shared.guards import asks_type, fills_cache, is_kept, tests_around
from .._shared.hoisting import above_loops
from .._shared.host_copies import (
    DENSE,
    LIKE,
    MOVES,
    OF_DATA,
    OF_FILL,
    PLAIN,
    Copy,
    copy_by,
    filling,
    is_invariant,
    is_number,
    moves,
)
from .._shared.reads import read_of_batches
from ._constant_tensors import ConstantTensors

if TYPE_CHECKING:
    from amplint import Reason

OF_ANYTHING = frozenset({"torch.as_tensor", "torch.asarray"})  # of tensors, too
FILL = "fill it in on the device: `x[i].fill_(y)` instead of `x[i] = y`"
NUMBER, CONSTANTS, SHAPE = "a number", "constants", "a shape"


rule = Rule(
    "AMP502",
    __doc__,
    group=Group.PERFORMANCE,
    help="build it once before the loop, register it as a buffer, or use a Python number",
    witness=Same(),
    safe_if=(*OF_FILL, LIKE, DENSE, PLAIN),
    changes=frozenset({Change.ROUNDING}),
    supersedes=("AMP202", "AMP501", "AMP508", "AMP510"),
)


@rule.on(
    calls(".new_tensor", *OF_DATA, *LEGACY_CONSTRUCTORS, *(f".{name}" for name in MOVES)) & HOT
)
def check(call: View) -> Iterator[Finding]:
    tensor = call.tensor
    if tensor is None or tensor.device.kind != ACCELERATOR:
        return
    copy = copy_by(call)
    if copy is not None and not holds_something(copy.data):
        return
    what = kind_of_data(copy) if copy is not None else None
    built = host_tensor(call) if what is None else None
    if (what is None and built is None) or is_rare(call):
        return
    reasons = read_of_batches(call, tensor)
    if reasons is None:
        return
    at, fix = call, None
    if copy is not None and what is not None:
        at, fix = copy.call, repaired(copy, what)
        reasons = tuple(each for each in reasons if not stands_at(each, call))
    message = f"`{at.brief}` copies {what or CONSTANTS} to the device in every iteration"
    yield at.finding(message, (built, *reasons), fix)


@rule.on(nodes("put") & HOT)
def check_element(at: View) -> Iterator[Finding]:
    """Ex) losses[step] = 0.0"""
    buffer, index, _ = at.operands
    tensor = buffer.tensor
    if tensor is None or tensor.device.kind != ACCELERATOR:
        return
    indices = index.operands if index.op == "tuple" else [index]
    if len(indices) != tensor.dims or not all(map(is_number, indices)) or not is_made_here(buffer):
        return
    number = at.assigned
    if number is None or not is_number(number):
        return
    reasons = read_of_batches(buffer, tensor)
    if reasons is not None:
        message = f"a number is copied to `{at.brief}` on the device in every iteration"
        yield at.finding(message, reasons, help=FILL)


def is_made_here(buffer: View) -> bool:
    """Whether a call in its function makes a tensor, and no default puts that on the CPU: a memory
    that outlives the step is often kept on the host, by an option."""
    origins = reachable([buffer.origin], lambda each: [part.origin for part in written(each)])
    makers = [each for each in origins if not written(each)]
    return all(maker.op == "call" and not is_for_host(maker) for maker in makers)


def written(at: View) -> list[View]:
    """The values that are joined; of an element, and of `x[i] = y`, the tensor."""
    if at.op == "phi":
        return [*at.operands]
    return [at.operands[0]] if at.op in ("put", "subscript") else []


def is_for_host(maker: View) -> bool:
    """Ex) torch.zeros(n, device=device), of `def f(n, device="cpu")`"""
    device = maker.arg("device")
    param = parameter_of(device) if device is not None else None
    default = param.default if param is not None else None
    return default is not None and "cpu" in maker.source.text(default)


def host_tensor(call: View) -> Evidence | None:
    """Where the tensor that a call moves is built of constants: `kernel.to(x.device)`."""
    if call.receiver is None or not moves(call):
        return None
    return call.receiver.ask(ConstantTensors)


def is_rare(call: View) -> bool:
    """Whether the copy is kept, or made only where something is not as it should be."""
    return fills_cache(call) or is_kept(call) or meets_mismatch(call)


def meets_mismatch(call: View) -> bool:
    """Whether the copy is made only where two tensors differ in device or dtype, as they should
    not.

    Ex) if boxes.device != labels.device: return torch.tensor(0.0, device=labels.device)
    """
    tests = reachable(tests_around(call), lambda at: at.operands if at.op == "bool" else ())
    return any(
        test.operators[:1] == ("NotEq",) and test.operands[0].method in ("device", "dtype")
        for test in tests
    )


def stands_at(reason: Reason | Related | None, call: View) -> bool:
    """Whether it is the call itself that a reason shows."""
    places = () if isinstance(reason, Related) else call.source.reasons(reason)
    return any(each.span.start == call.span.start for each in places)


# ---------------------------------------------------------------------------- what is copied


def kind_of_data(copy: Copy) -> str | None:
    """The data that is copied, if the copy could be spared or made once."""
    data = copy.data
    if is_shape(data):
        return SHAPE
    a_list = isinstance(only(data.value), Sequence)
    untyped = data.value >= UNKNOWN or (not a_list and is_given_anything(data))
    if untyped and copy.call.callee in OF_ANYTHING and not asks_type(data):
        return None
    if is_number(data, repeated=True):
        return NUMBER
    return CONSTANTS if is_invariant(data) else None


def is_shape(at: View) -> bool:
    """Ex) x.shape, x.shape[2:], x.size()"""
    if at.op == "subscript":
        return at.operands[1].op == "slice" and is_shape(at.operands[0])
    return any(isinstance(atom, Host) and atom.kind == "size" for atom in at.value)


def is_given_anything(at: View) -> bool:
    """Whether the expression is a parameter that may be given anything, a tensor perhaps."""
    param = parameter_of(at)
    if param is None:
        return False
    declared = at.source.text(param.annotation.annotation) if param.annotation is not None else ""
    return declared not in PLAIN_NUMBERS


def parameter_of(at: View) -> cst.Param | None:
    """The parameter that a variable is."""
    is_given = at.op == READ and at.origin.op == "param"
    return at.source.variables.parameter(at.cst) if is_given else None


def passes_on(copy: Copy) -> bool:
    """Whether a tensor with a gradient might be given, in spite of an annotation of a number."""
    is_given = copy.call.callee in OF_ANYTHING and parameter_of(copy.data) is not None
    return is_given and not asks_type(copy.data)


def holds_something(at: View) -> bool:
    """Whether a list is not empty: nothing is copied of `[]`."""
    atom = only(at.value)
    return not (isinstance(atom, Sequence) and atom.items == ())


def repaired(copy: Copy, what: str) -> Fix | None:
    data = copy.data
    if is_given_anything(data) or what == SHAPE or passes_on(copy):
        return None
    if what == NUMBER:
        return filling(copy) if is_number(data) else None
    return built_once(copy.move or copy.call)


# ---------------------------------------------------------------------------- lists


def built_once(copying: View) -> Fix | None:
    """Ex) for x in loader: w = torch.tensor([0.5, 0.5], device=d) -> w is built before the loop"""
    src = copying.source
    line = src.statement(copying.cst)
    assign = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    name = assign.targets[0].target if isinstance(assign, cst.Assign) else None
    if not isinstance(assign, cst.Assign) or not isinstance(name, cst.Name):
        return None
    if src.variables.joined(assign.value) or src.variables.written_into(name):
        return None
    edits = above_loops(copying)
    return Fix("Build the tensor before the loop", edits, Safety.UNSAFE) if edits else None
