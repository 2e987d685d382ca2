"""A loop reads the elements of a tensor one by one.

`.item()`, `float()`, `int()` and the truth of an element on the device each make the host wait
until the device has caught up. A loop over the elements waits as often as there are elements, and
does so on the CPU, too, where each read takes microseconds. `.tolist()` before the loop waits once.

    for index in order:
        names.append(classes[index.item()])     # waits for every element

    for index in order.tolist():                # waits once
        names.append(classes[index])

A loop is reported once, at its first read of what it goes through. Reported in training or not.
Where the loop itself runs for every batch of training, the read is one of AMP101, AMP103 or AMP105.

Fix safety: unsafe: reads all elements before the loop where its body does nothing with them but to
read them; where the body is left early, more is read than before. None is offered for elements that
are taken by an index, nor for what is done with an element on the device.

Known limits: a tensor that is known to be on the CPU, one that changes inside the loop, datasets
and functions that collate are left alone, and so are elements of lists of tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    CPU,
    Cost,
    Finding,
    Fix,
    Group,
    HandedReads,
    Rule,
    Safety,
    Spot,
    Syncs,
    Tensor,
    TensorCertainty,
    calls,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.vocabulary import PREPARES_ITEMS

if TYPE_CHECKING:
    from amplint import Source

READING = frozenset({"item", "tolist"})
NUMBERS = frozenset({"builtins.float", "builtins.int"})
FINITE = frozenset({"torch.isnan", "torch.isinf", "torch.isfinite"})
COUNTS = frozenset({"builtins.range", "builtins.enumerate"})


def takes_element(at: Spot, number: int) -> bool:
    """Whether a node may be an element of a tensor that is not known to be on the CPU."""
    element = at.tensor(number)
    if element is None or element.device.kind == CPU.kind:
        return False
    nodes_of = at.graph.nodes
    while number >= 0 and nodes_of[number].op == "narrow":
        number = nodes_of[number].operands[0]
    return number >= 0 and nodes_of[number].op in ("iter", "unpack", "subscript")


def reads_element(at: Spot) -> bool:
    if at.method in READING:
        return takes_element(at, at.receiver)
    return at.name in NUMBERS and len(at.arguments) == 1 and takes_element(at, at.arguments[0])


def hands_element(at: Spot) -> bool:
    """Ex) as_number(index), where that is `index.item()`"""
    given = at.arguments
    return len(given) == 1 and takes_element(at, given[0]) and at.ask(HandedReads) is not None


def asks_element(at: Spot) -> bool:
    """Ex) if score < 0.5:, if not torch.isnan(losses[i]):"""
    asked = at.node
    while asked.op in ("narrow", "unary"):
        asked = at.graph.nodes[asked.operands[0]]
    if asked.op not in ("compare", "call"):
        return False
    read = asked.operands[0] if asked.op == "compare" else asked.argument(0)
    return read >= 0 and takes_element(at, read)


rule = Rule(
    "AMP113",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="read all elements at once by `.tolist()`, before the loop",
    witness=Syncs(before=8, after=1),
    cost=Cost.ELEMENT,
    candidates=calls(*(f".{name}" for name in READING), *NUMBERS) & reads_element
    | nodes("call") & hands_element
    | nodes("test") & asks_element,
)


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    yield from reading(call, src)


@rule.check
def check_test(
    node: cst.If | cst.While | cst.Assert | cst.IfExp | cst.CompIf, src: Source
) -> Iterator[Finding]:
    yield from reading(node, src)


@rule.check
def check_operands(node: cst.BooleanOperation, src: Source) -> Iterator[Finding]:
    yield from reading(node, src)


def reading(node: cst.CSTNode, src: Source) -> Iterator[Finding]:
    """The finding at a loop's first read of an element of what it goes through.

    What has to be changed is the loop, however many elements it reads in a round.
    """
    for read, tensor, loop in reads_at(node, src):
        reads = [each for inside in within(loop, src) for each in reads_at(inside, src)]
        places = sorted({src.span(each) for each, _, around in reads if around is loop})
        start, *later = places or [src.span(read)]
        if src.span(read) != start:
            continue
        message = f"`{src.brief(read)}` waits for each element of `{src.brief(tensor)}`"
        related = [src.related_node(loop.iter, "in this loop")]
        shown = {src.span(each): each for each, _, _ in reads}
        related += [src.related_node(shown[each], "and here") for each in later]
        yield src.finding(rule, read, message, read_before(tensor, loop, src), related)


def reads_at(
    node: cst.CSTNode, src: Source
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, cst.For | cst.CompFor]]:
    """The reads of elements that a node is or asks for, each with the tensor and the loop that goes
    through all of them."""
    for read, element in elements_read(node, src):
        found = element_of(element, src)
        if found is None or src.tensor(element) is None:
            continue
        tensor, loop = found
        if is_read_back(tensor, src) and not is_in_worker(read, src):
            yield read, tensor, loop


def elements_read(
    node: cst.CSTNode, src: Source
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The expressions that read what may be an element, each with that.

    Ex) index.item(), float(scores[i]), if score < 0.5:, score < 0.5 and index > 0
    """
    if isinstance(node, cst.Call):
        function = node.func
        if isinstance(function, cst.Attribute) and function.attr.value in READING and not node.args:
            yield node, function.value
        elif len(node.args) == 1 and (
            src.name(function) in NUMBERS or src.ask(HandedReads, node) is not None
        ):
            yield node, node.args[0].value  # float(index), as_number(index)
    elif isinstance(node, cst.If | cst.While | cst.Assert | cst.IfExp | cst.CompIf):
        yield from tested(node.test, src)
    elif isinstance(node, cst.BooleanOperation):
        for operand in (node.left, node.right):
            if not isinstance(operand, cst.BooleanOperation):
                yield from tested(operand, src)


def tested(
    test: cst.BaseExpression, src: Source
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The expressions that a test reads, each with the test that it is in."""
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test = test.expression
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        # Which object it is, is known to the host.
        if not isinstance(test.comparisons[0].operator, cst.Is | cst.IsNot):
            yield test, test.left
    elif isinstance(test, cst.Call) and src.name(test.func) in FINITE and len(test.args) == 1:
        yield test, test.args[0].value


def within(loop: cst.For | cst.CompFor, src: Source) -> Iterator[cst.CSTNode]:
    """The nodes of a loop; of one in a comprehension, those of the comprehension."""
    whole: cst.CSTNode = loop
    if isinstance(loop, cst.CompFor):
        whole = next(each for each in src.ancestors(loop) if isinstance(each, cst.BaseComp))
    stack = [whole]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children)


def element_of(
    node: cst.BaseExpression, src: Source
) -> tuple[cst.BaseExpression, cst.For | cst.CompFor] | None:
    """The tensor of which an expression is an element, and the loop that goes through it.

    Ex) `x` in `for x in tensor`, `tensor[i]` in `for i in range(n)`
    """
    if isinstance(node, cst.Name):
        return element_named(node, src)
    if not isinstance(node, cst.Subscript):
        return None
    if isinstance(node.value, cst.Name) and (row := element_named(node.value, src)) is not None:
        return row  # `row[0]` in `for row in tensor`
    for index in indices(node):
        loop = loop_of(index, src)
        if loop is not None and counts(loop, src) and stays(node.value, loop, src):
            return node.value, loop
    return None


def element_named(
    name: cst.Name, src: Source
) -> tuple[cst.BaseExpression, cst.For | cst.CompFor] | None:
    """The same of a variable."""
    loop = loop_of(name, src)
    tensor = gone_through(loop, name.value, src) if loop is not None else None
    return (tensor, loop) if tensor is not None and loop is not None else None


def indices(node: cst.Subscript) -> Iterator[cst.Name]:
    """The names by which something is indexed: `i` and `j` of `x[i, :, j]`."""
    for element in node.slice:
        if isinstance(element.slice, cst.Index) and isinstance(element.slice.value, cst.Name):
            yield element.slice.value


def loop_of(name: cst.Name, src: Source) -> cst.For | cst.CompFor | None:
    """The loop whose target binds a name, with no other binding since."""
    inner: cst.CSTNode = name
    for around in src.ancestors(name):
        if isinstance(around, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            return None
        loops: list[cst.For | cst.CompFor] = []
        if isinstance(around, cst.For) and inner is around.body:
            loops = [around]
        elif isinstance(around, cst.BaseComp):
            loops = nested(around.for_in)
        for loop in loops:
            if name.value in targets(loop.target):
                return loop
        inner = around
    return None


def nested(loop: cst.CompFor | None) -> list[cst.For | cst.CompFor]:
    """The loops of a comprehension, the innermost first."""
    found: list[cst.For | cst.CompFor] = []
    while loop is not None:
        found.insert(0, loop)
        loop = loop.inner_for_in
    return found


def targets(target: cst.BaseExpression) -> tuple[str | None, ...]:
    """The names that a loop binds, by position."""
    if isinstance(target, cst.Name):
        return (target.value,)
    if isinstance(target, cst.Tuple | cst.List):
        inner = [element.value for element in target.elements]
        return tuple(each.value if isinstance(each, cst.Name) else None for each in inner)
    return ()


def gone_through(loop: cst.For | cst.CompFor, name: str, src: Source) -> cst.BaseExpression | None:
    """The tensor whose elements a loop binds to a name.

    Ex) `t` of `for x in t`, `for i, x in enumerate(t)` and `for x, y in zip(t, other)`
    """
    iterated, position = loop.iter, targets(loop.target).index(name)
    if isinstance(loop.target, cst.Name):
        return iterated
    called = src.name(iterated.func) if isinstance(iterated, cst.Call) else None
    if not isinstance(iterated, cst.Call) or src.has_star(iterated):
        return None
    if called == "builtins.enumerate" and position == 1:
        return iterated.args[0].value
    if called == "builtins.zip" and position < len(iterated.args):
        return iterated.args[position].value
    return None


def counts(loop: cst.For | cst.CompFor, src: Source) -> bool:
    """Ex) for i in range(n), for i, name in enumerate(names)"""
    return isinstance(loop.iter, cst.Call) and src.name(loop.iter.func) in COUNTS


def stays(tensor: cst.BaseExpression, loop: cst.For | cst.CompFor, src: Source) -> bool:
    """Whether a loop leaves a tensor as it is."""
    if not isinstance(tensor, cst.Name) or src.variables.bound_within(tensor, loop):
        return False
    return not src.variables.written_into(tensor)


def is_read_back(tensor: cst.BaseExpression, src: Source) -> bool:
    """Whether an expression surely is a tensor with elements that is not known to be on the CPU."""
    value = src.tensor(tensor)
    if not isinstance(value, Tensor) or value.rank == 0 or value.device.kind == CPU.kind:
        return False
    return bool(src.ask(TensorCertainty, tensor))


def is_in_worker(node: cst.CSTNode, src: Source) -> bool:
    """Whether a dataset or a function that collates reads: there, tensors are on the CPU."""
    function = src.function(node)
    return isinstance(function, cst.FunctionDef) and any(
        word in function.name.value for word in PREPARES_ITEMS
    )


def read_before(tensor: cst.BaseExpression, loop: cst.For | cst.CompFor, src: Source) -> Fix | None:
    """Ex) for x in t: f(x.item()) -> for x in t.tolist(): f(x)"""
    value = src.tensor(tensor)
    if tensor is not loop.iter or value is None or value.rank != 1:
        return None
    if not isinstance(loop, cst.For) or not isinstance(loop.target, cst.Name):
        return None
    uses = src.uses(loop.target)
    reads = [src.parent(src.parent(use)) for use in uses]
    edits = [src.edits.append_call(tensor, "tolist()")]
    for use, read in zip(uses, reads, strict=True):
        if not isinstance(read, cst.Call) or src.text(read) != f"{src.text(use)}.item()":
            return None
        edits.append(src.edits.replace(read, src.text(use)))
    return Fix("Read all elements before the loop", tuple(edits), Safety.UNSAFE) if uses else None
