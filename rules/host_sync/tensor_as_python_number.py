"""A tensor on the device is used where Python or torch needs a number.

An index, a slice bound, a size, the end of a `range` or of a `torch.arange`, the value for
`masked_fill`: where a number is needed, a tensor is silently read back, and the host waits until
the device has computed it. It is a hidden `.item()`.

    for x, mask in loader:
        x, mask = x.cuda(), mask.cuda()
        longest = mask.sum(1).max()
        y = model(x[:, :longest])         # waits at every step

    for x, lengths in loader:
        longest = int(lengths.max())      # the lengths have never left the host
        y = model(x.cuda()[:, :longest])

Compute on the host what the host needs: lengths in the collate function, sizes from `x.shape`.
Leave on the device what only the device needs: `x.index_select(0, i)` and `torch.gather` take
tensors, as does an index with dimensions, `torch.where`, or `clamp` where both bounds are tensors.

A variable that is used as a number several times is reported once, at the first use.

Fix safety: none is offered, because the number has to come from elsewhere.

Known limits: as for AMP101. An index is reported only if the tensor is known to have no dimensions,
since an index with dimensions gathers on the device. A parameter of `forward` that is only
subscripted, or used for counting, may be a list or an int; it is not reported, even where it is
passed on, unless an annotation makes it a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint import (
    FLOATS,
    HOT,
    READ,
    Finding,
    Group,
    Host,
    Object,
    Rule,
    Sequence,
    Syncs,
    Tensor,
    TensorCertainty,
    TensorTree,
    Value,
    View,
    calls,
    nodes,
    only,
)
from amplint.knowledge.host_reads import TAKE_NUMBERS, takes_number, takes_size

from .._shared.reads import device_tensor, read_of_batches
from ._counts import MASKS

if TYPE_CHECKING:
    from .._shared.reads import Reasons


class NumberUse(NamedTuple):
    """A use as a number.

    Args:
        number: the expression.
        tensor: the tensor on the device that it is; None: it is none.
        what: what it is used as.
        help: what to do about it, where that is not what the rule says of all.
    """

    number: View
    tensor: Tensor | None
    what: str
    help: str = ""


TAKE_SIZE = "keep lengths on the host as a list from the collator, and take the size from it"
INTEGER_BUILTINS = frozenset(f"builtins.{name}" for name in ("range", "bin", "chr", "hex", "oct"))
# These take sequences of numbers, or any objects.
NOT_OF_ONE_NUMBER = frozenset({"math.dist", "math.fsum", "math.prod", "math.sumprod"})
OF_ONE_NUMBER = frozenset(f"math.{name}" for name in dir(math)) - NOT_OF_ONE_NUMBER
# Lists of another kind: what they are indexed with is a number, and no tensor that gathers.
LISTS = frozenset({"torch.nn.ModuleList", "torch.nn.ParameterList", "torch.nn.Sequential"})
rule = Rule(
    "AMP105",
    __doc__,
    group=Group.PERFORMANCE,
    help="compute the number on the host, or use an operation that takes a tensor (`index_select`)",
    witness=Syncs(before=12, after=0),
    supersedes=("AMP113",),
)


@rule.on(
    (nodes("subscript", "put", "binop") | calls(*INTEGER_BUILTINS, *OF_ONE_NUMBER, *TAKE_NUMBERS))
    & HOT
)
def check(at: View) -> Iterator[Finding]:
    """One finding for the first use that reads a tensor in a hot place.

    Where a variable holds a tensor that is used for a number again and again, what has to be
    changed is where it comes from, which the first use shows.
    """
    read = first_read(at)
    if read is None:
        return
    use, reasons = read
    number = use.number
    again = other_reads(number)
    if any(each.span.start < number.span.start for each in again):
        return
    message = f"using `{number.brief}` as {use.what} waits for the device in every iteration"
    because = (*reasons, *(each.related("and here") for each in again))
    yield number.finding(message, because, help=use.help)


def first_read(at: View) -> tuple[NumberUse, Reasons] | None:
    for use in uses(at):
        reasons = read_of_batches(use.number, use.tensor)
        if reasons is not None and use.number.ask(TensorCertainty):
            return use, reasons
    return None


def other_reads(number: View) -> list[View]:
    """Where a variable is used for a number besides, with the same value."""
    if number.op != READ:
        return []
    reads = [read[0].number for read in map(first_read, number.uses) if read is not None]
    others = (each for each in reads if each.op == READ and each.is_same(number))
    return sorted((each for each in others if each.span != number.span), key=lambda at: at.span)


def uses(at: View) -> Iterator[NumberUse]:
    """The numbers that an operation takes.

    Ex) x[:longest], range(n), torch.arange(n), x.view(n, -1), [pad] * missing
    """
    if at.op in ("subscript", "put"):
        yield from in_brackets(*at.operands[:2])
    elif at.op == "call":
        yield from in_arguments(at)
    elif at.op == "binop" and at.operator == "Mult":
        left, right = at.operands
        for repeated, times in ((left, right), (right, left)):
            if is_repeated(repeated.value):
                yield NumberUse(times, integer_read(joined(times)), "a repeat count")


def in_brackets(container: View, index: View) -> Iterator[NumberUse]:
    """Ex) x[:longest], logits[best], self.experts[choice]"""
    for part in index.operands if index.op == "tuple" else (index,):
        if part.op == "slice":
            for bound in part.operands:
                yield NumberUse(bound, integer_read(joined(bound)), "a slice bound", TAKE_SIZE)
        elif (tensor := integer_read(joined(part))) is not None:
            yield NumberUse(part, index_read(tensor, container.value), "an index")


def in_arguments(call: View) -> Iterator[NumberUse]:
    """Ex) range(n), torch.arange(n), x.view(n, -1), x.split(sizes), math.sqrt(variance)"""
    name = call.callee or ""
    for position, keyword, operand in call.arguments:
        argument = operand.operands[0] if operand.op == "starred" else operand
        if name in INTEGER_BUILTINS:
            help = TAKE_SIZE if name == "builtins.range" else ""
            yield NumberUse(argument, integer_read(joined(argument)), "a number", help)
        elif name in OF_ONE_NUMBER or takes_number(name, position, keyword):
            for number in argument.operands if argument.op in ("tuple", "list") else (argument,):
                help = TAKE_SIZE if takes_size(name, position, keyword) else ""
                yield NumberUse(number, number_read(joined(number)), "a number", help)


def is_repeated(value: Value) -> bool:
    """Whether a product with a value repeats it."""
    atom = only(value)
    return isinstance(atom, Sequence) or (isinstance(atom, Host) and atom.kind == "str")


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
    """The tensor on the device that stands for one integer. A float raises there: what is known of
    it must be wrong."""
    tensor = device_tensor(value, certain=True)
    return tensor if isinstance(tensor, Tensor) and tensor.dtype not in FLOATS else None


def joined(at: View) -> Value:
    """The value of an expression; of a variable that is assigned in several places, a tensor alone
    where it is one on one path and an integer on another.

    Of a parameter that is either, or of `max(1, n, tensor)`, nobody knows which it is.
    """
    return without_numbers(at.value) if at.is_joined else at.value


def without_numbers(value: Value) -> Value:
    """Ex) n of `n = x.shape[0]`, then `if short: n = lengths.max()`"""
    if not any(isinstance(atom, Tensor) and atom.rank == 0 for atom in value):
        return value
    return frozenset(a for a in value if not (isinstance(a, Host) and a.kind == "int"))


def index_read(tensor: Tensor, of: Value) -> Tensor | None:
    """The tensor that stands for a number between brackets; one with dimensions gathers."""
    if tensor.dtype in MASKS:
        return None
    container = only(of)
    if isinstance(container, Tensor | TensorTree):
        return tensor if tensor.rank == 0 else None
    is_modules = isinstance(container, Object) and container.type in LISTS
    return tensor if is_modules or isinstance(container, Sequence) else None
