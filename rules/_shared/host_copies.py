"""Copies of host data to the device: a tensor is built of Python numbers, and moved."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from amplint import CPU, READ, Fix, Host, Sequence, Tensor, TensorTree, literal, only
from amplint import constant as python_value
from amplint import libcst as cst
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS

from ._loop_invariance import LoopInvariance
from .constants import PLAIN_NUMBERS
from .factories import MAX_STEPS, operand_alone
from .local_values import resolved
from .moves import is_sole_reader, move_of, without_move
from .tensors import has_other_layouts, has_own_classes, is_surely_tensor

if TYPE_CHECKING:
    from amplint import View

OF_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray"})
MOVES = frozenset({"to", "cuda", "type_as"})
KEYWORDS = frozenset({"dtype", "device", "requires_grad"})
NUMBER_CONSTRUCTORS = frozenset({"builtins.float", "builtins.int", "builtins.bool"})
HALF_MAX = 65504
LITERAL = "the number is a literal"
FITS = "every dtype can hold the number"
LIKE = "the receiver is a tensor for every caller"
DENSE = "the receiver is a strided tensor"
PLAIN = "the project has no tensor subclasses"
UNTOUCHED = "nothing happens to it before the move"
PLACED = "the move names a device alone, and certainly one"
LEAF = "no gradient is required before the move"
OF_FILL = (LITERAL, FITS, UNTOUCHED, PLACED, LEAF)
INFINITE = re.compile(r"""(["'])[+-]?(inf|infinity|nan)\1""", re.IGNORECASE)
OF_MATH = re.compile(r"(math|np|numpy|torch)\.(pi|e|inf|nan)")
LARGEST = 3.4e38  # beyond it, float32 overflows: `torch.tensor` makes inf, `torch.full` raises


@dataclass(frozen=True)
class Copy:
    """Host data on their way to the device.

    Args:
        call: the call that builds a tensor of them.
        data: the argument that they are.
        move: the call that copies; None where `call` itself takes the device.
    """

    call: View
    data: View
    move: View | None = None


def moves(call: View, waiting: bool = True) -> bool:
    """Ex) kernel.to(x.device), not of what is elsewhere already

    Args:
        waiting: whether the host is to wait for it: not with `non_blocking=True`.
    """
    if call.method not in MOVES or call.receiver is None:
        return False
    waits = call.arg("non_blocking")
    if waiting and waits is not None and python_value(waits.value) is not False:
        return False
    moved = call.receiver.tensor
    return moved is not None and moved.device.kind == CPU.kind


def copy_by(call: View) -> Copy | None:
    """Ex) torch.tensor(1.0, device=d), x.new_tensor(1.0), torch.tensor(1.0).to(d)"""
    data = _data_of(call)
    return Copy(call, data) if data is not None else moved_copy(call)


def moved_copy(call: View, waiting: bool = True) -> Copy | None:
    """Ex) torch.tensor(1.0).to(d); `waiting` as in `moves`"""
    if call.receiver is None or not moves(call, waiting):
        return None
    factory = _built_from(call.receiver)
    data = _data_of(factory) if factory is not None else None
    if factory is None or data is None or factory.arg("device") is not None:
        return None
    return Copy(factory, data, call)


def _data_of(call: View) -> View | None:
    """The argument that a call builds a tensor of."""
    if call.op != "call" or call.has_star:
        return None
    name = call.callee
    if _is_new_tensor(call) or name in OF_DATA:
        return call.arg("data", 0)
    if name in LEGACY_CONSTRUCTORS and len(call.operands) == 2:
        # Of a list it builds a tensor; a number is a size.
        data = next(argument for _, _, argument in call.arguments)
        return data if isinstance(only(data.value), Sequence) else None
    return None


def _is_new_tensor(call: View) -> bool:
    return call.method == "new_tensor"


def _built_from(at: View, steps: int = MAX_STEPS) -> View | None:
    """The call that builds a tensor of data, where all else is done to its result alone."""
    if steps == 0:
        return None
    if at.op == READ:
        factory = _built_from(at.origin, steps - 1)
        return factory if factory is not None and is_sole_reader(at, at.origin) else None
    if not _is_new_tensor(at) and _data_of(at) is not None:
        return at if not isinstance(at.cst, cst.NamedExpr) else None
    step = operand_alone(at)
    return _built_from(step.operand, steps - 1) if step is not None else None


def is_number(at: View, repeated: bool = False) -> bool:
    """Whether the expression is a Python number that nobody has just read from the device;
    `repeated`: or a list of one, again and again."""
    if repeated and _repeats_number(at):
        return True
    if not all(isinstance(atom, Host) and atom.kind in PLAIN_NUMBERS for atom in at.value):
        return False
    expression = at.origin if at.origin.is_written else at
    return not any(_reads_device(at.of(call)) for call in at.source.calls(expression.cst))


def is_invariant(data: View) -> bool:
    """Whether a number, or a list of numbers, is the same in every iteration."""
    return literal(data.cst) is not None or bool(data.ask(LoopInvariance))


def _repeats_number(at: View) -> bool:
    """Ex) [index] * n"""
    if at.op != "binop" or at.operator != "Mult":
        return False
    sequence = at.operands[0]
    if sequence.op not in ("list", "tuple") or len(sequence.operands) != 1:
        return False
    repeated = sequence.operands[0]
    return is_number(repeated) or is_invariant(repeated)


def _reads_device(call: View) -> bool:
    """Ex) loss.item(), float(loss)"""
    if call.method:
        return call.method in ("item", "tolist")
    return call.callee in NUMBER_CONSTRUCTORS and any(
        argument.tensor is not None for _, _, argument in call.arguments
    )


class _RepeatedNumber(NamedTuple):
    """Data that are one number, again and again.

    Args:
        shape: of a tensor of them, as it is to be written.
        is_counted: whether the shape is known.
    """

    shape: str
    number: View
    is_counted: bool = True


def constant_of(data: View) -> _RepeatedNumber | None:
    """Ex) 0, [0, 0] and [value] * n; or what counts the rounds of the loop around it"""
    if data.op in ("list", "tuple"):
        numbers = [element.value for element in data.cst.elements]
        texts = {data.source.text(number) for number in numbers}
        if len(texts) != 1 or not _is_literal(data.of(numbers[0])):
            return None
        return _RepeatedNumber(f"({len(numbers)},)", data.of(numbers[0]))
    if _repeats_number(data):
        repeated, times = data.operands
        count = only(times.value)
        if not isinstance(count, Host) or count.kind != "int":
            return None
        return _RepeatedNumber(f"({times.text},)", repeated.operands[0], is_counted=False)
    is_constant = (_is_literal(data) or _counts_rounds(data)) and is_number(data)
    return _RepeatedNumber("()", data) if is_constant else None


def _counts_rounds(at: View) -> bool:
    """Ex) i, of `for i in range(n)` or `for i, x in enumerate(loader)`"""
    source = at.origin.operands[0].origin if at.origin.op == "unpack" else at.origin
    atom = only(at.value)
    return source.op == "iter" and isinstance(atom, Host) and atom.kind == "int"


def filling(copy: Copy, constant: _RepeatedNumber | None = None) -> Fix | None:
    """Ex) torch.tensor(0.0, device=d) -> torch.full((), 0.0, device=d)

    Args:
        constant: the number that the data are, if they are not a number themselves.
    """
    constant = constant or _RepeatedNumber("()", copy.data)
    number, factory, move = constant.number, copy.call, copy.move
    call, source = factory.cst, factory.source
    torch, edits = source.imports.spell("torch"), source.edits
    keywords = {keyword for _, keyword, _ in factory.arguments if keyword is not None}
    if len(call.args) != 1 + len(keywords) or not keywords <= KEYWORDS:
        return None
    if any(isinstance(atom, Host) and atom.kind == "bool" for atom in number.value):
        return None  # `torch.jit.trace` cannot record `torch.full` of a bool
    value, is_scalar = python_value(number.value), constant.shape == "()"
    if not is_scalar and "dtype" in keywords and not _fits(value, HALF_MAX):
        return None  # of a list, `torch.tensor` makes inf of what is beyond a dtype; this raises
    conditions = {
        LITERAL: constant.is_counted and _is_literal(number),
        FITS: _fits(value, LARGEST),
    }
    function = f"{torch.text}.full"
    if _is_new_tensor(factory) and factory.receiver is not None:
        function = source.text(call.func).removesuffix("tensor") + "full"
        conditions[LIKE] = is_surely_tensor(factory.receiver)
        conditions[DENSE] = not has_other_layouts(factory)
        conditions[PLAIN] = not has_own_classes(factory)
    done = [edits.replace(call.func, function), edits.insert_argument(call, constant.shape)]
    if number.cst is not copy.data.cst:
        done.append(edits.replace(copy.data.cst, number.text))
    if move is not None and move.receiver is not None:
        place = _placement(copy, move)
        if place is None:
            return None
        arguments, conditions[PLACED] = place
        conditions[UNTOUCHED] = move.receiver.origin.cst is factory.cst
        conditions[LEAF] = "requires_grad" not in keywords
        done += [edits.add_argument(call, *arguments), without_move(move)]
    title = f"Create the {'scalar' if is_scalar else 'tensor'} on the device"
    fix = Fix.safe_if(title, (*done, *torch.edits), conditions)
    # TorchScript knows this argument of `torch.tensor`, and not of `torch.full`.
    return fix.demoted() if "requires_grad" in keywords and factory.mentions("jit") else fix


def _placement(copy: Copy, moving: View) -> tuple[tuple[str, ...], bool] | None:
    """The arguments that say where the move goes; and whether they round as it does: with a dtype,
    the number is rounded once, not to float32 first."""
    move = move_of(moving)
    if not moving.source.variables.same_meaning(moving.cst, copy.call.cst):
        return None  # what names the device may have another value where the tensor is made
    if move is not None:
        dtype = () if move.dtype is None else (f"dtype={move.dtype.text}",)
        there = (f"device={move.device}", *dtype)
        return (there, move.certain and not dtype) if move.device is not None else None
    arguments = [argument for _, _, argument in moving.arguments]
    like = arguments[0] if len(arguments) == 1 and isinstance(arguments[0].cst, cst.Name) else None
    if like is not None and isinstance(only(like.value), Tensor | TensorTree):
        return (f"dtype={like.text}.dtype", f"device={like.text}.device"), False
    return None


def _fits(number: object, most: float) -> bool:
    """Whether `torch.full` takes the number in any dtype, or what is not known is inf or pi."""
    if not isinstance(number, int | float) or not math.isfinite(number):
        return True
    return abs(number) <= most


def _is_literal(at: View) -> bool:
    """Whether the expression is a number as it is written, or a variable that holds nothing else.

    Ex) 1e-3, -1, True, float("inf"), math.pi
    """
    expression = resolved(at)
    node = expression.cst
    if isinstance(node, cst.UnaryOperation):
        return _is_literal(expression.of(node.expression))
    if isinstance(node, cst.Call):
        text = expression.source.text(node.args[0]) if len(node.args) == 1 else ""
        return expression.callee == "builtins.float" and INFINITE.fullmatch(text) is not None
    if isinstance(node, cst.Attribute):
        return OF_MATH.fullmatch(expression.text) is not None
    is_bool = isinstance(node, cst.Name) and node.value in ("True", "False")
    return is_bool or isinstance(node, cst.Integer | cst.Float)
