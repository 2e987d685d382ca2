"""Losses are added up, or kept in a list, together with their graphs.

A loss that has been backpropagated still holds the graph that it was computed by. A sum of such
losses holds the graphs of all batches so far: memory grows until the sum is gone, and every step
gets slower.

    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        total += loss                     # the graph of every batch stays alive

    for x, y in loader:
        ...
        total += loss.detach()            # the number alone, and nothing waits for the device

The backward pass may be in the function that returns the loss.

Fix safety: safe where all that is read of the sum, or of the list, are numbers (`.item()`,
`float()`, `.tolist()`, a comparison). Unsafe where it is returned, yielded, stored, printed or
handed on: the receiver may want the graph.

Known limits: a loss that is handed to a meter, a sum in a dict, or in a field that is not reset in
the function of the loop, and evaluation without `no_grad` are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    SOMEWHERE_HOT,
    BackpropagatedLosses,
    BackpropagatedValues,
    Finding,
    Fix,
    Group,
    Heat,
    Instance,
    Object,
    Rule,
    Same,
    Sequence,
    Spot,
    Tensor,
    calls,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.operations import OF_IT_ALONE

from .._shared.growth import begins_anew, growth_of, loop_over_batches
from .._shared.reads import heat_places, training_heat
from .._shared.tensors import under_no_grad

if TYPE_CHECKING:
    from amplint import Source

DETACHING = frozenset({"item", "tolist", "detach"})
COLLECTING = frozenset({"builtins.sum", "torch.stack", "torch.cat"})
READING = frozenset({"builtins.float", "builtins.int", "builtins.len"})
STARTS = frozenset({"torch.zeros", "torch.tensor", "builtins.list"})
NUMBERS = "all that is read of it are numbers"
EMPTYING = frozenset({"clear", "pop", "popleft"})


def keeps(at: Spot, loss: int) -> bool:
    """Whether what is backpropagated is added to something in a loop."""
    adds = at.node.op == "call" or at.node.data in ("Add", "Sub")
    tensor = any(isinstance(atom, Tensor) for atom in at.of(loss))
    return adds and tensor and at.is_in_loop and at.backpropagated(loss)


rule = Rule(
    "AMP901",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="accumulate `loss.detach()`, which has no graph",
    witness=Same(),
    safe_if=(NUMBERS,),
    candidates=(
        nodes("aug") & (lambda at: keeps(at, at.node.second))
        | nodes("binop") & (lambda at: any(keeps(at, each) for each in at.node.operands))
        | calls(".append") & (lambda at: any(keeps(at, each) for each in at.arguments))
    )
    & SOMEWHERE_HOT,
)


@rule.check
def check(node: cst.AugAssign | cst.Assign | cst.Call, src: Source) -> Iterator[Finding]:
    kept = kept_in(node, src)
    if kept is None:
        return
    variable, loss = kept
    loop = loop_over_batches(node, src)
    heat = heat_within(loop, src) if loop is not None and holds_tensor(loss, src) else None
    place = src.ask(BackpropagatedValues, loss) if heat is not None else None
    if place is None or loop is None or heat is None:
        return
    if shrinks(variable, loop, src) or under_no_grad(node, src) or trains(variable, src):
        return
    message = f"`{src.brief(variable)}` keeps the graph of every batch alive"
    fix = None
    if src.tensor(loss) is not None:
        edits = (src.edits.append_call(loss, "detach()"),)
        conditions = {NUMBERS: only_numbers_are_read(variable, src)}
        fix = Fix.safe_if("Detach it from its graph", edits, conditions)
    yield src.finding(rule, loss, message, fix, (src.related(place), *heat_places(heat, src)))


def kept_in(node: cst.CSTNode, src: Source) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The variable and the loss of total += loss, total = total + loss, losses.append(loss)"""
    if isinstance(node, cst.Call):
        function = node.func
        if not (isinstance(function, cst.Attribute) and function.attr.value == "append"):
            return None
        plain = len(node.args) == 1 and not node.args[0].star and node.args[0].keyword is None
        return (function.value, node.args[0].value) if plain and is_list(function, src) else None
    growth = growth_of(node, src)
    if growth is None or growth.decays or not is_sum(growth.variable, src):
        return None
    if isinstance(node, cst.AugAssign):
        return growth.variable, node.value
    assert isinstance(node, cst.Assign)
    assert isinstance(node.value, cst.BinaryOperation)
    whole = node.value
    return growth.variable, whole.right if whole.left is growth.variable else whole.left


def is_sum(variable: cst.BaseExpression, src: Source) -> bool:
    """Only a class of the project knows what it does with what is added to it."""
    value = src.value(variable)
    return any(isinstance(atom, Tensor) for atom in value) and not any(
        isinstance(atom, Instance | Object) for atom in value
    )


def is_list(append: cst.Attribute, src: Source) -> bool:
    """A deque may be bounded; what is unknown may be anything."""
    value = src.value(append.value)
    name = re.escape(src.text(append.value))
    return (
        bool(value)
        and all(isinstance(atom, Sequence) for atom in value)
        and re.search(rf"{name}\b.*\bdeque\b", src.layout.content.text, re.IGNORECASE) is None
    )


def heat_within(loop: cst.For | cst.While, src: Source) -> Heat | None:
    """Why the loop runs for every batch; what grows in it may do so now and then only."""
    found = (training_heat(call, src) for call in src.calls(loop.body))
    return next((heat for heat in found if heat is not None), None)


def holds_tensor(loss: cst.BaseExpression, src: Source) -> bool:
    """An object of the project's own may be backpropagated, too, and has no graph."""
    return any(isinstance(atom, Tensor) for atom in src.value(loss))


def shrinks(variable: cst.BaseExpression, loop: cst.CSTNode, src: Source) -> bool:
    """Whether the variable, or what it is a part of, begins anew or is emptied within the loop."""
    part: cst.BaseExpression = variable
    while True:
        if begins_anew(src.text(part), loop, src):
            return True
        if not isinstance(part, cst.Attribute | cst.Subscript):
            break
        part = part.value
    name = src.text(variable)
    return any(
        isinstance(each.func, cst.Attribute)
        and each.func.attr.value in EMPTYING
        and src.text(each.func.value) == name
        for each in src.calls(loop)
    ) or any(name in src.text(each) for each in deletions(loop))


def deletions(node: cst.CSTNode) -> Iterator[cst.Del]:
    if isinstance(node, cst.Del):
        yield node
    for child in node.children:
        yield from deletions(child)


def trains(variable: cst.BaseExpression, src: Source) -> bool:
    """Whether the sum itself is backpropagated, at any place of the function."""
    return any(src.ask(BackpropagatedLosses, each) is not None for each in reads(variable, src))


def reads(variable: cst.BaseExpression, src: Source) -> Iterator[cst.BaseExpression]:
    """The expressions of the function, or of the module, that read as the variable does."""
    around = src.function(variable)
    root: cst.CSTNode = around if around is not None else variable
    for ancestor in src.ancestors(variable) if around is None else ():
        root = ancestor
    text = src.text(variable)
    stack: list[cst.CSTNode] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, type(variable)) and src.text(node) == text:
            assert isinstance(node, cst.BaseExpression)
            yield node
        else:
            stack.extend(node.children)


def only_numbers_are_read(variable: cst.BaseExpression, src: Source) -> bool:
    """Whether nobody can get hold of the sum itself, which begins in this function."""
    function = src.function(variable)
    if not isinstance(variable, cst.Name) or not isinstance(function, cst.FunctionDef):
        return False
    seen = list(reads(variable, src))  # parameters and `nonlocal total` among them: names as well
    return any(is_start(each, src) for each in seen) and all(
        src.function(each) is function and (is_binding(each, src) or is_number(each, src))
        for each in seen
    )


def is_start(name: cst.BaseExpression, src: Source) -> bool:
    """Ex) total = 0.0, or total, losses = 0.0, []"""
    element = src.parent(name)
    row = src.parent(element) if isinstance(element, cst.Element) else None
    target = src.parent(row) if row is not None else element
    statement = src.parent(target) if isinstance(target, cst.AssignTarget) else None
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return False
    if not isinstance(row, cst.Tuple):
        return row is None and begins(statement.value, src)
    values = statement.value.elements if isinstance(statement.value, cst.Tuple) else ()
    at = next(i for i, each in enumerate(row.elements) if each is element)
    return len(values) == len(row.elements) and begins(values[at].value, src)


def is_binding(name: cst.BaseExpression, src: Source) -> bool:
    """Whether this is where the sum begins, or where it grows."""
    parent = src.parent(name)
    if is_start(name, src):
        return True
    if isinstance(parent, cst.AssignTarget):
        statement = src.parent(parent)
        return isinstance(statement, cst.Assign) and growth_of(statement, src) is not None
    if isinstance(parent, cst.AugAssign):
        return parent.target is name and growth_of(parent, src) is not None
    if isinstance(parent, cst.BinaryOperation):
        statement = src.parent(parent)
        if not isinstance(statement, cst.Assign):
            return False
        growth = growth_of(statement, src)
        return growth is not None and growth.variable is name
    if isinstance(parent, cst.Attribute) and parent.attr.value == "append":
        call = src.parent(parent)
        return call is not None and not src.layout.value_used(call)
    return False


def begins(value: cst.BaseExpression, src: Source) -> bool:
    """Ex) 0.0, [], torch.zeros(1)"""
    if isinstance(value, cst.List):
        return not value.elements
    if isinstance(value, cst.Call):
        return src.name(value.func) in STARTS
    return isinstance(value, cst.Integer | cst.Float)


def is_number(read: cst.BaseExpression, src: Source) -> bool:
    """Whether a read of the sum ends in a number. Ex) (total / n).item(), float(sum(losses))"""
    node: cst.CSTNode = read
    while True:
        parent = src.parent(node)
        if isinstance(parent, cst.BinaryOperation | cst.UnaryOperation):
            node = parent
        elif isinstance(parent, cst.Comparison):
            return not any(
                isinstance(each.operator, cst.Is | cst.IsNot) for each in parent.comparisons
            )
        elif isinstance(parent, cst.Attribute) and parent.value is node:
            call = src.parent(parent)
            if not isinstance(call, cst.Call) or call.func is not parent:
                return False
            if parent.attr.value in DETACHING:
                return True
            if parent.attr.value not in OF_IT_ALONE:
                return False
            node = call
        elif isinstance(parent, cst.Arg):
            call = src.parent(parent)
            if not isinstance(call, cst.Call) or call.args[0] is not parent:
                return False
            name = src.name(call.func)
            if name in READING:
                return True
            if name not in COLLECTING:
                return False
            node = call
        else:
            return False
