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
where the number is not known, for `torch.full` raises on what float32 cannot hold; with a dtype
given along with the move, which then rounds once instead of twice; with arithmetic before the move,
whose last bit may differ; and where a list is built before the loop, for then it is the same tensor
in every round.

Known limits: lists whose elements may change are left alone, sizes among them, and so is what is
copied with `non_blocking=True`, kept in a cache, or read back from the device just before (AMP101).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
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
    LoopInvariance,
    Rule,
    Safety,
    Same,
    Sequence,
    Spot,
    Tensor,
    TensorTree,
    calls,
    constant,
    is_open,
    literal,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS

from .._shared.constants import PLAIN_NUMBERS, is_literal
from .._shared.factories import MAX_STEPS, is_built, operand_alone
from .._shared.guards import asks_type, fills_cache, meets_mismatch
from .._shared.hoisting import above_loops
from .._shared.moves import bound_before, move_of, without_move
from .._shared.reads import hot_evidence
from .._shared.tensors import surely_tensor

if TYPE_CHECKING:
    from amplint import Source

LITERAL = "the number is a literal"
FITS = "every dtype takes the number"
LIKE = "what is asked for a new tensor is one, whoever calls"
UNTOUCHED = "nothing is done to it before it is moved"
PLACED = "it is moved to what certainly is a device, without a dtype"

COPYING = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray", *LEGACY_CONSTRUCTORS})


OF_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray"})
OF_ANYTHING = frozenset({"torch.as_tensor", "torch.asarray"})  # of tensors, too
MOVES = frozenset({"to", "cuda", "type_as"})
KEYWORDS = frozenset({"dtype", "device", "requires_grad"})
NUMBER_CONSTRUCTORS = frozenset({"builtins.float", "builtins.int", "builtins.bool"})
NUMBER, CONSTANTS, SHAPE = "a number", "constants", "a shape"
LARGEST = 3.4e38  # beyond it, float32 overflows: `torch.tensor` gives inf, `torch.full` raises


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
    witness=Same(),
    safe_if=(LITERAL, FITS, LIKE, UNTOUCHED, PLACED),
    changes=frozenset({Change.ROUNDING}),
    supersedes=("AMP508",),
    candidates=(
        calls(".new_tensor", *OF_DATA, *LEGACY_CONSTRUCTORS) & is_on_device
        | calls(*(f".{name}" for name in MOVES)) & moves_host_data
    )
    & HOT,
)


@dataclass(frozen=True)
class Copy:
    """Host data on their way to the device.

    Args:
        made: the call that builds a tensor of them.
        data: the argument that they are.
        move: the call that copies; `made` itself where it is told the device.
    """

    made: cst.Call
    data: cst.Arg
    move: cst.Call


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
    return fills_cache(call, src) or meets_mismatch(call, src)


# ---------------------------------------------------------------------------- what is copied


def moves(call: cst.Call, src: Source) -> bool:
    """Ex) kernel.to(x.device), not with `non_blocking=True`, nor of what is elsewhere already"""
    function = call.func
    if not isinstance(function, cst.Attribute) or function.attr.value not in MOVES:
        return False
    waits = src.keyword(call, "non_blocking")
    if waits is not None and constant(src.value(waits.value)) is not False:
        return False
    moved = src.tensor(function.value)
    return moved is not None and moved.device.kind == CPU.kind


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


def is_invariant(data: cst.BaseExpression, src: Source) -> bool:
    """Whether a number, or a list of numbers, is the same in every iteration."""
    return literal(data) is not None or bool(src.ask(LoopInvariance, data))


def copy_by(call: cst.Call, src: Source) -> Copy | None:
    """Ex) torch.tensor(1.0, device=d), x.new_tensor(1.0), torch.tensor(1.0).to(d)"""
    data = data_of(call, src)
    if data is not None:
        return Copy(call, data, call)
    function = call.func
    if not isinstance(function, cst.Attribute) or not moves(call, src):
        return None
    made = built_from(function.value, src)
    data = data_of(made, src) if made is not None else None
    if made is None or data is None or src.keyword(made, "device") is not None:
        return None
    return Copy(made, data, call)


def data_of(call: cst.Call, src: Source) -> cst.Arg | None:
    """The argument that a call builds a tensor of."""
    if src.has_star(call):
        return None
    if is_new_tensor(call) or src.name(call.func) in OF_DATA:
        return src.argument(call, "data", 0)
    if src.name(call.func) in LEGACY_CONSTRUCTORS and len(call.args) == 1:
        # Of a list it builds a tensor; a number is a size.
        return call.args[0] if isinstance(only(src.value(call.args[0].value)), Sequence) else None
    return None


def is_new_tensor(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "new_tensor"


def built_from(node: cst.BaseExpression, src: Source, steps: int = MAX_STEPS) -> cst.Call | None:
    """The call that builds a tensor of data, where all else is done to its result alone."""
    if steps == 0:
        return None
    if isinstance(node, cst.Name):
        before = bound_before(node, src)
        return built_from(before, src, steps - 1) if before is not None else None
    if isinstance(node, cst.Call) and not is_new_tensor(node) and data_of(node, src) is not None:
        return node
    step = operand_alone(node, src)
    return built_from(step.operand, src, steps - 1) if step is not None else None


def is_number(node: cst.BaseExpression, src: Source) -> bool:
    """Whether the expression is a Python number that nobody has just read from the device."""
    value = src.value(node)
    if not all(isinstance(atom, Host) and atom.kind in PLAIN_NUMBERS for atom in value):
        return False
    made = src.origin(node) if isinstance(node, cst.Name) else None
    return not any(reads_device(call, src) for call in src.calls(made or node))


def repeats_number(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) [index] * n"""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
        return False
    if not isinstance(node.left, cst.List | cst.Tuple) or len(node.left.elements) != 1:
        return False
    repeated = node.left.elements[0].value
    return is_number(repeated, src) or is_invariant(repeated, src)


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


def reads_device(call: cst.Call, src: Source) -> bool:
    """Ex) loss.item(), float(loss)"""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value in ("item", "tolist")
    return src.name(call.func) in NUMBER_CONSTRUCTORS and any(
        src.tensor(arg.value) for arg in call.args
    )


def holds_something(node: cst.BaseExpression, src: Source) -> bool:
    """Whether a list is not empty: nothing is copied of `[]`."""
    atom = only(src.value(node))
    return not (isinstance(atom, Sequence) and atom.items == ())


def repaired(copy: Copy, what: str, src: Source) -> Fix | None:
    data = copy.data.value
    if is_given_anything(data, src) or what == SHAPE:
        return None
    if what == NUMBER:
        return filled_in(copy, src) if is_number(data, src) else None
    return built_once(copy, src)


# ---------------------------------------------------------------------------- numbers


def filled_in(copy: Copy, src: Source) -> Fix | None:
    """Ex) torch.tensor(0.0, device=d) -> torch.full((), 0.0, device=d)"""
    made, torch = copy.made, src.imports.spell("torch")
    keywords = {arg.keyword.value for arg in made.args if arg.keyword is not None}
    if torch is None or len(made.args) != 1 + len(keywords) or not keywords <= KEYWORDS:
        return None
    if is_new_tensor(made):
        called = src.edits.replace(made.func, src.text(made.func).removesuffix("tensor") + "full")
    else:
        called = src.edits.replace(made.func, f"{torch.text}.full")
    edits = [called, src.edits.insert_argument(made, "()"), *torch.edits]
    number = copy.data.value
    conditions = {LITERAL: is_literal(number, src), FITS: fits(constant(src.value(number)))}
    if is_new_tensor(made) and isinstance(made.func, cst.Attribute):
        conditions[LIKE] = surely_tensor(made.func.value, src)
    if copy.move is not made:
        place = placement(copy, src)
        if place is None or not isinstance(copy.move.func, cst.Attribute):
            return None
        conditions[UNTOUCHED] = is_bare(copy.move.func.value, made, src)
        arguments, conditions[PLACED] = place
        edits.append(src.edits.add_argument(made, arguments))
        edits.append(without_move(copy.move, copy.move.func.value, src))
    whole = tuple(edit for edit in edits if edit is not None)
    if len(whole) < len(edits):
        return None
    return Fix.safe_if("Fill the number in on the device", whole, conditions)


def is_bare(node: cst.BaseExpression, made: cst.Call, src: Source) -> bool:
    """Whether an expression is the tensor as it was built, by whatever names."""
    while isinstance(node, cst.Name) and (before := src.origin(node)) is not None:
        node = before
    return node is made


def placement(copy: Copy, src: Source) -> tuple[str, bool] | None:
    """The arguments that say where the move goes; and whether they round as it does: with a dtype,
    the number is rounded once, not to float32 first."""
    if not src.variables.same_meaning(copy.move, copy.made):
        return None  # what names the device may have another value where the tensor is made
    move = move_of(copy.move, src)
    if move is not None and move.dtype is None:
        return f"device={move.device}", move.certain
    if move is not None:
        dtype = f", dtype={move.dtype}"
        return f"device={move.device}{dtype}", False
    like = copy.move.args[0].value if len(copy.move.args) == 1 else None
    if isinstance(like, cst.Name) and isinstance(only(src.value(like)), Tensor | TensorTree):
        other = src.text(like)
        return f"dtype={other}.dtype, device={other}.device", False
    return None


def fits(number: object) -> bool:
    """Whether `torch.full` takes the number in any dtype, or what is not known is inf or pi."""
    if not isinstance(number, int | float) or not math.isfinite(number):
        return True
    return abs(number) <= LARGEST


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
