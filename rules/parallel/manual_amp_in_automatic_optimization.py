"""A `training_step` runs the backward pass or a scaler, as Lightning does after it.

Unless a LightningModule says otherwise, Lightning backpropagates the loss that `training_step`
returns, scales it where the precision asks for that, and steps. A `backward()` on the loss in
`training_step` makes that the second one through the graph, which raises; where no loss is
returned, Lightning sets the gradients to zero and steps all the same; `self.manual_backward` raises
at once. A GradScaler of one's own multiplies the gradients, and nothing divides them again.

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.scaler.scale(loss).backward()
        return loss                              # RuntimeError: backward a second time

    def training_step(self, batch, batch_idx):
        return self.loss(batch)                  # Trainer(precision="16-mixed") scales it

Or `self.automatic_optimization = False` in the constructor, and `self.manual_backward(loss)`.

Fix safety: none is offered: which of the two is meant is not known.

Known limits: silent where the class, one that it derives from or one that derives from it mentions
`automatic_optimization`, derives from a class of another library as well, or the project sets it
from outside. A backward pass of another tensor than the one that is returned (an attack, say) is
left alone, and so are the other hooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    BackpropagatedLosses,
    BackpropagatedValues,
    Finding,
    Function,
    Group,
    Object,
    Raises,
    Rule,
    Spot,
    nodes,
    only,
)
from amplint import libcst as cst

from .._shared.lightning import LIGHTNING_MODULES, optimizes_automatically

if TYPE_CHECKING:
    from amplint import Source

OF_SCALER = frozenset({"scale", "unscale_", "step", "update"})


def is_training_step(at: Spot) -> bool:
    """Whether it is the `training_step` of a LightningModule."""
    return at.facts.name == "training_step" and not at.bases.isdisjoint(LIGHTNING_MODULES)


rule = Rule(
    "AMP615",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="return the loss and let Lightning train, or set `self.automatic_optimization = False`",
    witness=Raises("backward through the graph a second time", backward=True),
    candidates=nodes("function") & is_training_step,
)


@rule.check
def check(function: cst.FunctionDef, src: Source) -> Iterator[Finding]:
    if function.name.value != "training_step" or not optimizes_automatically(function, src):
        return
    calls = sorted(src.calls(function), key=lambda call: src.span(call).start)
    for by_hand in (manual_backward, own_backward, own_scaler):
        found = next((each for call in calls if (each := by_hand(call, src))), None)
        if found is not None:
            yield found  # what comes after it belongs to the same mistake
            return


def manual_backward(call: cst.Call, src: Source) -> Finding | None:
    """Ex) self.manual_backward(loss)"""
    if method(call) != "manual_backward" or isinstance(only(src.value(call.func)), Function):
        return None
    return src.finding(rule, call, "`manual_backward` raises under automatic optimization")


def own_backward(call: cst.Call, src: Source) -> Finding | None:
    """Ex) loss.backward(), and then `return loss`, or nothing"""
    chain, function = src.backward(call), src.function(call)
    if chain is None or not isinstance(function, cst.FunctionDef):
        return None
    losses = list(returned(function, src))
    if not losses:
        message = f"`{src.brief(call)}` is lost: Lightning clears its gradients and steps without"
    elif any(is_backpropagated(loss, call, bool(chain), src) for loss in losses):
        message = f"`{src.brief(call)}` raises: Lightning runs `backward()` on the loss again"
    else:
        return None
    return src.finding(rule, call, message, related=map(src.related, chain))


def own_scaler(call: cst.Call, src: Source) -> Finding | None:
    """Ex) return self.scaler.scale(loss)"""
    if method(call) not in OF_SCALER or not isinstance(call.func, cst.Attribute):
        return None
    scaler = only(src.value(call.func.value))
    if not isinstance(scaler, Object) or scaler.kind != "scaler" or scaler.enabled is False:
        return None
    message = f"`{src.brief(call)}` disturbs Lightning, which runs `backward()` and the step"
    return src.finding(rule, call, message)


def method(call: cst.Call) -> str | None:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else None


def returned(function: cst.FunctionDef, src: Source) -> Iterator[cst.BaseExpression]:
    """The losses that a `training_step` returns."""
    for value in src.layout.returned(function):
        if not (isinstance(value, cst.Name) and value.value == "None"):
            yield loss_of(value, src)


def loss_of(value: cst.BaseExpression, src: Source) -> cst.BaseExpression:
    """The value, or what a dict has under "loss", before it is detached."""
    made = src.origin(value) if isinstance(value, cst.Name) else value
    loss = value
    for element in made.elements if isinstance(made, cst.Dict) else ():
        key = element.key if isinstance(element, cst.DictElement) else None
        if isinstance(key, cst.SimpleString) and key.evaluated_value == "loss":
            loss = element.value
    while isinstance(loss, cst.Call) and method(loss) == "detach":
        loss = cst.ensure_type(loss.func, cst.Attribute).value
    return loss


def is_backpropagated(
    loss: cst.BaseExpression, call: cst.Call, elsewhere: bool, src: Source
) -> bool:
    """Whether a call runs the backward pass of a loss.

    Args:
        loss: what is returned.
        call: what runs a backward pass, in the same function.
        elsewhere: whether it is a function of the project that runs it.
    """
    if not elsewhere and src.keyword(call, "retain_graph") is not None:
        # It may be kept for Lightning's pass alone, except for a step with its optimizer.
        function, receiver = src.function(call), cst.ensure_type(call.func, cst.Attribute).value
        steps = function is not None and "optimizers" in map(method, src.calls(function))
        return steps and same(receiver, loss, src)
    if not elsewhere:
        evidence = src.ask(BackpropagatedLosses, loss)
        return evidence is not None and src.related(evidence).span.start == src.span(call).start
    if any(same(arg.value, loss, src) for arg in call.args):
        return True
    return same(call, loss, src) and src.ask(BackpropagatedValues, loss) is not None


def same(one: cst.BaseExpression, loss: cst.BaseExpression, src: Source) -> bool:
    """Whether a returned name certainly has the value of another, or of an expression."""
    made = src.origin(loss) if isinstance(loss, cst.Name) else loss
    return made is not None and made is (src.origin(one) if isinstance(one, cst.Name) else one)
