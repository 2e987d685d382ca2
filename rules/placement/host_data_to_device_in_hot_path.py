"""A constant of the host is copied to the device for every batch.

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
numbers, which never need the copy; lists that are the same in every iteration, being made of
constants, options, fields that only the constructor of a module stores, or a configuration; a
tensor that is computed from such a list on the CPU and then moved; and shapes.

Fix safety: for a literal, `torch.full((), ...)` is safe: the same value, dtype and device. Unsafe
where the number is not known, for `torch.full` raises on what float32 cannot hold; for
`x.new_tensor(...)` in a project that has sparse or nested tensors, which know no `new_full`, or
tensors of a class of their own, whose `new_full` may be another one; with `requires_grad=` and a
move, whose result is no leaf, or where the project mentions `torch.jit`, since TorchScript does not
take it for `torch.full`; with a dtype given along with the move, which then rounds once instead of
twice; with arithmetic before the move, whose last bit may differ; and where a list is built before
the loop, for then it is the same tensor in every round. No fix for a bool, since `torch.jit.trace`
cannot record `torch.full` of one.

Known limits: lists whose elements may change are left alone, sizes among them, and so is what is
copied with `non_blocking=True`, kept in a cache, or read back from the device just before (AMP101).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    CPU,
    HOT,
    Change,
    ConstantTensors,
    Evidence,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Safety,
    Same,
    Sequence,
    Spot,
    calls,
    is_open,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS

from .._shared.constants import PLAIN_NUMBERS
from .._shared.cst_factories import is_built
from .._shared.cst_host_copies import (
    Constant,
    Copy,
    copy_by,
    filling,
    is_invariant,
    is_new_tensor,
    is_number,
    moves,
    repeats_number,
)
from .._shared.guards import asks_type, fills_cache, is_kept, meets_mismatch
from .._shared.hoisting import above_loops
from .._shared.host_copies import COPYING, MOVES, OF_DATA
from .._shared.reads import hot_evidence
from .._shared.tensors import has_other_layouts, has_own_classes

if TYPE_CHECKING:
    from amplint import Source

LITERAL = "the number is a literal"
FITS = "every dtype takes the number"
LIKE = "what is asked for a new tensor is one for every caller"
DENSE = "what is asked for a new tensor is strided"
PLAIN = "the project has no tensors of a class of their own"
UNTOUCHED = "nothing is done to it before it is moved"
PLACED = "it is moved to what certainly is a device, without a dtype"
LEAF = "no gradient is asked for before it is moved"

OF_ANYTHING = frozenset({"torch.as_tensor", "torch.asarray"})  # of tensors, too
NUMBER, CONSTANTS, SHAPE = "a number", "constants", "a shape"


def is_on_device(at: Spot) -> bool:
    tensor = at.tensor(at.number)
    return tensor is not None and tensor.device.kind == ACCELERATOR


def moves_host_data(at: Spot) -> bool:
    """Ex) torch.tensor(1.0).to(x.device), and kernel.to(x.device) of what is built of constants"""
    moved = at.tensor(at.receiver)
    if moved is None or moved.device.kind != CPU.kind or not is_on_device(at):
        return False
    return at.is_built_of_constants(at.receiver) or is_built(at, at.receiver, COPYING)


rule = Rule(
    "AMP502",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="build it once before the loop, register it as a buffer, or use a Python number",
    witness=Same(),
    safe_if=(LITERAL, FITS, LIKE, DENSE, PLAIN, UNTOUCHED, PLACED, LEAF),
    changes=frozenset({Change.ROUNDING}),
    supersedes=("AMP202", "AMP501", "AMP508", "AMP510"),
    candidates=(
        calls(".new_tensor", *OF_DATA, *LEGACY_CONSTRUCTORS) & is_on_device
        | calls(*(f".{name}" for name in MOVES)) & moves_host_data
    )
    & HOT,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    tensor = src.tensor(call)
    if tensor is None or tensor.device.kind != ACCELERATOR:
        return
    copy = copy_by(call, src)
    what = kind_of_data(copy, src) if copy is not None else None
    built = host_tensor(call, src) if what is None else None
    if (what is None and built is None) or is_rare(call, src):
        return
    evidence = hot_evidence(call, tensor, src)
    if evidence is None:
        return
    at, fix = call, None
    if copy is not None and what is not None:
        at = copy.made
        fix = repaired(copy, what, src)
        evidence = tuple(each for each in evidence if each.span.start != src.span(copy.move).start)
    elif built is not None:
        evidence = (src.related(built), *evidence)
    message = f"`{src.brief(at)}` copies {what or CONSTANTS} to the device in every iteration"
    yield src.finding(rule, at, message, fix, evidence)


def host_tensor(call: cst.Call, src: Source) -> Evidence | None:
    """Where the tensor that a call moves is built of constants: `kernel.to(x.device)`."""
    if not isinstance(call.func, cst.Attribute) or not moves(call, src):
        return None
    return src.ask(ConstantTensors, call.func.value)


def is_rare(call: cst.Call, src: Source) -> bool:
    """Whether the copy is kept, or made only where something is not as it should be."""
    return fills_cache(call, src) or is_kept(call, src) or meets_mismatch(call, src)


# ---------------------------------------------------------------------------- what is copied


def kind_of_data(copy: Copy, src: Source) -> str | None:
    """The data that is copied, if the copy could be spared or made once."""
    data = copy.data.value
    if is_shape(data, src):
        return SHAPE
    a_list = isinstance(only(src.value(data)), Sequence)
    untyped = is_open(src.value(data)) or (is_given_anything(data, src) and not a_list)
    if untyped and src.name(copy.made.func) in OF_ANYTHING and not asks_type(data, src):
        return None
    if is_number(data, src) or repeats_number(data, src):
        return NUMBER
    return CONSTANTS if is_invariant(data, src) and holds_something(data, src) else None


def is_shape(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) x.shape, x.shape[2:], x.size()"""
    if isinstance(node, cst.Subscript):
        return isinstance(node.slice[0].slice, cst.Slice) and is_shape(node.value, src)
    return any(isinstance(atom, Host) and atom.kind == "size" for atom in src.value(node))


def is_given_anything(node: cst.BaseExpression, src: Source) -> bool:
    """Whether the expression is a parameter that may be given anything, a tensor perhaps."""
    param = src.parameter(node) if isinstance(node, cst.Name) else None
    if param is None:
        return False
    declared = src.text(param.annotation.annotation) if param.annotation is not None else ""
    return declared not in PLAIN_NUMBERS


def passes_on(copy: Copy, src: Source) -> bool:
    """Whether a tensor with a gradient might be given, in spite of an annotation of a number."""
    data = copy.data.value
    param = src.parameter(data) if isinstance(data, cst.Name) else None
    of_anything = src.name(copy.made.func) in OF_ANYTHING
    return param is not None and of_anything and not asks_type(data, src)


def holds_something(node: cst.BaseExpression, src: Source) -> bool:
    """Whether a list is not empty: nothing is copied of `[]`."""
    atom = only(src.value(node))
    return not (isinstance(atom, Sequence) and atom.items == ())


def repaired(copy: Copy, what: str, src: Source) -> Fix | None:
    data = copy.data.value
    if is_given_anything(data, src) or what == SHAPE or passes_on(copy, src):
        return None
    if what == NUMBER:
        return filled_in(copy, src) if is_number(data, src) else None
    return built_once(copy, src)


def filled_in(copy: Copy, src: Source) -> Fix | None:
    """Ex) torch.tensor(0.0, device=d) -> torch.full((), 0.0, device=d)"""
    made = filling(copy, Constant("()", copy.data.value), src)
    if made is None:
        return None
    of_tensor = is_new_tensor(copy.made)
    wants_grad = src.keyword(copy.made, "requires_grad") is not None
    conditions = {
        LITERAL: made.is_literal,
        FITS: made.fits,
        LIKE: made.is_like_tensor,
        DENSE: not has_other_layouts(src) if of_tensor else None,
        PLAIN: not has_own_classes(src) if of_tensor else None,
        UNTOUCHED: made.is_bare,
        PLACED: made.is_placed,
        LEAF: None if copy.move is copy.made else not wants_grad,
    }
    needed = {name: holds for name, holds in conditions.items() if holds is not None}
    fix = Fix.safe_if("Fill the number in on the device", made.edits, needed)
    # TorchScript knows this argument of `torch.tensor`, and not of `torch.full`.
    return fix.demoted() if wants_grad and src.mentions("jit") else fix


# ---------------------------------------------------------------------------- lists


def built_once(copy: Copy, src: Source) -> Fix | None:
    """Ex) for x in loader: w = torch.tensor([0.5, 0.5], device=d) -> w is built before the loop"""
    line = src.statement(copy.move)
    assign = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    name = assign.targets[0].target if isinstance(assign, cst.Assign) else None
    if not isinstance(assign, cst.Assign) or not isinstance(name, cst.Name):
        return None
    if src.joined(assign.value) or src.variables.written_into(name):
        return None
    edits = above_loops(copy.move, src)
    return Fix("Build the tensor before the loop", edits, Safety.UNSAFE) if edits else None
