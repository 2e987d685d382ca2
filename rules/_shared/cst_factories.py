"""Factories: a tensor is built, and only then made what it is for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from amplint import CPU, NONE, Atom, DType, Host, ProjectText, Sequence, known
from amplint import libcst as cst
from amplint.knowledge.factories import BUILDABLE, FACTORIES, FROM_DATA
from amplint.knowledge.operations import SHAPE_METHODS

from .cst_local_values import surely_int, surely_number
from .cst_moves import bound_before
from .factories import (
    COMPARED,
    CONVERSIONS,
    CONVERSIONS_TO_INTEGERS,
    DECIDING,
    FILLS,
    JOINS,
    MAX_FILLS,
    MAX_PARTS,
    MAX_STEPS,
    NO_FACTORY,
    OF_INTS,
    OTHER_BITS,
    OTHER_DEFAULTS,
    PARAMETER,
    ROUNDED,
    SAME_ANYWHERE,
    SETS_OTHER_TYPE,
    SLICED,
    VARIABLES,
    WITHIN_DEVICE,
    WRITE_STEPS,
)
from .local_values import is_local, shaped
from .tensors import surely_dtype

if TYPE_CHECKING:
    from amplint import Source, Spot

# Methods that leave the same numbers in another shape.
# `type` is any dtype that is given
# With these, more is decided than what the tensor holds, and where.
# With these, a factory without `device=` may not build on the CPU at all.
# Ex) with torch.device("meta"):, with main_device:, with init_empty_weights():; not with
# torch.cuda.device(1):, nor words of a sentence: with device capacity


@dataclass(frozen=True)
class Built:
    """A factory that builds on the CPU, or where its `device=` says, and what has been done since
    to its result alone.

    Args:
        call: the call of the factory.
        name: what is called: "torch.zeros".
        expanded: whether the tensor is read through `expand`: its elements share memory, which a
            copy, to another device or dtype, ends.
        sliced: whether it is, or may be, a part of what was built, whose strides a copy changes.
        shaped: whether what was done changed the shape at most.
        exact: whether what was done has the same bits on any device.
        alone: whether nothing else took part but numbers; else it was made a parameter, or computed
            with what is a number or on the CPU, for two devices do not meet.
        certain: whether all this holds for every caller, not only in the calls that are
            seen.
        placed: whether a type was given that may name a device: `.type("torch.FloatTensor")`.
        names: the variables that held the tensor on the way.
    """

    call: cst.Call
    name: str
    expanded: bool = False
    sliced: bool = False
    shaped: bool = True
    exact: bool = True
    alone: bool = True
    certain: bool = True
    placed: bool = False
    names: tuple[cst.Name, ...] = ()


@dataclass(frozen=True)
class Step:
    """An operation on one tensor, whose other operands are of the host.

    Args:
        operand: the tensor.
        word: the name of a method that does the same, or as much.
        certain: whether the other operands are of the host for every caller of the function.
        placed: whether it casts to a type that may name a device.
    """

    operand: cst.BaseExpression
    word: str
    certain: bool = True
    placed: bool = False


def built(
    node: cst.BaseExpression, src: Source, refused: Collection[str] = (), steps: int = MAX_STEPS
) -> Built | None:
    """The factory that a value comes from by operations on it alone.

    Ex) torch.ones of `(mask == 0).long()` after `mask = torch.triu(torch.ones(n, n))`; the first of
    `torch.cat([torch.ones(n), torch.zeros(n)])`

    None also where a variable on the way is read elsewhere, and where the factory's call has an
    argument that decides more, or one of `refused`.
    """
    if steps <= 0:
        return None
    if isinstance(node, cst.Name):
        return built_under(node, src, refused, steps)
    if isinstance(node, cst.Call) and (name := factory(node, src, refused)) is not None:
        return Built(
            node, name, sliced=name == "torch.empty_strided", certain=is_local(node.func, src)
        )
    if isinstance(node, cst.Call) and (parts := parts_of(node, src)):
        made = [built(part, src, refused, steps - 1) for part in parts]
        return None if None in made or made[0] is None else replace(made[0], alone=False)
    step = operand_alone(node, src)
    found = built(step.operand, src, refused, steps - 1) if step is not None else None
    if step is None or found is None:
        return None
    word = step.word
    return replace(
        found,
        expanded=found.expanded or word == "expand",
        sliced=found.sliced or word == SLICED,
        shaped=found.shaped and (word in SHAPE_METHODS or word == SLICED),
        exact=found.exact and word not in ROUNDED and not overflows(found.name, word),
        alone=found.alone and word not in NO_FACTORY,
        certain=found.certain and step.certain,
        placed=found.placed or step.placed,
    )


def parts_of(call: cst.Call, src: Source) -> list[cst.BaseExpression]:
    """Ex) [a, b] of torch.cat([a, b], dim=1)"""
    joins = src.name(call.func) in JOINS and src.keyword(call, "out") is None
    given = src.argument(call, "tensors", 0) if joins else None
    if given is None or not isinstance(given.value, cst.List | cst.Tuple):
        return []
    parts = [element.value for element in given.value.elements]
    return parts if len(parts) <= MAX_PARTS and not src.has_star(call) else []


def built_under(name: cst.Name, src: Source, refused: Collection[str], steps: int) -> Built | None:
    """The factory whose result a variable holds, after numbers were written into it at most."""
    target = src.variables.written(name)
    if target is not None:
        before = target.value if writes_number(target, name, src) else None
        found = built(before, src, refused, steps - WRITE_STEPS) if before is not None else None
        return replace(found, names=(*found.names, name), alone=False) if found else None
    before = bound_before(name, src)
    filled = before is None
    if filled:
        before = filled_before(name, src)
    found = built(before, src, refused, steps - 1) if before is not None else None
    if found is None:
        return None
    return replace(found, names=(*found.names, name), alone=found.alone and not filled)


def writes_number(target: cst.Subscript, after: cst.Name, src: Source) -> bool:
    """Whether `x[0] = 1` writes a number at a plain place, for one variable alone to read it."""
    statement = src.parent(src.parent(target))
    if not isinstance(statement, cst.Assign) or not is_host(statement.value, src):
        return False
    if src.joined(target) or [use for use in src.uses(target) if use is not after]:
        return False
    plain = all(is_plain(element.slice, src) for element in target.slice)
    return plain and src.parent(src.statement(target)) is src.parent(src.statement(after))


def filled_before(name: cst.Name, src: Source) -> cst.BaseExpression | None:
    """The expression whose result a variable holds, if nothing but that reads it, and statements
    `name.fill_(1)` before it."""
    made = src.origin(name)
    if made is None or src.joined(made):
        return None
    suite = src.parent(src.statement(name))
    uses = [use for use in src.uses(made) if use is not name]
    if len(uses) > MAX_FILLS or src.parent(src.statement(made)) is not suite:
        return None
    at = src.span(name).start
    fills = all(fills_by_number(use, src) and src.span(use).start < at for use in uses)
    same = all(src.parent(src.statement(use)) is suite for use in uses)
    return made if fills and same else None


def fills_by_number(use: cst.BaseExpression, src: Source) -> bool:
    """Ex) x of the statement `x.fill_(0.5)`"""
    method = src.parent(use)
    call = src.parent(method) if isinstance(method, cst.Attribute) else None
    if not isinstance(call, cst.Call) or not isinstance(method, cst.Attribute):
        return False
    filling = method.attr.value in FILLS and not src.layout.value_used(call)
    return filling and call.func is method and all(is_host(arg.value, src) for arg in call.args)


def overflows(name: str, word: str) -> bool:
    """Whether a constant may become an integer that does not hold it: devices differ in that."""
    return name == "torch.full" and word in CONVERSIONS_TO_INTEGERS


def factory(call: cst.Call, src: Source, refused: Collection[str] = ()) -> str | None:
    """The name of the factory that the call is, if it could build the tensor on any device."""
    name = src.name(call.func)
    facts = FACTORIES.get(name) if name is not None else None
    if name is None or facts is None or facts.device != "default" or not facts.takes_device:
        return None
    if facts.dtype in FROM_DATA or any(arg.star == "**" for arg in call.args):
        return None
    if src.fact(ProjectText).is_called(*OTHER_DEFAULTS):
        return None
    if any(src.keyword(call, keyword) is not None for keyword in DECIDING.union(refused)):
        return None
    made = src.tensor(call) if src.keyword(call, "device") is None else None
    if made is not None and made.device.kind != CPU.kind:
        return None  # `torch.normal(mean, std)` draws where these are
    return name


def operand_alone(node: cst.BaseExpression, src: Source) -> Step | None:
    """The operation that an expression is, if it takes one tensor and what is of the host."""
    if isinstance(node, cst.UnaryOperation) and not isinstance(node.operator, cst.Not):
        return Step(node.expression, "neg")
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        other = node.comparisons[0].comparator
        return apart(node.left, other, "eq", src) or on_host(node.left, other, src)
    if isinstance(node, cst.BinaryOperation):
        left, right = node.left, node.right
        return apart(left, right, "mul", src) or on_host(left, right, src)
    if isinstance(node, cst.Subscript):
        return part_of(node, src)
    return called_on(node, src) if isinstance(node, cst.Call) else None


def part_of(node: cst.Subscript, src: Source) -> Step | None:
    """Ex) mask[None, :], rows[2:]"""
    indices = [element.slice for element in node.slice]
    given = [index.value for index in indices if isinstance(index, cst.Index)]
    certain = all(is_local(index, src) for index in given)
    if all(is_whole(index, src) for index in indices):
        return Step(node.value, "view", certain)
    plain = all(is_plain(index, src) for index in indices)
    return Step(node.value, SLICED, certain) if plain else None


def called_on(call: cst.Call, src: Source) -> Step | None:
    """Ex) torch.triu(mask, 1), mask.long()"""
    name = src.name(call.func)
    given = list(call.args)
    if any(arg.star == "**" or (arg.star and not is_host(arg.value, src)) for arg in given):
        return None
    if src.keyword(call, "out") is not None:
        return None
    if name is not None and name.startswith("torch.") and given and given[0].keyword is None:
        word, operand = name[6:], given.pop(0).value
    elif name is None and isinstance(call.func, cst.Attribute):
        word, operand = call.func.attr.value, call.func.value
    else:
        return None
    sure = name is None or is_local(call.func, src)
    if name in VARIABLES:
        return Step(operand, "view", sure) if not given else None
    if word in ("type", "to") and len(given) == 1 and is_dtype(given[0].value, src):
        return Step(operand, "type", surely_dtype(given[0].value, src))
    if word == "type":
        return Step(operand, word, placed=True)
    if word == "view" and len(given) == 1 and not given[0].star:
        other_bits = is_dtype(given[0].value, src)
        return Step(operand, OTHER_BITS if other_bits else word, surely_size(given[0].value, src))
    if word in SHAPE_METHODS | CONVERSIONS or (word == PARAMETER and name is not None):
        return Step(operand, word, sure)
    if word in SAME_ANYWHERE | ROUNDED and all(is_host(arg.value, src) for arg in given):
        known = word in OF_INTS or all(surely_host(arg.value, src) for arg in given)
        return Step(operand, word, sure and known)
    return None


def apart(
    left: cst.BaseExpression, right: cst.BaseExpression, word: str, src: Source
) -> Step | None:
    """The side that is not of the host, where the other one is."""
    if is_host(right, src):
        return Step(left, word, surely_host(right, src))
    return Step(right, word, surely_host(left, src)) if is_host(left, src) else None


def on_host(left: cst.BaseExpression, right: cst.BaseExpression, src: Source) -> Step | None:
    """The side that is a tensor on the CPU, where nothing is known of the other, or only that it
    may be a number.

    Ex) torch.rand(n) of `torch.rand(n) > rate` and of `torch.rand(n) * rate`
    """
    for side, other in ((left, right), (right, left)):
        tensor, value = src.tensor(side), src.value(other)
        perhaps = known(value)
        if tensor is None or tensor.device.kind != CPU.kind or perhaps == value:
            continue
        if all(map(is_host_atom, perhaps)):
            return Step(side, "mul", certain=False) if perhaps else Step(side, COMPARED)
    return None


def same_numbers(made: Built, src: Source) -> bool:
    """Whether the factory makes the same bits on every device for every caller.

    The integers of an arange are exact, and so are its floats if they count from 0 by 1.
    """
    if made.name != "torch.arange":
        return FACTORIES[made.name].deterministic
    tensor = src.tensor(made.call)
    if tensor is None or tensor.dtype != "int64":
        return False
    numbers = [arg for arg in made.call.args if arg.keyword is None]
    from_zero = len(numbers) == 1 and src.keyword(made.call, "step") is None
    return from_zero or all(surely_int(arg.value, src) for arg in numbers)


def changes_default_device(src: Source) -> bool:
    """Whether tensors may be built elsewhere than on the CPU by default."""
    return (
        src.fact(ProjectText).is_called("set_default_device")
        or src.matches(SETS_OTHER_TYPE, "set_default_tensor_type")
        or src.matches(WITHIN_DEVICE, "device", "init_empty_weights")
    )


def is_dtype(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) torch.float16, x.dtype; not `self.dtype` that holds the name of a type"""
    kinds = known(src.value(node))
    named = isinstance(node, cst.Attribute) and node.attr.value == "dtype"
    return (named or bool(kinds)) and all(isinstance(atom, DType) or atom == NONE for atom in kinds)


def surely_size(node: cst.BaseExpression, src: Source) -> bool:
    """Whether the one argument of `view` is no dtype for every caller."""
    written = isinstance(node, cst.Tuple | cst.List)
    return written or surely_int(node, src) or shaped(node, src) is not None


def is_whole(element: cst.BaseSlice, src: Source) -> bool:
    """Ex) None, `:` and an ellipsis, which leave every element where it is"""
    if isinstance(element, cst.Slice):
        return element.lower is None and element.upper is None and element.step is None
    assert isinstance(element, cst.Index)
    return isinstance(element.value, cst.Ellipsis) or src.value(element.value) == frozenset({NONE})


def is_plain(element: cst.BaseSlice, src: Source) -> bool:
    """A slice, or an index that is a number, None or an ellipsis."""
    return isinstance(element, cst.Slice) or (
        isinstance(element, cst.Index)
        and (
            isinstance(element.value, cst.Ellipsis)
            or all(isinstance(atom, Host) for atom in src.value(element.value))
        )
    )


def is_host(node: cst.BaseExpression, src: Source) -> bool:
    """Whether the expression is a number, a size, a dtype or a sequence of these."""
    return all(is_host_atom(atom) for atom in src.value(node))


def surely_host(node: cst.BaseExpression, src: Source) -> bool:
    """The same for every caller."""
    return surely_number(node, src) or (is_host(node, src) and is_local(node, src))


def is_host_atom(atom: Atom) -> bool:
    if isinstance(atom, Sequence):
        inner = atom.items if atom.items is not None else (atom.element,)
        return all(is_host_atom(a) for value in inner for a in value)
    return isinstance(atom, Host | DType)


# ------------------------------------------------------------------------------------ candidates


def is_built(at: Spot, number: int, names: Collection[str] = BUILDABLE) -> bool:
    """Whether a value may come from a factory by operations on it alone, as `built` finds."""
    nodes = at.graph.nodes
    return any(
        nodes[each].op == "call" and at.name_of(each) in names for each in taken_from(at, number)
    )


def taken_from(at: Spot, number: int) -> Iterator[int]:
    """The value, and what it may come from by operations on that alone."""
    nearest = [number]
    for _ in range(MAX_STEPS):
        yield from nearest
        nearest = [each for current in nearest for each in alone(at, current)]


def alone(at: Spot, number: int) -> Iterator[int]:
    """The operands that an operation may take beside values of the host: see `operand_alone`."""
    node = at.graph.nodes[number]
    if node.op in ("narrow", "subscript", "unary", "put"):
        yield node.operands[0]
    elif node.op in ("list", "tuple"):
        yield from node.operands[:MAX_PARTS]
    elif node.op in ("binop", "compare"):
        yield from (each for each in node.operands if not all(map(is_host_atom, at.of(each))))
    elif node.op == "call":
        callee = at.graph.nodes[node.operands[0]]
        function = (at.name_of(number) or "").startswith("torch.")
        if function:
            yield from node.arguments[:1]
        elif callee.op == "attr":
            yield callee.operands[0]
