"""A tensor on the device decides a branch in every iteration of a training loop.

`if t`, `while t`, `assert t`, `t and ...`, `not t` and `t in values` call `bool(t)`, which waits
until the device has computed `t`: a hidden `.item()`.

    if torch.isnan(loss):                             # waits at every step
        raise ValueError("loss is nan")

    torch._assert_async(torch.isfinite(loss))         # checks on the device, without waiting

Of a condition that reads several tensors (`if isnan(a).any() or isinf(a).any():`), the first read
is reported: what has to be changed is the condition as a whole.

`torch.equal`, `torch.allclose` and `is_nonzero` return a bool of Python, tested or not.

`t is None`, `len(t)`, `t.shape`, `t.is_cuda` and `torch.is_tensor(t)` read nothing back.

Fix safety: none is offered, since the control flow of the program depends on the value.

Known limits: as for AMP101; a test of an attribute of a model's output is left alone, for it may be
a Python number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    HOT,
    Finding,
    Group,
    Related,
    Rule,
    Sequence,
    Spot,
    Syncs,
    Tensor,
    TensorTree,
    calls,
    constant,
    nodes,
    only,
)
from amplint import libcst as cst

from .._shared.reads import device_tensor, hot_evidence, presumed_tensor, tensor_of_training

if TYPE_CHECKING:
    from amplint import Source

BOOL = "builtins.bool"
SEARCHING = frozenset({"In", "NotIn"})
# They return a bool of Python, whether or not it is tested.
COMPARING = frozenset({"equal", "allclose", "is_nonzero"})
COMPARING_FUNCTIONS = frozenset(f"torch.{name}" for name in COMPARING)

SIZE = re.compile(r"\.shape\b|\.(size|numel|dim)\(|\blen\(")


def asks_truth(at: Spot) -> bool:
    """Whether the truth of a tensor may be read: `if x:`, and both sides of `if x and y:`"""
    stack = [at.number]
    while stack:
        number = stack.pop()
        node = at.graph.nodes[number]
        if node.op == "bool":
            stack.extend(node.operands)
        elif presumed_tensor(at, number) is not None:
            return True
    return False


def compares(at: Spot) -> bool:
    """Ex) torch.equal(x, y), x.allclose(y)"""
    if at.name in COMPARING_FUNCTIONS:
        given = (device_tensor(at.of(each), receiver=True, presumed=True) for each in at.arguments)
        return any(tensor is not None for tensor in given)
    return any(presumed_tensor(at, each) is not None for each in (at.receiver, *at.arguments))


def searches(at: Spot) -> bool:
    """Ex) x in tensors"""
    return not SEARCHING.isdisjoint(at.node.data) and any(
        presumed_tensor(at, each) is not None for each in at.node.operands
    )


rule = Rule(
    "AMP103",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="decide on the device (`torch.where`, `torch._assert_async`), or test every N steps",
    witness=Syncs(before=4, after=0),
    supersedes=("AMP113",),
    candidates=(
        nodes("test") & asks_truth
        | calls(BOOL) & (lambda at: any(presumed_tensor(at, n) for n in at.arguments))
        | calls(*COMPARING_FUNCTIONS, *(f".{name}" for name in COMPARING)) & compares
        | nodes("compare") & searches
    )
    & HOT,
)


@rule.check
def check_test(
    node: cst.If | cst.While | cst.Assert | cst.IfExp | cst.CompIf, src: Source
) -> Iterator[Finding]:
    yield from truth(node.test, src)


@rule.check
def check_operands(node: cst.BooleanOperation, src: Source) -> Iterator[Finding]:
    # The last operand is the result; a test of that reads it.
    yield from truth(node.left, src)
    if is_tested(node, src):
        yield from truth(node.right, src)


@rule.check
def check_not(node: cst.UnaryOperation, src: Source) -> Iterator[Finding]:
    if isinstance(node.operator, cst.Not):
        yield from truth(node.expression, src)


@rule.check
def check_bool(call: cst.Call, src: Source) -> Iterator[Finding]:
    if src.name(call.func) == BOOL and len(call.args) == 1 and not call.args[0].star:
        yield from truth(call.args[0].value, src)


@rule.check
def check_comparison(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) torch.equal(x, y), x.allclose(y)"""
    operands = [each.value for each in call.args if each.keyword is None and not each.star][:2]
    takes_tensors = src.name(call.func) in COMPARING_FUNCTIONS
    if not takes_tensors:
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in COMPARING:
            return
        operands = [call.func.value, *operands][:2]
    if any(reading(each, src) is not None for each in others_asked(call, src)[0]):
        return  # what has to be changed is the condition as a whole
    for operand in operands:
        evidence = hot_evidence(operand, tensor_of_training(operand, src, takes_tensors), src)
        if evidence is not None:
            message = f"`{src.brief(call)}` makes the host wait in every iteration"
            yield src.finding(rule, call, message, None, evidence)
            return


@rule.check
def check_membership(node: cst.Comparison, src: Source) -> Iterator[Finding]:
    for comparison in node.comparisons:
        if isinstance(comparison.operator, cst.In | cst.NotIn):
            inside = comparison.comparator
            if isinstance(constant(src.value(node.left)), str):
                continue  # what holds strings is no tensor
            # A dict looks for the object, not for its value.
            searched = isinstance(only(src.value(inside)), Sequence)
            for operand in (node.left, inside) if searched else (inside,):
                evidence = hot_evidence(node, tensor_of_training(operand, src), src)
                if evidence is not None:
                    message = f"`{src.brief(node)}` makes the host wait in every iteration"
                    yield src.finding(rule, node, message, None, evidence)
                    return


def truth(test: cst.BaseExpression, src: Source) -> Iterator[Finding]:
    if isinstance(test, cst.BooleanOperation):
        return  # its operands are tested one by one
    evidence = reading(test, src)
    if evidence is None:
        return
    earlier, later = others_asked(test, src)
    if any(reading(each, src) is not None for each in earlier):
        return  # what has to be changed is the condition as a whole
    message = f"testing `{src.brief(test)}` makes the host wait in every iteration"
    also = [src.related_node(each, "and here") for each in later if reading(each, src) is not None]
    yield src.finding(rule, test, message, None, (*evidence, *also))


def reading(test: cst.BaseExpression, src: Source) -> tuple[Related, ...] | None:
    """Why the truth of an expression is read from the device for every batch; None if it is not."""
    for deciding in (test, *last_operand(test, src)):
        tensor = tensor_of_training(deciding, src)
        if tensor is None or (tensor.device.kind is None and may_be_size(deciding, tensor, src)):
            continue
        evidence = hot_evidence(test, tensor, src)
        if evidence is not None:
            return evidence
    return None


def last_operand(test: cst.BaseExpression, src: Source) -> Iterator[cst.BaseExpression]:
    """The last operand of the `and` or `or` that a tested variable holds: the result, unless one
    before it, whose truth was asked there, has decided the matter.

    Ex) mask.any() of `if found:`, with `found = on_tpu or mask.any()`
    """
    made = src.origin(test) if isinstance(test, cst.Name) else None
    if isinstance(made, cst.BooleanOperation):
        while isinstance(made, cst.BooleanOperation):
            made = made.right
        yield made


def others_asked(
    test: cst.BaseExpression, src: Source
) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
    """The other parts of a condition that are tested, before an expression and after it."""
    part: cst.CSTNode = test
    earlier: list[cst.BaseExpression] = []
    later: list[cst.BaseExpression] = []
    for around in src.ancestors(test):
        if isinstance(around, cst.BooleanOperation):
            if part is around.right:
                earlier += asked(around.left, src)
            elif is_tested(around, src):
                later += asked(around.right, src)
        elif not passes_truth(around, src):
            break
        part = around
    return earlier, later


def passes_truth(node: cst.CSTNode, src: Source) -> bool:
    """Whether a node asks for the truth of what is in it, and nothing else: `not x`, `bool(x)`."""
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Not)
    return isinstance(node, cst.Arg) or (isinstance(node, cst.Call) and src.name(node.func) == BOOL)


def asked(test: cst.BaseExpression, src: Source) -> Iterator[cst.BaseExpression]:
    """The expressions whose truth a test asks for: both `a` and `b` of `not a or bool(b)`."""
    if isinstance(test, cst.BooleanOperation):
        yield from asked(test.left, src)
        yield from asked(test.right, src)
    elif isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from asked(test.expression, src)
    elif isinstance(test, cst.Call) and len(test.args) == 1 and src.name(test.func) == BOOL:
        yield from asked(test.args[0].value, src)
    else:
        yield test


def may_be_size(test: cst.BaseExpression, tensor: Tensor | TensorTree, src: Source) -> bool:
    """Whether what is tested may be a size, which a tensor of the CPU holds: `if channels`,
    `x.shape[1] == channels`. Asked only where nothing says where the tensor lives."""
    if isinstance(test, cst.Comparison):
        equality = isinstance(test.comparisons[0].operator, cst.Equal | cst.NotEqual)
        return equality and SIZE.search(src.text(test)) is not None
    return isinstance(test, cst.Name) and isinstance(tensor, Tensor) and tensor.dtype is None


def is_tested(node: cst.BooleanOperation, src: Source) -> bool:
    """Whether the result's truth is asked for: by a statement, a `not`, or another operation."""
    parent = src.parent(node)
    if isinstance(parent, cst.If | cst.While | cst.Assert | cst.IfExp | cst.CompIf):
        return parent.test is node
    if isinstance(parent, cst.BooleanOperation):
        return parent.left is node or is_tested(parent, src)
    return isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
