"""Losses are added up, or kept in a list, together with their graphs.

A loss still holds its graph after the backward pass. A sum of such losses holds the graphs of all
batches so far: memory grows until the sum is gone, and every step gets slower.

    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        total += loss                     # the graph of every batch stays alive

    for x, y in loader:
        ...
        total += loss.detach()            # the number alone, and nothing waits for the device

The backward pass may be in the function that returns the loss, and the sum in a field or a dict. A
sum that is logged and reset from time to time keeps the graphs until the reset.

Fix safety: safe if only numbers are read from the sum or the list (`.item()`, `float()`,
`.tolist()`, a comparison). Unsafe if it is returned, yielded, stored, printed or passed on: the
receiver may need the graph.

Known limits: a loss that is passed to a meter, a sum that is in another method than the loop, and
evaluation without `no_grad` are not seen. The terms of a loss are followed through branches only if
all branches use them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    SOMEWHERE_HOT,
    TRAINING,
    BackpropagatedLosses,
    Finding,
    Fix,
    Group,
    Heat,
    Instance,
    Object,
    Rule,
    Same,
    Sequence,
    Tensor,
    Unknown,
    View,
    calls,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.operations import OF_IT_ALONE

from .._shared.growth import beginnings, growth_of, is_bound_earlier, loop_of_batches
from .._shared.tensors import is_under_no_grad
from ._loss_terms import BackpropagatedValues

if TYPE_CHECKING:
    from amplint import Source

# They take a number out of a sum, or make a sum or a mean of a list.
READING = frozenset({"item", "tolist", "detach", "builtins.float", "builtins.int", "builtins.len"})
COLLECTING = OF_IT_ALONE | {"builtins.sum", "torch.stack", "torch.cat"}
STARTS = frozenset({"torch.zeros", "torch.tensor", "builtins.list"})
NUMBERS = "only numbers are read from it"


rule = Rule(
    "AMP901",
    __doc__,
    group=Group.PERFORMANCE,
    help="accumulate `loss.detach()`, which has no graph",
    witness=Same(),
    safe_if=(NUMBERS,),
)


@rule.on((nodes("aug", "binop") | calls(".append")) & SOMEWHERE_HOT)
def check(at: View) -> Iterator[Finding]:
    for variable, loss in additions(at):
        place = loss.ask(BackpropagatedValues) if holds_tensor(loss) else None
        if place is None or not grows(at, variable):
            continue
        heat = heat_of(at, variable)
        if heat is None or is_under_no_grad(at) or trains(variable):
            continue
        message = f"`{variable.brief}` keeps the graph of every batch alive"
        yield loss.finding(message, (place, *heat.chain), detached(variable, loss))


def heat_of(at: View, variable: View) -> Heat | None:
    """Why the variable grows for every batch, and lives longer than one."""
    loop = loop_of_batches(at) or loop_of_parts(at, variable)
    if loop is None or shrinks(variable, loop, at.op != "call"):
        return None
    # What grows in the loop may do so now and then only.
    heats = (at.of(call).hotness for call in at.source.calls(loop.body))
    return next((heat for heat in heats if heat is not None and heat.temperature == TRAINING), None)


def additions(at: View) -> Iterator[tuple[View, View]]:
    """Each sum or list that this may add to, and what is added.

    Ex) total += loss, total = total + loss, losses.append(loss)
    """
    if at.op == "call":
        arguments = [argument for _, keyword, argument in at.arguments if keyword is None]
        if at.receiver is not None and len(arguments) == 1 and is_list(at.receiver):
            yield at.receiver, arguments[0]
    elif at.operator in ("Add", "Sub"):
        left, right = at.operands
        if is_sum(left) and (at.op == "aug" or is_bound_earlier(left)):
            yield left, right
        if is_sum(right) and at.op == "binop" and at.operator == "Add" and is_bound_earlier(right):
            yield right, left


def is_sum(variable: View) -> bool:
    """Only a class of the project knows what it does with what is added to it."""
    value = variable.value
    return holds_tensor(variable) and not any(isinstance(atom, Instance | Object) for atom in value)


def is_list(variable: View) -> bool:
    """Whether it certainly is a list: what is unknown may be anything."""
    value = variable.value
    return bool(value) and all(isinstance(atom, Sequence) for atom in value)


def holds_tensor(at: View) -> bool:
    """An object of the project's own may be backpropagated, too, and has no graph."""
    return any(isinstance(atom, Tensor) for atom in at.value)


def grows(at: View, variable: View) -> bool:
    """Whether an operation adds to what the variable was before; a deque may be bounded."""
    src = at.source
    if at.op == "call":
        deque = rf"{re.escape(variable.text)}\b.*\bdeque\b"
        return not src.says(re.compile(deque, re.IGNORECASE))
    statement = at.cst if at.op == "aug" else src.parent(at.cst)
    growth = growth_of(statement, src) if statement is not None else None
    return growth is not None and growth.variable is variable.cst and not growth.decays


def loop_of_parts(at: View, variable: View) -> cst.For | cst.While | None:
    """The innermost loop of a function that runs for every batch, if it accumulates the gradients
    of micro-batches, and what is added up there is returned with their graphs."""
    if at.op == "call" or not isinstance(variable.cst, cst.Name):
        return None
    for around in at.source.ancestors(at.cst):
        if isinstance(around, cst.For | cst.While):
            steps = any(at.of(each).method == "step" for each in at.source.calls(around.body))
            return None if steps or not any(map(is_returned, reads(variable))) else around
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            break
    return None


def is_returned(read: View) -> bool:
    """Whether a function returns what a variable holds, or a container that it is in."""
    for around in read.source.ancestors(read.cst):
        if isinstance(around, cst.Return):
            return not is_number(read)
        if isinstance(around, cst.Call):
            value = read.of(around).value
            if not value or any(isinstance(atom, Tensor | Unknown) for atom in value):
                return False
    return False


def detached(variable: View, loss: View) -> Fix | None:
    """Ex) total += loss -> total += loss.detach()"""
    if loss.tensor is None:
        return None
    edit = loss.source.edits.append_call(loss.cst, "detach()")
    conditions = {NUMBERS: only_numbers_are_read(variable)}
    return Fix.safe_if("Detach it from its graph", (edit,), conditions)


def shrinks(variable: View, loop: cst.For | cst.While, is_sum: bool = False) -> bool:
    """Whether the variable, or what it is a part of, begins anew or is emptied within the loop. A
    sum may begin anew now and then, as one that is logged does; a list of few is left alone."""
    src, part = variable.source, variable.cst
    while True:
        if any(
            not (is_sum and is_guarded(each, loop, src))
            for each in beginnings(src.text(part), loop, src)
        ):
            return True
        if not isinstance(part, cst.Attribute | cst.Subscript):
            break
        part = part.value
    name = re.escape(variable.text)  # Ex) losses.clear(), losses.pop(0), del losses[0]
    emptied = rf"{name}\.(clear|pop|popleft)\(|\bdel\b.*{name}"
    return re.search(emptied, src.text(loop)) is not None


def is_guarded(node: cst.CSTNode, loop: cst.For | cst.While, src: Source) -> bool:
    """Whether a place of a loop stands under an `if` in it."""
    for around in src.ancestors(node):
        if around is loop:
            return False
        if isinstance(around, cst.If):
            return True
    return False


def trains(variable: View) -> bool:
    """Whether the sum itself is backpropagated, at any place of the function."""
    return any(each.ask(BackpropagatedLosses) is not None for each in reads(variable))


def reads(variable: View) -> Iterator[View]:
    """The expressions of the function, or of the module, that read as the variable does."""
    src, written = variable.source, variable.cst
    around = src.function(written)
    root: cst.CSTNode = around if around is not None else written
    for ancestor in src.ancestors(written) if around is None else ():
        root = ancestor
    stack: list[cst.CSTNode] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, type(written)) and src.text(node) == variable.text:
            yield variable.of(node)
        else:
            stack.extend(node.children)


def only_numbers_are_read(variable: View) -> bool:
    """Whether nobody can get hold of the sum itself, which begins in this function."""
    src = variable.source
    function = src.function(variable.cst)
    if not isinstance(variable.cst, cst.Name) or not isinstance(function, cst.FunctionDef):
        return False
    uses = list(reads(variable))  # parameters and `nonlocal total` among them: names as well
    return any(map(is_start, uses)) and all(
        src.function(each.cst) is function and (is_binding(each) or is_number(each))
        for each in uses
    )


def is_start(name: View) -> bool:
    """Ex) total of total = 0.0"""
    src = name.source
    target = src.parent(name.cst)
    statement = src.parent(target) if isinstance(target, cst.AssignTarget) else None
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return False
    node = statement.value
    if isinstance(node, cst.List):
        return not node.elements
    return isinstance(node, cst.Integer | cst.Float) or name.of(node).callee in STARTS


def is_binding(name: View) -> bool:
    """Whether this is where the sum begins, or where it grows."""
    src = name.source
    parent = src.parent(name.cst)
    statement = src.parent(parent)
    growth = growth_of(parent, src) or growth_of(statement, src)
    if is_start(name) or (isinstance(parent, cst.AssignTarget) and growth is not None):
        return True
    if isinstance(parent, cst.Attribute) and isinstance(statement, cst.Call):
        return parent.attr.value == "append" and not src.layout.value_used(statement)
    return growth is not None and growth.variable is name.cst


def is_number(read: View) -> bool:
    """Whether a read of the sum ends in a number. Ex) (total / n).item(), float(sum(losses))"""
    src = read.source
    node: cst.CSTNode = read.cst
    while (parent := src.parent(node)) is not None:
        call = src.parent(parent)
        if isinstance(parent, cst.BinaryOperation):
            node = parent
        elif isinstance(parent, cst.Attribute | cst.Arg) and isinstance(call, cst.Call):
            called = read.of(call).callee if isinstance(parent, cst.Arg) else parent.attr.value
            if called not in COLLECTING:
                return called in READING
            node = call
        else:
            break
    return isinstance(parent, cst.Comparison) and isinstance(
        parent.comparisons[0].operator, cst.LessThan | cst.GreaterThan
    )
