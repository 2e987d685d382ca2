"""Copies of host data to the device: a tensor is built of Python numbers, and moved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from amplint import CPU, Edit, Host, LoopInvariance, Sequence, Tensor, TensorTree, literal, only
from amplint import constant as python_value
from amplint import libcst as cst
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS

from .constants import PLAIN_NUMBERS
from .cst_constants import is_literal
from .cst_factories import operand_alone
from .cst_moves import bound_before, move_of, without_move
from .factories import MAX_STEPS
from .host_copies import HALF_MAX, KEYWORDS, LARGEST, MOVES, NUMBER_CONSTRUCTORS, OF_DATA
from .tensors import surely_tensor

if TYPE_CHECKING:
    from amplint import Source


@dataclass(frozen=True)
class Copy:
    """Host data on their way to the device.

    Args:
        made: the call that builds a tensor of them.
        data: the argument that they are.
        move: the call that copies; `made` itself where it takes the device.
    """

    made: cst.Call
    data: cst.Arg
    move: cst.Call


def moves(call: cst.Call, src: Source) -> bool:
    """Ex) kernel.to(x.device), not with `non_blocking=True`, nor of what is elsewhere already"""
    function = call.func
    if not isinstance(function, cst.Attribute) or function.attr.value not in MOVES:
        return False
    waits = src.keyword(call, "non_blocking")
    if waits is not None and python_value(src.value(waits.value)) is not False:
        return False
    moved = src.tensor(function.value)
    return moved is not None and moved.device.kind == CPU.kind


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


def is_invariant(data: cst.BaseExpression, src: Source) -> bool:
    """Whether a number, or a list of numbers, is the same in every iteration."""
    return literal(data) is not None or bool(src.ask(LoopInvariance, data))


def repeats_number(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) [index] * n"""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
        return False
    if not isinstance(node.left, cst.List | cst.Tuple) or len(node.left.elements) != 1:
        return False
    repeated = node.left.elements[0].value
    return is_number(repeated, src) or is_invariant(repeated, src)


def reads_device(call: cst.Call, src: Source) -> bool:
    """Ex) loss.item(), float(loss)"""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value in ("item", "tolist")
    return src.name(call.func) in NUMBER_CONSTRUCTORS and any(
        src.tensor(arg.value) for arg in call.args
    )


class Constant(NamedTuple):
    """Data that are one number, again and again.

    Args:
        shape: of a tensor of them, as it is to be written.
        is_counted: whether the shape is known.
    """

    shape: str
    number: cst.BaseExpression
    is_counted: bool = True


def constant_of(data: cst.BaseExpression, src: Source) -> Constant | None:
    """Ex) 0, [0, 0] and [value] * n"""
    if isinstance(data, cst.List | cst.Tuple):
        numbers = [element.value for element in data.elements]
        texts = {src.text(number) for number in numbers}
        if len(texts) != 1 or not is_literal(numbers[0], src):
            return None
        return Constant(f"({len(numbers)},)", numbers[0])
    if isinstance(data, cst.BinaryOperation) and repeats_number(data, src):
        count = only(src.value(data.right))
        if not isinstance(count, Host) or count.kind != "int":
            return None
        assert isinstance(data.left, cst.List | cst.Tuple)
        number = data.left.elements[0].value
        return Constant(f"({src.text(data.right)},)", number, is_counted=False)
    return Constant("()", data) if is_literal(data, src) and is_number(data, src) else None


@dataclass(frozen=True)
class Filling:
    """How a copy is spared: the device fills the number in.

    Args:
        is_literal: whether the number is one that is written there.
        fits: whether every dtype takes it.
        is_like_tensor: whether what is asked for a new tensor is one for every caller; None where
            nothing is.
        is_bare: whether nothing is done to the tensor before it is moved; None where it is not.
        is_placed: whether it is moved to what certainly is a device, without a dtype; likewise.
    """

    edits: tuple[Edit, ...]
    is_literal: bool
    fits: bool
    is_like_tensor: bool | None = None
    is_bare: bool | None = None
    is_placed: bool | None = None


def filling(copy: Copy, constant: Constant, src: Source) -> Filling | None:
    """Ex) torch.tensor(0.0, device=d) -> torch.full((), 0.0, device=d)"""
    number = constant.number
    made, torch = copy.made, src.imports.spell("torch")
    keywords = {arg.keyword.value for arg in made.args if arg.keyword is not None}
    if torch is None or len(made.args) != 1 + len(keywords) or not keywords <= KEYWORDS:
        return None
    if any(isinstance(atom, Host) and atom.kind == "bool" for atom in src.value(number)):
        return None  # `torch.jit.trace` cannot record `torch.full` of a bool
    if is_new_tensor(made):
        called = src.edits.replace(made.func, src.text(made.func).removesuffix("tensor") + "full")
    else:
        called = src.edits.replace(made.func, f"{torch.text}.full")
    edits = [called, src.edits.insert_argument(made, constant.shape), *torch.edits]
    if number is not copy.data.value:
        edits.append(src.edits.replace(copy.data.value, src.text(number)))
    value = python_value(src.value(number))
    if constant.shape != "()" and "dtype" in keywords and not fits(value, HALF_MAX):
        return None  # of a list, `torch.tensor` makes inf of what is beyond a dtype; this raises
    literal, is_fitting = is_literal(number, src), fits(value, LARGEST)
    is_like = bare = placed = None
    if is_new_tensor(made) and isinstance(made.func, cst.Attribute):
        is_like = surely_tensor(made.func.value, src)
    if copy.move is not made:
        place = placement(copy, src)
        if place is None or not isinstance(copy.move.func, cst.Attribute):
            return None
        bare = is_bare(copy.move.func.value, made, src)
        arguments, placed = place
        edits.append(src.edits.add_argument(made, *arguments))
        edits.append(without_move(copy.move, copy.move.func.value, src))
    whole = tuple(edit for edit in edits if edit is not None)
    if len(whole) < len(edits):
        return None
    return Filling(whole, literal, is_fitting, is_like, bare, placed)


def is_bare(node: cst.BaseExpression, made: cst.Call, src: Source) -> bool:
    """Whether an expression is the tensor as it was built, by whatever names."""
    while isinstance(node, cst.Name) and (before := src.origin(node)) is not None:
        node = before
    return node is made


def placement(copy: Copy, src: Source) -> tuple[tuple[str, ...], bool] | None:
    """The arguments that say where the move goes; and whether they round as it does: with a dtype,
    the number is rounded once, not to float32 first."""
    if not src.variables.same_meaning(copy.move, copy.made):
        return None  # what names the device may have another value where the tensor is made
    move = move_of(copy.move, src)
    if move is not None and move.device is None:
        return None
    if move is not None and move.dtype is None:
        return (f"device={move.device}",), move.certain
    if move is not None:
        return (f"device={move.device}", f"dtype={move.dtype}"), False
    like = copy.move.args[0].value if len(copy.move.args) == 1 else None
    if isinstance(like, cst.Name) and isinstance(only(src.value(like)), Tensor | TensorTree):
        other = src.text(like)
        return (f"dtype={other}.dtype", f"device={other}.device"), False
    return None


def fits(number: object, most: float) -> bool:
    """Whether `torch.full` takes the number in any dtype, or what is not known is inf or pi."""
    if not isinstance(number, int | float) or not math.isfinite(number):
        return True
    return abs(number) <= most
