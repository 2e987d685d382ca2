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

from amplint import (
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    LossTerms,
    Rule,
    Safety,
    TensorCertainty,
    View,
    calls,
)

COPYING = frozenset({"torch.tensor", "torch.Tensor", "torch.FloatTensor"})
NUMBERS = frozenset({"builtins.float"})

rule = Rule(
    "AMP904",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="use the tensor of the term itself, so that its gradient flows",
    witness=Differs(rtol=0.01),
    changes=frozenset({Change.TRAINING}),
    supersedes=("AMP101", "AMP110", "AMP503", "AMP504"),
)


@rule.on(calls(".item", *COPYING, *NUMBERS))
def check(call: View) -> Iterator[Finding]:
    term = cut(call)
    tensor = term.tensor if term is not None else None
    if term is None or tensor is None or tensor.grad is False or not term.ask(TensorCertainty):
        return
    backward = call.ask(LossTerms)
    if backward is None:
        return
    message = f"`{call.brief}` has no gradient: training goes on without this term"
    edits = call.source.edits
    edit = edits.replace(call.cst, edits.as_receiver(term.cst))
    fix = Fix("Keep the graph of the term", (edit,), Safety.UNSAFE)
    yield call.finding(message, (backward,), fix)


def cut(call: View) -> View | None:
    """The value of which a call makes a constant. Ex) torch.tensor(loss), loss.item()"""
    given = [*call.arguments]
    if call.method == "item" and not given:
        return call.receiver
    if call.callee not in COPYING | NUMBERS or len(given) != 1:
        return None
    _, keyword, argument = given[0]
    return argument if keyword is None else None
