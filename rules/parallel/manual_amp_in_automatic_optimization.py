"""A `training_step` runs the backward pass or a scaler, although Lightning does the same after it.

By default, Lightning runs the backward pass of the loss that `training_step` returns, scales the
loss if the precision requires it, and steps. After a `backward()` in `training_step`, Lightning's
own is the second one through the graph, which raises. If no loss is returned, Lightning still sets
the gradients to zero and steps. `self.manual_backward` raises immediately. A separate GradScaler
multiplies the gradients, and nothing divides them again.

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.scaler.scale(loss).backward()
        return loss                              # RuntimeError: backward a second time

    def training_step(self, batch, batch_idx):
        return self.loss(batch)                  # Trainer(precision="16-mixed") scales it

Or `self.automatic_optimization = False` in the constructor, and `self.manual_backward(loss)`.

Fix safety: none is offered: it is not known which of the two is intended.

Known limits: silent if the class, a base class or a subclass mentions `automatic_optimization` or
also derives from a class of another library, or if the project sets it from outside. A backward
pass of another tensor than the returned one (for an adversarial attack, for example) is not
reported; neither are the other hooks.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    BackpropagatedLosses,
    Classes,
    Finding,
    Function,
    Group,
    Object,
    ProjectText,
    Raises,
    Rule,
    View,
    nodes,
    only,
)
from amplint import libcst as cst

from .._shared.lightning import in_lightning_module

KNOWN = ("lightning.", "pytorch_lightning.", "torch.", "abc.", "typing.", "builtins.")
AUTOMATIC = "automatic_optimization"
# An argument of the Trainer of Lightning 1.0 to 1.2, over however many lines.
GIVEN_TO_TRAINER = rf"(?<![.\w]){AUTOMATIC}=\w"
OF_SCALER = frozenset({"scale", "unscale_", "step", "update"})


rule = Rule(
    "AMP615",
    __doc__,
    group=Group.CORRECTNESS,
    help="return the loss and let Lightning train, or set `self.automatic_optimization = False`",
    witness=Raises("backward through the graph a second time", backward=True),
)


@rule.on(nodes("function"))
def check(function: View) -> Iterator[Finding]:
    if function.function.name != "training_step" or not optimizes_automatically(function):
        return
    src = function.source
    written = sorted(src.calls(function.cst), key=lambda call: src.span(call).start)
    calls = [function.of(call) for call in written]
    for by_hand in (manual_backward, own_backward, own_scaler):
        finding = next((each for call in calls if (each := by_hand(call))), None)
        if finding is not None:
            yield finding  # what comes after it belongs to the same mistake
            return


def optimizes_automatically(at: View) -> bool:
    """Whether it is Lightning that runs the backward pass and the step of the module around a
    place: the default, if nobody speaks of it, and no class of another library may."""
    return (
        in_lightning_module(at)
        and all(base.startswith(KNOWN) for base in at.bases)
        and not (at.cls is not None and at.fact(Classes).family_mentions(at.cls, AUTOMATIC))
        and not at.fact(ProjectText).is_stored_from_outside(AUTOMATIC)
        and not at.matches(GIVEN_TO_TRAINER, AUTOMATIC)
    )


def manual_backward(call: View) -> Finding | None:
    """Ex) self.manual_backward(loss)"""
    if call.method != "manual_backward" or isinstance(only(call.called.value), Function):
        return None
    return call.finding("`manual_backward` raises under automatic optimization")


def own_backward(call: View) -> Finding | None:
    """Ex) loss.backward(), and then `return loss`, or nothing"""
    chain, function = call.backward, call.source.function(call.cst)
    if chain is None or not isinstance(function, cst.FunctionDef):
        return None
    losses = list(returned(function, call))
    if not losses:
        message = f"`{call.brief}` has no effect: Lightning clears its gradients before the step"
    elif any(is_backpropagated(loss, call, bool(chain)) for loss in losses):
        message = f"`{call.brief}` raises: Lightning runs `backward()` on the loss again"
    else:
        return None
    return call.finding(message, chain)


def own_scaler(call: View) -> Finding | None:
    """Ex) return self.scaler.scale(loss)"""
    receiver = call.receiver if call.method in OF_SCALER else None
    scaler = only(receiver.value) if receiver is not None else None
    if not isinstance(scaler, Object) or scaler.kind != "scaler" or scaler.enabled is False:
        return None
    message = f"`{call.brief}` interferes with Lightning, which runs `backward()` and the step"
    return call.finding(message)


def returned(function: cst.FunctionDef, call: View) -> Iterator[View]:
    """The losses that the `training_step` around a call returns."""
    for value in call.source.layout.returned(function):
        if not (isinstance(value, cst.Name) and value.value == "None"):
            yield loss_of(call.of(value))


def loss_of(value: View) -> View:
    """The value, or what a dict has under "loss"."""
    origin = value.origin
    written = origin.cst if origin.is_written else None
    for element in written.elements if isinstance(written, cst.Dict) else ():
        key = element.key if isinstance(element, cst.DictElement) else None
        if isinstance(key, cst.SimpleString) and key.evaluated_value == "loss":
            return value.of(element.value)
    return value


def is_backpropagated(loss: View, call: View, elsewhere: bool) -> bool:
    """Whether a call runs the backward pass of a loss.

    Args:
        loss: what is returned.
        call: what runs a backward pass, in the same function.
        elsewhere: whether it is a function of the project that runs it.
    """
    if elsewhere:
        return any(is_same(argument, loss) for _, _, argument in call.arguments)
    if call.arg("retain_graph") is not None:
        # It may be kept for Lightning's pass alone, except for a step with its optimizer.
        steps = any(each.method == "optimizers" for each in call.operations("call"))
        return steps and call.receiver is not None and is_same(call.receiver, loss)
    evidence = loss.ask(BackpropagatedLosses)
    return evidence is not None and call.source.related(evidence).span.start == call.span.start


def is_same(one: View, loss: View) -> bool:
    """Whether a returned name certainly has the value of another, or of an expression."""
    return one.origin.is_same(loss.origin)
