"""A tensor on the device is used where Python or torch needs a number.

An index, a slice bound, a size, the end of a `range` or of a `torch.arange`, what `masked_fill`
fills in: where a number is needed, a tensor is read back without a word, and the host waits until
the device has computed it. It is an `.item()` that nobody wrote.

    for x, mask in loader:
        x, mask = x.cuda(), mask.cuda()
        longest = mask.sum(1).max()
        y = model(x[:, :longest])         # waits at every step

    for x, lengths in loader:
        longest = int(lengths.max())      # the lengths have never left the host
        y = model(x.cuda()[:, :longest])

What the host needs, compute on the host: lengths in the collate function, sizes from `x.shape`.
What only the device needs stays there: `x.index_select(0, i)` and `torch.gather` take tensors, as
does an index with dimensions, `torch.where`, or `clamp` where both bounds are tensors.

A variable that is used so several times is reported once: where it is used first.

Fix safety: none is offered, for the number must come from elsewhere.

Known limits: as for AMP101. An index is reported only where the tensor is known to have no
dimension, since one with dimensions gathers on the device. A parameter of `forward` that is only
subscripted or counted with may be a list or an int, and is left alone, also where it is passed on;
an annotation makes it a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    FLOATS,
    HOT,
    Finding,
    Group,
    Host,
    Method,
    Object,
    Related,
    Rule,
    Sequence,
    Spot,
    Syncs,
    Tensor,
    TensorCertainty,
    TensorTree,
    Value,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.host_reads import takes_number

from .._shared.reads import device_tensor, hot_evidence

if TYPE_CHECKING:
    from amplint import Source

    Use = tuple[cst.BaseExpression, Tensor | None, str]

INTEGER_BUILTINS = frozenset(f"builtins.{name}" for name in ("range", "bin", "chr", "hex", "oct"))
# These take sequences of numbers, or any objects.
NOT_OF_ONE_NUMBER = frozenset({"math.dist", "math.fsum", "math.prod", "math.sumprod"})
# Lists of another kind: what they are indexed with is a number, and no tensor that gathers.
LISTS = frozenset({"torch.nn.ModuleList", "torch.nn.ParameterList", "torch.nn.Sequential"})
LISTS_OF_THE_HOST = frozenset({"list", "size", "str"})
MASKS = frozenset({"bool", "uint8"})


# An expression, the tensor on the device that it is (None: it is none), and what it is used as.


def is_index(at: Spot) -> bool:
    """Ex) x[:longest], logits[best]"""
    index = at.node.second
    inner = at.graph.nodes[index]
    parts = inner.operands if inner.op == "tuple" else (index,)
    bounds = [n for part in parts for n in slice_bounds(at, part)]
    container = at.of(at.node.operands[0])
    return any(is_read(at, n, integer_read(joined_at(at, n))) for n in bounds) or any(
        is_read(at, n, index_read(joined_at(at, n), container)) for n in parts
    )


def slice_bounds(at: Spot, number: int) -> tuple[int, ...]:
    node = at.graph.nodes[number]
    return node.operands if node.op == "slice" else ()


def takes_number_of_tensor(at: Spot) -> bool:
    """Ex) range(n), torch.arange(n), x.view(n, -1)"""
    return any(
        is_read(at, number, read)
        for name in at.names
        for position, (keyword, argument) in enumerate(at.given_arguments)
        for number, read in numbers_for(name, position, keyword, argument, at)
    )


def numbers_for(
    name: str, position: int, keyword: str | None, argument: int, at: Spot
) -> Iterator[tuple[int, Tensor | None]]:
    """The expressions that stand for a number in an argument, as `in_arguments` has it."""
    of_math = name.startswith("math.") and name not in NOT_OF_ONE_NUMBER
    if name in INTEGER_BUILTINS:
        yield argument, integer_read(joined_at(at, argument))
    elif of_math or takes_number(name, position, keyword):
        node = at.graph.nodes[argument]
        written = node.operands if node.op in ("tuple", "list") else ()
        for number in (argument, *written):
            yield number, number_read(joined_at(at, number))


def repeats(at: Spot) -> bool:
    """Ex) [pad] * missing"""
    left, right = at.node.operands
    return at.node.data == "Mult" and any(
        is_repeated(at.of(one)) and is_read(at, other, integer_read(joined_at(at, other)))
        for one, other in ((left, right), (right, left))
    )


def is_read(at: Spot, number: int, tensor: Tensor | None) -> bool:
    return tensor is not None and at.surely_tensor(number)


rule = Rule(
    "AMP105",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="compute the number on the host, or use an operation that takes a tensor (`index_select`)",
    witness=Syncs(before=12, after=0),
    supersedes=("AMP113",),
    candidates=(
        nodes("subscript", "put") & is_index
        | nodes("call") & takes_number_of_tensor
        | nodes("binop") & repeats
    )
    & HOT,
)


@rule.check
def check_subscript(node: cst.Subscript, src: Source) -> Iterator[Finding]:
    """Ex) x[:longest], logits[best], self.experts[choice]"""
    yield from first_read(in_brackets(node, src), src)


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) range(n), torch.arange(n), x.view(n, -1), x.split(sizes), math.sqrt(variance)"""
    yield from first_read(in_arguments(call, src), src)


@rule.check
def check_repetition(node: cst.BinaryOperation, src: Source) -> Iterator[Finding]:
    """Ex) [pad] * missing"""
    yield from first_read(repetition(node, src), src)


def first_read(uses: Iterator[Use], src: Source) -> Iterator[Finding]:
    """One finding for the first use that reads a tensor in a hot place.

    Where a variable holds a tensor that is used for a number again and again, what has to be
    changed is where it comes from, of which the first use tells.
    """
    read = first_of(uses, src)
    if read is None:
        return
    number, use, evidence = read
    again = other_reads(number, src)
    if any(src.span(each).start < src.span(number).start for each in again):
        return
    message = f"`{src.brief(number)}` as {use} waits for the device in every iteration"
    also = (src.related_node(each, "and here") for each in again)
    yield src.finding(rule, number, message, None, (*evidence, *also))


def first_of(
    uses: Iterator[Use], src: Source
) -> tuple[cst.BaseExpression, str, tuple[Related, ...]] | None:
    for number, tensor, use in uses:
        evidence = hot_evidence(number, tensor, src)
        if evidence is not None and src.ask(TensorCertainty, number):
            return number, use, evidence
    return None


def other_reads(number: cst.BaseExpression, src: Source) -> list[cst.BaseExpression]:
    """Where a variable is used for a number besides, with the same value."""
    if not isinstance(number, cst.Name):
        return []
    found: list[cst.BaseExpression] = []
    for use in src.uses(number):
        read = first_of(uses_around(use, src), src) if use is not number else None
        if read is not None and read[0] is use:
            found.append(use)
    return sorted(found, key=src.span)


def uses_around(number: cst.BaseExpression, src: Source) -> Iterator[Use]:
    """The uses as numbers by the expression that an expression is a part of."""
    around = src.layout.innermost(number, (cst.Subscript, cst.Call, cst.BinaryOperation))
    if isinstance(around, cst.Subscript):
        yield from in_brackets(around, src)
    elif isinstance(around, cst.Call):
        yield from in_arguments(around, src)
    elif isinstance(around, cst.BinaryOperation):
        yield from repetition(around, src)


def in_brackets(node: cst.Subscript, src: Source) -> Iterator[Use]:
    for element in node.slice:
        place = element.slice
        if isinstance(place, cst.Index):
            yield (
                place.value,
                index_read(joined(place.value, src), src.value(node.value)),
                "an index",
            )
        elif isinstance(place, cst.Slice):
            for bound in (place.lower, place.upper, place.step):
                if bound is not None:
                    yield bound, integer_read(joined(bound, src)), "a slice bound"


def in_arguments(call: cst.Call, src: Source) -> Iterator[Use]:
    name = called(call, src)
    if name is None:
        return
    of_math = name.startswith("math.") and name not in NOT_OF_ONE_NUMBER
    for position, arg in enumerate(call.args):
        keyword = arg.keyword.value if arg.keyword is not None else None
        if name in INTEGER_BUILTINS:
            yield arg.value, integer_read(joined(arg.value, src)), "a number"
        elif of_math or takes_number(name, position, keyword):
            for number in written_numbers(arg.value):
                yield number, number_read(joined(number, src)), "a number"


def repetition(node: cst.BinaryOperation, src: Source) -> Iterator[Use]:
    if not isinstance(node.operator, cst.Multiply):
        return
    for repeated, times in ((node.left, node.right), (node.right, node.left)):
        if is_repeated(src.value(repeated)):
            yield times, integer_read(joined(times, src)), "a repeat count"


def is_repeated(value: Value) -> bool:
    """Whether a product with a value repeats it."""
    atom = only(value)
    return isinstance(atom, Sequence) or (isinstance(atom, Host) and atom.kind == "str")


def called(call: cst.Call, src: Source) -> str | None:
    """The canonical name of what is called: "torch.arange", "Tensor.view", "math.sqrt"."""
    if isinstance(call.func, cst.Attribute):
        method = only(src.value(call.func))
        if isinstance(method, Method) and isinstance(method.of, Tensor | TensorTree):
            return f"Tensor.{method.name}"
    return src.name(call.func)


def written_numbers(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Ex) n and m in x.view((n, m)); else the expression itself"""
    if isinstance(node, cst.Tuple | cst.List):
        for element in node.elements:
            yield element.value
    else:
        yield node


def number_read(value: Value) -> Tensor | None:
    """The tensor on the device that stands for a number, itself or in a sequence of numbers."""
    atom = only(value)
    inside = [value]
    if isinstance(atom, Sequence):
        inside = list(atom.items or (atom.element,))
    tensors = (device_tensor(each, certain=True) for each in inside)
    # What has a dimension is no number: that it stands for one must be a mistake of another kind.
    return next((t for t in tensors if isinstance(t, Tensor) and t.rank != 1), None)


def integer_read(value: Value) -> Tensor | None:
    """The same for one integer. A float raises there: what is known of it must be wrong."""
    tensor = device_tensor(value, certain=True)
    return tensor if isinstance(tensor, Tensor) and tensor.dtype not in FLOATS else None


def joined_at(at: Spot, number: int) -> Value:
    """At least what `joined` gives."""
    return without_numbers(at.of(number))


def joined(node: cst.BaseExpression, src: Source) -> Value:
    """The value of an expression; of a variable that is assigned in several places, a tensor alone
    where it is one on one path and an integer on another.

    Of a parameter that is either, or of `max(1, n, tensor)`, nobody knows which it is.
    """
    value = src.value(node)
    if not isinstance(node, cst.Name) or src.origin(node) is not None or src.parameter(node):
        return value
    return without_numbers(value)


def without_numbers(value: Value) -> Value:
    """Ex) n of `n = x.shape[0]`, then `if short: n = lengths.max()`"""
    if not any(isinstance(atom, Tensor) and atom.rank == 0 for atom in value):
        return value
    return frozenset(a for a in value if not (isinstance(a, Host) and a.kind == "int"))


def index_read(index: Value, of: Value) -> Tensor | None:
    """The tensor that stands for a number between brackets; one with dimensions gathers."""
    tensor = integer_read(index)
    if tensor is None or tensor.dtype in MASKS:
        return None
    container = only(of)
    if isinstance(container, Tensor | TensorTree):
        return tensor if tensor.rank == 0 else None
    is_list = (
        isinstance(container, Sequence)
        or (isinstance(container, Object) and container.type in LISTS)
        or (isinstance(container, Host) and container.kind in LISTS_OF_THE_HOST)
    )
    return tensor if is_list else None
