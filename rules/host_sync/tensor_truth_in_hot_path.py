"""A tensor on the device decides a branch in every iteration of a training loop.

`if t`, `while t`, `assert t`, `t and ...`, `not t` and `t in values` call `bool(t)`, which waits
until the device has computed `t`: a hidden `.item()`.

    if torch.isnan(loss):                             # waits at every step
        raise ValueError("loss is nan")

    torch._assert_async(torch.isfinite(loss))         # checks on the device, without waiting

If a condition reads several tensors (`if isnan(a).any() or isinf(a).any():`), only the first read
is reported, because the condition has to change as a whole.

`torch.equal`, `torch.allclose` and `is_nonzero` return a Python bool, whether or not it is tested,
so they wait too.

A test that a loss is finite waits as well. If the run ends where it is not, test every N steps; if
the batch is skipped there, a scaler does that without a test: `scaler.step` skips the step.

`t is None`, `len(t)`, `t.shape`, `t.is_cuda` and `torch.is_tensor(t)` read nothing back.

Fix safety: none is offered, since the control flow of the program depends on the value.

Known limits: as for AMP101; a test of an attribute of a model's output is not reported, because it
may be a Python number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import HOT, Finding, Group, Rule, Sequence, Syncs, View, calls, constant, nodes, only
from amplint.knowledge.host_reads import COMPARING

from .._shared.reads import hot_tensor, read_of_batches
from ._conditions import BOOL, last_operand, may_be_size, others_asked, tested_by_bool

if TYPE_CHECKING:
    from .._shared.reads import Reasons

SEARCHING = frozenset({"In", "NotIn"})

rule = Rule(
    "AMP103",
    __doc__,
    group=Group.PERFORMANCE,
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


@rule.on(calls(*COMPARING, *(f".{name[6:]}" for name in COMPARING)) & HOT)
def check_comparison(call: View) -> Iterator[Finding]:
    """Ex) torch.equal(x, y), x.allclose(y)"""
    arguments = [
        each for _, keyword, each in call.arguments if keyword is None and each.op != "starred"
    ]
    takes_tensors = call.callee in COMPARING
    receiver = call.receiver if not takes_tensors else None
    for operand in (arguments if receiver is None else [receiver, *arguments])[:2]:
        reasons = read_of_batches(operand, hot_tensor(operand, receiver=takes_tensors))
        if reasons is not None:
            if not any(reading(each) is not None for each in others_asked(call)[0]):
                yield call.finding(wait_message(call), reasons)
            return


@rule.on(nodes("compare") & HOT)
def check_membership(at: View) -> Iterator[Finding]:
    """Ex) x in tensors"""
    element, *others = at.operands
    for operator, inside in zip(at.operators, others, strict=True):
        if operator not in SEARCHING or isinstance(constant(element.value), str):
            continue  # what holds strings is no tensor
        # A dict looks for the object, not for its value.
        searched = isinstance(only(inside.value), Sequence)
        for operand in (element, inside) if searched else (inside,):
            reasons = read_of_batches(at, hot_tensor(operand))
            if reasons is not None:
                yield at.finding(wait_message(at), reasons)
                return


def wait_message(at: View) -> str:
    return f"`{at.brief}` makes the host wait in every iteration"


def reading(test: View) -> Reasons | None:
    """Why the truth of an expression is read from the device for every batch; None if it is not."""
    origin = test.origin
    # Ex) mask.any() of `if found:`, with `found = on_tpu or mask.any()`
    for deciding in (test, last_operand(origin)) if origin.op == "bool" else (test,):
        tensor = hot_tensor(deciding)
        if tensor is None or (tensor.device.kind is None and may_be_size(deciding, tensor)):
            continue
        reasons = read_of_batches(test, tensor)
        if reasons is not None:
            return reasons
    return None
