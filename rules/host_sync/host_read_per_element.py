"""A loop reads the elements of a tensor one by one.

`.item()`, `float()`, `int()` and a test of an element on the device each make the host wait until
the device has caught up. A loop over the elements waits once for each element. On the CPU each read
costs microseconds. `.tolist()` before the loop waits once.

    for index in order:
        names.append(classes[index.item()])     # waits for every element

    for index in order.tolist():                # waits once
        names.append(classes[index])

The same holds for a reduction row by row: a reduction over a dimension handles all rows at once.

    for i in range(len(mask)):
        lengths.append(mask[i].sum().item())    # waits for every row

    lengths = mask.sum(-1).tolist()             # waits once

A loop is reported once, at its first read of an element, in training or elsewhere. If the loop
itself runs for every batch of training, AMP101, AMP103 or AMP105 reports the read.

Fix safety: there is no fix; what the loop does with each element has to change with it.

Known limits: a tensor that is known to be on the CPU, a tensor that changes inside the loop,
datasets, collate functions and elements of lists of tensors are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from amplint import (
    CPU,
    Cost,
    Finding,
    Group,
    Host,
    Rule,
    Syncs,
    TensorCertainty,
    View,
    calls,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.operations import RESULTS, SAME_VALUES
from amplint.knowledge.vocabulary import PREPARES_ITEMS

from ._conditions import last_operand
from ._loops import IN_LOOP

if TYPE_CHECKING:
    from amplint import Source

    Loop = cst.For | cst.CompFor

READING = frozenset({"item", "tolist"})
NUMBERS = frozenset({"builtins.float", "builtins.int"})
FINITE = frozenset({"torch.isnan", "torch.isinf", "torch.isfinite"})
COUNTS = frozenset({"builtins.range", "builtins.enumerate"})


# Which object it is, is known to the host.
IDENTITY = frozenset({"Is", "IsNot"})
ORDERS = frozenset({"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"})  # compared element by element
ELEMENTS = frozenset({"iter", "unpack", "subscript"})  # what makes elements
REDUCTIONS = frozenset(
    name
    for name, result in RESULTS.items()
    if result.kind == "tensor" and result.rank == "scalar-without-dim"
)
OF_ITSELF = REDUCTIONS | FINITE | {f"Tensor.{name}" for name in SAME_VALUES}

rule = Rule(
    "AMP113",
    __doc__,
    group=Group.PERFORMANCE,
    help="read all elements at once with `.tolist()`, before the loop",
    witness=Syncs(before=8, after=1),
    cost=Cost.ELEMENT,
)


@rule.on(calls(*(f".{name}" for name in READING), *NUMBERS) & IN_LOOP)
def check_number(call: View) -> Iterator[Finding]:
    yield from reading(call, element_read(call))


@rule.on(nodes("test") & IN_LOOP)
def check_test(test: View) -> Iterator[Finding]:
    test = last_operand(test)
    yield from reading(test, element_tested(test))


def reading(read: View, element: View | None) -> Iterator[Finding]:
    """The finding at a loop's first read of an element of what it goes through.

    What has to be changed is the loop, however many elements it reads in a round.
    """
    origin = element_of(element) if element is not None and is_read_back(read, element) else None
    if origin is None:
        return
    tensor, loop = origin
    places = {read.span: read, **{each.span: each for each in other_reads(read, loop)}}
    start, *later = sorted(places)
    if read.span == start:
        is_row = element is not None and is_reduced(element)
        what = "row" if is_row else "element"
        message = f"`{read.brief}` waits for each {what} of `{tensor.brief}`"
        related = [read.of(loop.iter).related("in this loop")]
        related += [places[each].related("and here") for each in later]
        help_ = "reduce all rows at once, and read them with `.tolist()`" if is_row else ""
        yield read.finding(message, related, help=help_)


def other_reads(at: View, loop: Loop) -> Iterator[View]:
    """The reads of elements in a loop, of what it goes through."""
    for node in within(loop, at.source):
        for read, element in elements_read(at.of(node)):
            if element is not None and is_read_back(read, element):
                origin = element_of(element)
                if origin is not None and origin[1] is loop:
                    yield read


def elements_read(at: View) -> Iterator[tuple[View, View | None]]:
    """The expressions that an operation or a statement asks for an element, each with that."""
    tested: Sequence[View] = ()
    if at.op == "call":
        yield at, element_read(at)
    elif at.op == "bool":
        tested = at.operands[:-1]
    elif at.op == "unary" and at.operator == "Not":
        tested = at.operands
    elif isinstance(at.cst, cst.If | cst.While | cst.Assert | cst.IfExp | cst.CompIf):
        tested = (at.of(at.cst.test),)
    for each in map(last_operand, tested):
        yield each, element_tested(each)


def element_read(call: View) -> View | None:
    """The tensor that a call reads, if that may be an element.

    Ex) index.item(), float(scores[i])
    """
    arguments = [argument for _, _, argument in call.arguments]
    if call.method in READING and not arguments:
        return call.receiver
    return arguments[0] if len(arguments) == 1 and call.callee in NUMBERS else None


def element_tested(test: View) -> View | None:
    """The tensor that a test reads, if that may be an element.

    Ex) score < 0.5, torch.isnan(losses[i]), mask[i].any()
    """
    if is_reduced(test):
        return test
    if test.op == "compare" and len(test.operators) == 1:
        return test.operands[0] if IDENTITY.isdisjoint(test.operators) else None
    arguments = [argument for _, _, argument in test.arguments]
    return arguments[0] if len(arguments) == 1 and test.callee in FINITE else None


def is_read_back(read: View, element: View) -> bool:
    """Whether an element surely is a tensor that is not known to be on the CPU, nor read by a
    dataset or a function that collates: there, tensors are on the CPU."""
    tensor, origin = element.tensor, whole(element).origin
    if tensor is None or tensor.device.kind == CPU.kind or origin.op not in ELEMENTS:
        return False
    return not any(word in read.function.name for word in PREPARES_ITEMS)


def all_of(loop: Loop, src: Source) -> cst.CSTNode:
    """A loop with all that runs in it: of one in a comprehension, the comprehension."""
    if isinstance(loop, cst.For):
        return loop
    return next(each for each in src.ancestors(loop) if isinstance(each, cst.BaseComp))


def within(loop: Loop, src: Source) -> Iterator[cst.CSTNode]:
    """The nodes of a loop; of one in a comprehension, those of the comprehension."""
    stack = [all_of(loop, src)]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children)


def element_of(element: View) -> tuple[View, Loop] | None:
    """The tensor with elements of which an expression is one, and the loop that goes through it.

    Ex) `x` in `for x in tensor`, `tensor[i]` and `tensor[i].sum()` in `for i in range(n)`
    """
    row = whole(element)
    if is_reduced(element) and not is_whole_row(row):
        return None
    origin = element_at(row)
    tensor = origin[0].tensor if origin is not None else None
    if origin is None or tensor is None or tensor.rank == 0 or tensor.device.kind == CPU.kind:
        return None
    if not all(is_same_for_all(other, origin[1]) for other in compared_with(element)):
        return None
    return origin if origin[0].ask(TensorCertainty) else None


def whole(element: View) -> View:
    """The row or element that something is computed from alone, beside what that is compared with.

    Ex) t[i] of t[i].float().sum(), torch.any(t[i]) and (t[i] == pad).sum()
    """
    *_, last = steps(element)
    return last


def compared_with(element: View) -> Iterator[View]:
    """Ex) pad of (t[i] == pad).sum()"""
    return (each.operands[1] for each in steps(element) if each.op == "compare")


def is_same_for_all(other: View, loop: Loop) -> bool:
    """Whether an expression in a loop is what it was before it."""
    src = other.source
    calls_nothing = not any(src.calls(other.cst))
    return calls_nothing and src.variables.same_before(other.cst, all_of(loop, src))


def steps(element: View) -> Iterator[View]:
    """The way from what is read back to the row or element that it is computed from."""
    at: View | None = element
    while at is not None:
        yield at
        at = computed_from(at)


def computed_from(at: View) -> View | None:
    """Ex) t[i] of t[i].sum() and of t[i] == pad"""
    if at.op == "compare" and len(at.operators) == 1 and ORDERS.issuperset(at.operators):
        return at.operands[0]
    if at.callee in OF_ITSELF and len(operands := inputs(at)) == 1:
        return operands[0]
    return None


def inputs(call: View) -> list[View]:
    """The operands of a call: its receiver, and what it is given."""
    receiver = call.receiver if (call.callee or "").startswith("Tensor.") else None
    arguments = [argument for _, _, argument in call.arguments]
    return [receiver, *arguments] if receiver is not None else arguments


def is_reduced(element: View) -> bool:
    """Ex) t[i].sum()"""
    return element.callee in REDUCTIONS


def is_whole_row(row: View) -> bool:
    """Whether a row has as many elements as all others: what is masked or sliced may have not.

    Ex) `row`, `t[i]`, `t[:, i]`; not `t[i, mask]`, `t[i, :n]`
    """
    if row.op != "subscript":
        return True
    index = row.operands[1]
    parts = index.operands if index.op == "tuple" else (index,)
    return all(not part.operands if part.op == "slice" else is_integer(part) for part in parts)


def is_integer(index: View) -> bool:
    atom = only(index.value)
    return isinstance(atom, Host) and atom.kind == "int"


def element_at(element: View) -> tuple[View, Loop] | None:
    """The tensor, or another container, that a loop reads a row or element of, and the loop."""
    node, src = element.cst, element.source
    if isinstance(node, cst.Name):
        return element_named(element)
    if not isinstance(node, cst.Subscript):
        return None
    container = element.of(node.value)
    if isinstance(node.value, cst.Name) and (row := element_named(container)) is not None:
        return row  # `row[0]` in `for row in tensor`
    loops = [loop for index in indices(node) if (loop := loop_of(index, src)) is not None]
    counting = [loop for loop in loops if counts(element.of(loop.iter))]
    # Of `t[i, j]`, the inner loop reads all of `t[i]`, and the outer one may read something else.
    for loop in sorted(counting, key=lambda loop: src.span(loop).start, reverse=True):
        if stays(node.value, loop, src):
            return container, loop
    return None


def element_named(name: View) -> tuple[View, Loop] | None:
    """The container of whose rows or elements a variable is one in each iteration, and the loop."""
    loop = loop_of(name.cst, name.source)
    tensor = gone_through(name, loop) if loop is not None else None
    return (tensor, loop) if tensor is not None and loop is not None else None


def indices(node: cst.Subscript) -> Iterator[cst.Name]:
    """The names by which something is indexed: `i` and `j` of `x[i, :, j]`."""
    for element in node.slice:
        if isinstance(element.slice, cst.Index) and isinstance(element.slice.value, cst.Name):
            yield element.slice.value


def loop_of(name: cst.Name, src: Source) -> Loop | None:
    """The loop whose target binds a name, with no other binding since."""
    inner: cst.CSTNode = name
    for around in src.ancestors(name):
        if isinstance(around, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            return None
        loops: list[Loop] = []
        if isinstance(around, cst.For) and inner is around.body:
            loops = [around]
        elif isinstance(around, cst.BaseComp):
            loops = nested(around.for_in)
        for loop in loops:
            if name.value in targets(loop.target):
                return loop
        inner = around
    return None


def nested(loop: cst.CompFor | None) -> list[Loop]:
    """The loops of a comprehension, the innermost first."""
    loops: list[Loop] = []
    while loop is not None:
        loops.insert(0, loop)
        loop = loop.inner_for_in
    return loops


def targets(target: cst.BaseExpression) -> tuple[str | None, ...]:
    """The names that a loop binds, by position."""
    if isinstance(target, cst.Name):
        return (target.value,)
    if isinstance(target, cst.Tuple | cst.List):
        inner = [element.value for element in target.elements]
        return tuple(each.value if isinstance(each, cst.Name) else None for each in inner)
    return ()


def gone_through(name: View, loop: Loop) -> View | None:
    """The tensor whose elements a loop binds to a name.

    Ex) `t` of `for x in t`, `for i, x in enumerate(t)` and `for x, y in zip(t, other)`
    """
    iterated = name.of(loop.iter)
    if isinstance(loop.target, cst.Name):
        return iterated
    position = targets(loop.target).index(name.cst.value)
    arguments = [] if iterated.has_star else [argument for _, _, argument in iterated.arguments]
    if iterated.callee == "builtins.enumerate" and position == 1:
        return arguments[0] if arguments else None
    if iterated.callee == "builtins.zip" and position < len(arguments):
        return arguments[position]
    return None


def counts(iterated: View) -> bool:
    """Ex) for i in range(n), for i, name in enumerate(names)"""
    return iterated.callee in COUNTS


def stays(tensor: cst.BaseExpression, loop: Loop, src: Source) -> bool:
    """Whether a loop leaves a tensor as it is."""
    if not isinstance(tensor, cst.Name) or src.variables.bound_within(tensor, loop):
        return False
    return not src.variables.written_into(tensor)
