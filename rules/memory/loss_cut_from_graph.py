"""A term of a loss is copied or read as a number, and so has no gradient.

`torch.tensor(term)`, `term.item()` and `float(term)` return a constant: the backward pass does not
know how the term was computed. Training silently ignores the term, while the logged value still
contains it.

    def regulariser(divergence, alpha):
        return torch.tensor(alpha * divergence)          # a constant
    loss = F.mse_loss(model(x), y) + regulariser(divergence, 0.1)
    loss.backward()                                      # as if it were not there

    def regulariser(divergence, alpha):
        return alpha * divergence
    loss = F.mse_loss(model(x), y) + regulariser(divergence, 0.1)
    loss.backward()

With `requires_grad=True` it is a new leaf, so that `backward()` works even if the whole loss is
built this way: but the gradient ends in the loss itself. `torch.stack` keeps the graphs of a list
of losses.

    loss = torch.tensor([main, extra], requires_grad=True).sum()     # trains nothing

    loss = torch.stack([main, extra]).sum()

Fix safety: unsafe: removes the call, or stacks a list, so that training now learns from the term as
well. Not offered if the call has a dtype or a device.

Known limits: silent about a parameter that gets no tensor in any visible call, and if the backward
pass of the loss is not visible. A factor of a loss may well be a constant, and is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Sequence,
    Tensor,
    TensorCertainty,
    Value,
    View,
    calls,
    only,
)

from .._shared.tensors import is_under_no_grad
from ._loss_terms import LossTerms

COPYING = frozenset({"torch.tensor", "torch.Tensor", "torch.FloatTensor"})
NUMBERS = frozenset({"builtins.float"})
OPTIONS = frozenset({"dtype", "device", "requires_grad", "pin_memory"})  # of `torch.tensor`

rule = Rule(
    "AMP904",
    __doc__,
    group=Group.CORRECTNESS,
    help="use the tensor of the term itself, so that its gradient flows",
    witness=Differs(rtol=0.01),
    changes=frozenset({Change.TRAINING}),
    supersedes=("AMP101", "AMP110", "AMP503", "AMP504"),
)


@rule.on(calls(".item", *COPYING, *NUMBERS))
def check(call: View) -> Iterator[Finding]:
    term = cut(call)
    if term is None or not may_have_graph(term.value) or not term.ask(TensorCertainty):
        return
    backward = call.ask(LossTerms)
    origin = term.origin
    if backward is None or (origin.is_written and is_under_no_grad(origin)):
        return
    message = f"`{call.brief}` has no gradient: training ignores this term"
    yield call.finding(message, (backward,), keep_graph(call, term))


def cut(call: View) -> View | None:
    """The value of which a call makes a constant. Ex) torch.tensor(loss), loss.item()"""
    arguments = {keyword: argument for _, keyword, argument in call.arguments}
    if call.method == "item" and not arguments:
        return call.receiver
    if call.callee not in COPYING | NUMBERS or not arguments.keys() <= OPTIONS | {None, "data"}:
        return None
    return call.arg("data", 0)


def may_have_graph(value: Value) -> bool:
    """Whether a value is a tensor that may have a graph, or a list of such numbers."""
    atom = only(value)
    if isinstance(atom, Sequence):
        items = atom.items if atom.items is not None else (atom.element,)
        tensors = [each for each in map(only, items) if isinstance(each, Tensor)]
        are_numbers = len(tensors) == len(items) and all(each.rank == 0 for each in tensors)
        return are_numbers and any(each.grad is not False for each in tensors)
    return isinstance(atom, Tensor) and atom.grad is not False


def keep_graph(call: View, term: View) -> Fix | None:
    """Ex) torch.tensor(loss) -> loss, torch.tensor(losses) -> torch.stack(losses)"""
    edits = call.source.edits
    if any(keyword not in (None, "data", "requires_grad") for _, keyword, _ in call.arguments):
        return None
    replacement = [edits.replace(call.cst, edits.as_receiver(term.cst))]
    if term.tensor is None:
        stack = call.source.imports.spell("torch.stack")
        replacement = [edits.replace(call.cst, f"{stack.text}({term.text})"), *stack.edits]
    return Fix("Keep the graph of the term", tuple(replacement), Safety.UNSAFE)
