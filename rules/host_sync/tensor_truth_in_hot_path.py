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
    READ,
    Finding,
    Group,
    Rule,
    Sequence,
    Syncs,
    Tensor,
    TensorTree,
    View,
    calls,
    constant,
    nodes,
    only,
)
from amplint import libcst as cst

from .._shared.reads import hot_tensor, last_operand, read_of_training

if TYPE_CHECKING:
    from .._shared.reads import Reasons

BOOL = "builtins.bool"
SEARCHING = frozenset({"In", "NotIn"})
# They return a bool of Python, whether or not it is tested.
COMPARING = frozenset({"equal", "allclose", "is_nonzero"})
COMPARING_FUNCTIONS = frozenset(f"torch.{name}" for name in COMPARING)

SIZE = re.compile(r"\.shape\b|\.(size|numel|dim)\(|\blen\(")


rule = Rule(
    "AMP103",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="decide on the device (`torch.where`, `torch._assert_async`), or test every N steps",
    witness=Syncs(before=4, after=0),
    supersedes=("AMP113",),
)


@rule.on((nodes("test") | calls(BOOL)) & HOT)
def check(at: View) -> Iterator[Finding]:
    """Ex) if x:, x of `x and y`, not x, bool(x)

    The last operand of a tested `and` or `or` is tested too: it is the result.
    """
    test = last_operand(tested_by_bool(at) or at)
    reasons = reading(test)
    if reasons is None:
        return
    earlier, later = others_asked(test)
    if any(reading(each) is not None for each in earlier):
        return  # what has to be changed is the condition as a whole
    also = [each.related("and here") for each in later if reading(each) is not None]
    message = f"testing `{test.brief}` makes the host wait in every iteration"
    yield test.finding(message, (*reasons, *also))


@rule.on(calls(*COMPARING_FUNCTIONS, *(f".{name}" for name in COMPARING)) & HOT)
def check_comparison(call: View) -> Iterator[Finding]:
    """Ex) torch.equal(x, y), x.allclose(y)"""
    given = [
        each for _, keyword, each in call.arguments if keyword is None and each.op != "starred"
    ]
    takes_tensors = call.callee in COMPARING_FUNCTIONS
    receiver = call.receiver if not takes_tensors else None
    for operand in (given if receiver is None else [receiver, *given])[:2]:
        reasons = read_of_training(operand, hot_tensor(operand, receiver=takes_tensors))
        if reasons is not None:
            if not any(reading(each) is not None for each in others_asked(call)[0]):
                yield call.finding(told(call), reasons)
            return


@rule.on(nodes("compare") & HOT)
def check_membership(at: View) -> Iterator[Finding]:
    """Ex) x in tensors"""
    left, *others = at.operands
    for operator, inside in zip(at.operators, others, strict=True):
        if operator not in SEARCHING or isinstance(constant(left.value), str):
            continue  # what holds strings is no tensor
        # A dict looks for the object, not for its value.
        searched = isinstance(only(inside.value), Sequence)
        for operand in (left, inside) if searched else (inside,):
            reasons = read_of_training(at, hot_tensor(operand))
            if reasons is not None:
                yield at.finding(told(at), reasons)
                return


def told(at: View) -> str:
    return f"`{at.brief}` makes the host wait in every iteration"


def reading(test: View) -> Reasons | None:
    """Why the truth of an expression is read from the device for every batch; None if it is not."""
    made = test.origin
    # Ex) mask.any() of `if found:`, with `found = on_tpu or mask.any()`
    for deciding in (test, last_operand(made)) if made.op == "bool" else (test,):
        tensor = hot_tensor(deciding)
        if tensor is None or (tensor.device.kind is None and may_be_size(deciding, tensor)):
            continue
        reasons = read_of_training(test, tensor)
        if reasons is not None:
            return reasons
    return None


def tested_by_bool(at: View) -> View | None:
    """Ex) x of bool(x)"""
    given = [each for _, _, each in at.arguments if each.op != "starred"]
    return given[0] if len(given) == 1 and at.callee == BOOL else None


def others_asked(test: View) -> tuple[list[View], list[View]]:
    """The other parts of a condition that are tested, before an expression and after it."""
    asked = list(asked_in(condition(test)))
    earlier = [each for each in asked if each.span.end <= test.span.start]
    return earlier, [each for each in asked if each.span.start >= test.span.end]


def condition(test: View) -> View:
    """The whole of what stands around an expression and does nothing but ask for truths."""
    whole = test
    for node in test.source.ancestors(test.cst):
        around = test.of(node)
        joins = isinstance(node, cst.BooleanOperation)  # of `a and b and c`, two are one operation
        if joins or is_not(around) or tested_by_bool(around) is not None:
            whole = around
        elif not isinstance(node, cst.Arg):
            break
    return whole


def asked_in(whole: View) -> Iterator[View]:
    """The expressions whose truth a condition asks for: both `a` and `b` of `not a or bool(b)`."""
    is_tested = getattr(whole.source.parent(whole.cst), "test", None) is whole.cst
    stack = [(whole, is_tested)]
    while stack:
        at, is_tested = stack.pop()
        inner = at.operands[0] if is_not(at) else tested_by_bool(at)
        if at.op == "bool":
            *others, last = at.operands
            stack += [(last, is_tested), *((each, True) for each in reversed(others))]
        elif inner is not None:
            stack.append((inner, True))
        elif is_tested:
            yield at


def is_not(at: View) -> bool:
    return at.op == "unary" and at.operator == "Not"


def may_be_size(test: View, tensor: Tensor | TensorTree) -> bool:
    """Whether what is tested may be a size, which a tensor of the CPU holds: `if channels`,
    `x.shape[1] == channels`. Asked only where nothing says where the tensor lives."""
    if test.op == "compare":
        return test.operators[0] in ("Eq", "NotEq") and SIZE.search(test.text) is not None
    return test.op in (READ, "name") and isinstance(tensor, Tensor) and tensor.dtype is None
