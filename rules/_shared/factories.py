"""Factories: a tensor is built, and only then made what it is for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from amplint import CPU, NONE, READ, Atom, DType, Host, ProjectText, Sequence, known
from amplint import libcst as cst
from amplint.knowledge.factories import FACTORIES, FROM_DATA
from amplint.knowledge.operations import SHAPE_METHODS

from .local_values import is_local, is_surely_int, resolved, shaped
from .moves import is_sole_reader
from .tensors import is_surely_tensor

if TYPE_CHECKING:
    from amplint import View

# Methods that leave the same numbers in another shape.
CONVERSIONS = frozenset(
    "bool long int short float half bfloat16 double type contiguous clone logical_not neg".split()
)
SAME_ANYWHERE = frozenset(
    """
    eq ne lt le gt ge flip roll tril triu tile abs diag fill_ zero_ floor ceil trunc sign
    floor_ ceil_ trunc_ sign_
    """.split()
)
"""What has the same bits on every device, where its other operands are of the host."""
ROUNDED = frozenset(
    """
    add add_ sub sub_ mul mul_ div div_ pow pow_ sqrt rsqrt exp log cos sin cumsum softmax
    normal_ uniform_ bernoulli_ random_ exponential_ log_ exp_ clamp clamp_ clip clip_ sum mean
    round round_ tan tanh sigmoid relu log2 log10 log1p exp2 expm1 reciprocal square
    """.split()
)
"""What may differ in the last bit, or draws other random numbers."""
# `type` is any dtype that is given
CONVERSIONS_TO_INTEGERS = frozenset({"long", "int", "short", "type"})
OF_INTS = frozenset("flip roll tril triu tile diag".split())  # no tensor is met in these
GIVES_NUMBER = frozenset({"builtins.bool", "builtins.float", "builtins.int", "builtins.len"})
SLICED = "slice"
OTHER_BITS = "view as"
COMPARED = "compare"  # with something that nobody knows, a number most likely
PARAMETER = "nn.Parameter"  # whose copy is none
NO_FACTORY = frozenset({COMPARED, PARAMETER})
MAX_STEPS = 8
MAX_PARTS = 4  # of a tensor that is joined
JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.stack"})
VARIABLES = frozenset({"torch.autograd.Variable", "torch.autograd.variable.Variable"})
# With these, more is decided than what the tensor holds, and where.
DECIDING = frozenset({"out", "pin_memory", "generator", "names", "layout"})
# With these, a factory without `device=` may not build on the CPU at all.
OTHER_DEFAULTS = ("set_default_device", "set_default_tensor_type")


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
        is_named: whether a variable held the tensor on the way.
    """

    call: View
    name: str
    expanded: bool = False
    sliced: bool = False
    shaped: bool = True
    exact: bool = True
    alone: bool = True
    certain: bool = True
    placed: bool = False
    is_named: bool = False


@dataclass(frozen=True)
class _TensorStep:
    """An operation on one tensor, whose other operands are of the host.

    Args:
        operand: the tensor.
        word: the name of a method that does the same, or as much.
        is_certain: whether the other operands are of the host for every caller of the function.
        placed: whether it casts to a type that may name a device.
    """

    operand: View
    word: str
    is_certain: bool = True
    placed: bool = False


def built(
    at: View,
    refused: Collection[str] = (),
    steps: int = MAX_STEPS,
    device: View | None = None,
) -> Built | None:
    """The factory that a value comes from by operations on it alone.

    Ex) torch.ones of `(mask == 0).long()` after `mask = torch.triu(torch.ones(n, n))`; the first of
    `torch.cat([torch.ones(n), torch.zeros(n)])`

    None also where a variable on the way is read elsewhere, and where the factory's call has an
    argument that decides more, or one of `refused`. `device` is where the value is to be.
    """
    if steps <= 0:
        return None
    if at.op == READ:
        return _built_under(at, refused, steps) or _padded(at, device)
    if at.op == "call" and (name := _factory(at, refused)) is not None:
        is_strided = name == "torch.empty_strided"
        return Built(at, name, sliced=is_strided, certain=is_local(at.called))
    if at.op == "call" and (parts := _parts_of(at)):
        tensors = [built(part, refused, steps - 1) for part in parts]
        return None if None in tensors or tensors[0] is None else replace(tensors[0], alone=False)
    step = operand_alone(at)
    factory = built(step.operand, refused, steps - 1) if step is not None else None
    if step is None or factory is None or isinstance(at.cst, cst.NamedExpr):
        return None
    word = step.word
    return replace(
        factory,
        expanded=factory.expanded or word == "expand",
        sliced=factory.sliced or word == SLICED,
        shaped=factory.shaped and (word in SHAPE_METHODS or word == SLICED),
        exact=factory.exact and word not in ROUNDED and not _overflows(factory.name, word),
        alone=factory.alone and word not in NO_FACTORY,
        certain=factory.certain and step.is_certain,
        placed=factory.placed or step.placed,
    )


def _parts_of(call: View) -> list[View]:
    """Ex) [a, b] of torch.cat([a, b], dim=1)"""
    joins = call.callee in JOINS and not call.has_star and call.arg("out") is None
    tensors = call.arg("tensors", 0) if joins else None
    if tensors is None or tensors.op not in ("list", "tuple"):
        return []
    return [*tensors.operands] if len(tensors.operands) <= MAX_PARTS else []


def _built_under(name: View, refused: Collection[str], steps: int) -> Built | None:
    """The factory whose result a variable holds."""
    factory = built(name.origin, refused, steps - 1)
    return (
        replace(factory, is_named=True) if factory and is_sole_reader(name, name.origin) else None
    )


def _padded(buffer: View, device: View | None) -> Built | None:
    """The factory whose result a variable holds, after a tensor was written into it on whose device
    it is to be.

    Ex) torch.zeros of `rows.to(x.device)` after `rows = torch.zeros(n); rows[: len(x)] = x`
    """
    write = buffer.origin
    if write.op != "put" or device is None or device.op != "attr" or device.method != "device":
        return None
    written, _, tensor = write.operands
    if not tensor.is_same(device.operands[0]) or not _writes_at_plain_place(write, buffer):
        return None
    factory = built(written, ["device"])
    return replace(factory, is_named=True, alone=False) if factory is not None else None


def _writes_at_plain_place(write: View, after: View) -> bool:
    """Whether `x[0] = 1` writes at a plain place, for one variable alone to read it."""
    source = write.source
    is_assigned = isinstance(source.parent(source.parent(write.cst)), cst.Assign)
    is_plain = is_assigned and all(map(_is_plain, _indices_of(write)))
    return is_plain and is_sole_reader(after, write)


def _overflows(name: str, word: str) -> bool:
    """Whether a constant may become an integer that does not hold it: devices differ in that."""
    return name == "torch.full" and word in CONVERSIONS_TO_INTEGERS


def _factory(call: View, refused: Collection[str] = ()) -> str | None:
    """The name of the factory that the call is, if it could build the tensor on any device."""
    name = call.callee
    facts = FACTORIES.get(name) if name is not None else None
    if name is None or facts is None or facts.device != "default" or not facts.takes_device:
        return None
    keywords = {keyword for _, keyword, _ in call.arguments}
    if facts.dtype in FROM_DATA or not keywords.isdisjoint(DECIDING.union(refused, ["**"])):
        return None
    if call.fact(ProjectText).is_called(*OTHER_DEFAULTS):
        return None
    tensor = call.tensor if "device" not in keywords else None
    if tensor is not None and tensor.device.kind != CPU.kind:
        return None  # `torch.normal(mean, std)` draws where these are
    return name if not isinstance(call.cst, cst.NamedExpr) else None  # `(x := torch.zeros(3))`


def operand_alone(at: View) -> _TensorStep | None:
    """The operation that an expression is, if it takes one tensor and what is of the host."""
    if at.op == "unary" and at.operator != "Not":
        return _TensorStep(at.operands[0], "neg")
    if at.op in ("compare", "binop") and len(at.operands) == 2:
        left, right = at.operands
        word = "eq" if at.op == "compare" else "mul"
        return _apart(left, right, word) or _on_host(left, right)
    if at.op == "subscript":
        return _part_of(at)
    return _called_on(at) if at.op == "call" else None


def _part_of(at: View) -> _TensorStep | None:
    """Ex) mask[None, :], rows[2:]"""
    indices = _indices_of(at)
    certain = all(each.op == "slice" or is_local(each) for each in indices)
    if all(map(_is_whole, indices)):
        return _TensorStep(at.operands[0], "view", certain)
    return _TensorStep(at.operands[0], SLICED, certain) if all(map(_is_plain, indices)) else None


def _indices_of(at: View) -> list[View]:
    """Ex) None and `:` of x[None, :]"""
    index = at.operands[1]
    return [*index.operands] if index.op == "tuple" else [index]


def _called_on(call: View) -> _TensorStep | None:
    """Ex) torch.triu(mask, 1), mask.long()"""
    name = call.callee or ""
    args = [*call.arguments]
    starred = [each for _, _, each in args if each.op == "starred"]
    if any(keyword in ("**", "out") for _, keyword, _ in args) or not all(map(_is_host, starred)):
        return None
    if name.startswith("torch.") and args and args[0][1] is None:
        word, operand = name[6:], args.pop(0)[2]
    elif call.receiver is not None and (not name or name.startswith("Tensor.")):
        word, operand = call.method, call.receiver
    else:
        return None
    others = [each for _, _, each in args]
    is_method = not name.startswith("torch.")
    sure = is_method or is_local(call.called)
    if name in VARIABLES:
        return _TensorStep(operand, "view", sure) if not others else None
    if word in ("type", "to") and len(others) == 1 and _is_dtype(others[0]):
        return _TensorStep(operand, "type", _is_surely_dtype(others[0]))
    if word == "type":
        return _TensorStep(operand, word, placed=True)
    if word == "view" and len(others) == 1 and not starred:
        other_bits = _is_dtype(others[0])
        return _TensorStep(operand, OTHER_BITS if other_bits else word, _is_surely_size(others[0]))
    if word in SHAPE_METHODS | CONVERSIONS or (word == PARAMETER and not is_method):
        return _TensorStep(operand, word, sure)
    if word in SAME_ANYWHERE | ROUNDED and all(map(_is_host, others)):
        of_ints = word in OF_INTS
        return _TensorStep(operand, word, sure and (of_ints or all(map(_is_surely_host, others))))
    return None


def _apart(left: View, right: View, word: str) -> _TensorStep | None:
    """The side that is not of the host, where the other one is."""
    if _is_host(right):
        return _TensorStep(left, word, _is_surely_host(right))
    return _TensorStep(right, word, _is_surely_host(left)) if _is_host(left) else None


def _on_host(left: View, right: View) -> _TensorStep | None:
    """The side that is a tensor on the CPU, where nothing is known of the other, or only that it
    may be a number.

    Ex) torch.rand(n) of `torch.rand(n) > rate` and of `torch.rand(n) * rate`
    """
    for side, other in ((left, right), (right, left)):
        tensor, value = side.tensor, other.value
        perhaps = known(value)
        if tensor is None or tensor.device.kind != CPU.kind or perhaps == value:
            continue
        if all(map(_is_host_atom, perhaps)):
            return _TensorStep(side, "mul", False) if perhaps else _TensorStep(side, COMPARED)
    return None


def same_numbers(factory: Built) -> bool:
    """Whether the factory makes the same bits on every device for every caller.

    The integers of an arange are exact, and so are its floats if they count from 0 by 1.
    """
    if factory.name != "torch.arange":
        return FACTORIES[factory.name].deterministic
    tensor = factory.call.tensor
    if tensor is None or tensor.dtype != "int64":
        return False
    numbers = [argument for _, keyword, argument in factory.call.arguments if keyword is None]
    from_zero = len(numbers) == 1 and factory.call.arg("step") is None
    return from_zero or all(map(is_surely_int, numbers))


def _is_dtype(at: View) -> bool:
    """Ex) torch.float16, x.dtype; not `self.dtype` that holds the name of a type"""
    kinds = known(at.value)
    named = at.op == "attr" and at.method == "dtype"
    return (named or bool(kinds)) and all(isinstance(atom, DType) or atom == NONE for atom in kinds)


def _is_surely_size(at: View) -> bool:
    """Whether the one argument of `view` is no dtype for every caller."""
    return at.op in ("tuple", "list") or is_surely_int(at) or shaped(at) is not None


def _is_whole(index: View) -> bool:
    """Ex) None, `:` and an ellipsis, which leave every element where it is"""
    if index.op == "slice":
        return not index.operands
    return _is_ellipsis(index) or index.value == frozenset({NONE})


def _is_plain(index: View) -> bool:
    """A slice, or an index that is a number, None or an ellipsis."""
    is_one = all(isinstance(atom, Host) for atom in index.value)
    return index.op == "slice" or is_one or _is_ellipsis(index)


def _is_ellipsis(index: View) -> bool:
    return index.name == "builtins.Ellipsis"


def _is_host(at: View) -> bool:
    """Whether the expression is a number, a size, a dtype or a sequence of these."""
    return all(map(_is_host_atom, _unstarred(at).value))


def _is_surely_host(at: View) -> bool:
    """Whether the expression is a number, a size, a dtype or a sequence of these for every
    caller."""
    expression = _unstarred(at)
    return _is_surely_number(expression) or (_is_host(expression) and is_local(expression))


def _is_surely_number(at: View) -> bool:
    """Ex) float(x), x.item(), len(x); a variable that holds it"""
    origin = resolved(at)
    if origin.op == "call" and (origin.method == "item" or origin.callee in GIVES_NUMBER):
        return origin.method == "item" or is_local(origin.called)
    return is_surely_int(origin)


def _unstarred(at: View) -> View:
    """Ex) sizes of *sizes"""
    return at.operands[0] if at.op == "starred" else at


def _is_host_atom(atom: Atom) -> bool:
    if isinstance(atom, Sequence):
        inner = atom.items if atom.items is not None else (atom.element,)
        return all(_is_host_atom(a) for value in inner for a in value)
    return isinstance(atom, Host | DType)


def _is_surely_dtype(at: View) -> bool:
    """Ex) torch.float16, x.dtype of a tensor; not the name of a type, which has a device, too"""
    origin = resolved(at)
    if origin.op == "attr" and origin.method == "dtype":
        return is_surely_tensor(origin.operands[0])
    are_dtypes = bool(at.value) and all(isinstance(each, DType) for each in at.value)
    return are_dtypes and is_local(at)
