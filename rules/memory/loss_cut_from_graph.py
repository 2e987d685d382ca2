"""A term of a loss is made anew from a tensor, and has no gradient any more.

`torch.tensor(term)`, `term.item()` and `float(term)` give a constant: what is backpropagated does
not see how the term came about. Training goes on without it, and nothing says so; the value that is
logged still contains the term.

    def regulariser(divergence, alpha):
        return torch.tensor(alpha * divergence)          # a constant
    loss = F.mse_loss(model(x), y) + regulariser(divergence, 0.1)
    loss.backward()                                      # as if it were not there

    def regulariser(divergence, alpha):
        return alpha * divergence
    loss = F.mse_loss(model(x), y) + regulariser(divergence, 0.1)
    loss.backward()

Fix safety: unsafe: takes the call away, so that training learns from the term as well; it has not
done so before.

Known limits: silent about a parameter that no visible call passes a tensor, and where the loss is
backpropagated out of sight. A factor of a loss may well be a constant, and is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    LossTerms,
    Rule,
    Safety,
    Spot,
    TensorCertainty,
    calls,
)
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

COPYING = frozenset({"torch.tensor", "torch.Tensor", "torch.FloatTensor"})
NUMBERS = frozenset({"builtins.float"})


def cuts(at: Spot) -> bool:
    """Ex) torch.tensor(loss), loss.item()"""
    number = at.receiver if at.method == "item" else at.given("data", 0)
    tensor = at.tensor(number) if number >= 0 else None
    return tensor is not None and tensor.grad is not False


rule = Rule(
    "AMP904",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="use the tensor of the term itself, so that its gradient flows",
    witness=Differs(rtol=0.01),
    changes=frozenset({Change.TRAINING}),
    supersedes=("AMP101", "AMP110", "AMP503", "AMP504"),
    candidates=calls(".item", *COPYING, *NUMBERS) & cuts,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    term = cut(call, src)
    tensor = src.tensor(term) if term is not None else None
    if term is None or tensor is None or tensor.grad is False:
        return
    if not src.ask(TensorCertainty, term):
        return
    backward = src.ask(LossTerms, call)
    if backward is None:
        return
    message = f"`{src.brief(call)}` has no gradient: training goes on without this term"
    edit = src.edits.replace(call, src.edits.as_receiver(term))
    fix = Fix("Keep the graph of the term", (edit,), Safety.UNSAFE)
    yield src.finding(rule, call, message, fix, (src.related(backward),))


def cut(call: cst.Call, src: Source) -> cst.BaseExpression | None:
    """The tensor of which a call makes a constant."""
    function = call.func
    if isinstance(function, cst.Attribute) and function.attr.value == "item" and not call.args:
        return function.value
    if src.name(function) in COPYING | NUMBERS and len(call.args) == 1:
        return call.args[0].value if call.args[0].keyword is None else None
    return None
