"""Inference builds a graph that is never used.

`model.eval()` only changes dropout and batch norm: the forward pass still records a graph, and
keeps the activations for a backward pass that never comes.

    model.eval()
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum()

    model.eval()
    with torch.no_grad():                        # or inference_mode()
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum()

Fix safety: none is offered: results of the loop would no longer have a graph, and the author has to
choose where the context begins.

Known limits: the call of `eval()` and the loop have to be in one function, and no known caller may
switch gradients off; under an unknown context or decorator, they may be off. The rule is silent in
a function that mentions gradients, except to switch them off for another block; if the project
switches them globally (`set_grad_enabled`); for a model whose parameters are frozen in the same
function; and in a LightningModule, since Lightning validates without gradients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import (
    EVALUATION,
    CalledTexts,
    Finding,
    Group,
    Instance,
    Rule,
    Same,
    View,
    calls,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.vocabulary import ABOUT_GRADIENTS

from .._shared.lightning import in_lightning_module
from ._grad_mode import GradSurelyOn

SWITCHES_OFF = re.compile(r"no_grad|inference_mode")
OFF_FOR_A_BLOCK = re.compile(r"\b(no_grad|inference_mode)\(\)")
GLOBALLY = r"set_grad_enabled\("

rule = Rule(
    "AMP902",
    __doc__,
    group=Group.PEDANTIC,
    help="run it under `torch.no_grad()` or `torch.inference_mode()`",
    witness=Same(),
)


@rule.on(calls(".eval"))
def check(switch: View) -> Iterator[Finding]:
    if not switches_to_evaluation(switch) or in_lightning_module(switch):
        return
    if not any(map(keeps_graph, switch.operations("call"))):
        return
    function = switch.source.function(switch.cst)
    if function is None or switch.matches(GLOBALLY, "set_grad_enabled"):
        return
    forward = next(forward_calls(switch), None)
    heat = forward.hotness if forward is not None else None
    if forward is None or heat is None or speaks_of_gradients(switch, function):
        return
    message = f"`{forward.brief}` keeps a graph for a backward pass that never comes"
    yield forward.finding(
        message, (switch.related("switched to evaluation mode here"), *heat.chain)
    )


def switches_to_evaluation(call: View) -> bool:
    """Ex) model.eval()"""
    return call.method == "eval" and not any(call.arguments)


def keeps_graph(call: View) -> bool:
    """Whether a call, for every batch of evaluation, may be of a model, and keeps its graph."""
    heat = call.hotness
    return (
        heat is not None
        and heat.temperature == EVALUATION
        and may_be_module(call.operands[0])
        and call.ask(GradSurelyOn) is True
        and not any(map(SWITCHES_OFF.search, call.ask(CalledTexts) or ()))
    )


def may_be_module(model: View) -> bool:
    """Whether a model may be a module of torch: no other class of the project."""
    return model.is_module or not isinstance(only(model.value), Instance)


def forward_calls(switch: View) -> Iterator[View]:
    """The calls of a model in a loop that follow its switch to evaluation, for every batch and with
    gradients."""
    src = switch.source
    block = src.parent(src.statement(switch.cst))
    model = switch.receiver.text if switch.receiver is not None else ""
    loops = (cst.For, cst.While, cst.BaseComp)
    scopes = (*loops, cst.FunctionDef, cst.Lambda)
    calls = (each for each in switch.operations("call") if each.is_written)
    for call in sorted(calls, key=lambda each: each.span.start):
        if call.span.start < switch.span.end:
            continue
        called = src.text(call.cst.func)
        if called == f"{model}.train":
            return
        is_below = any(each is block for each in src.ancestors(call.cst))
        is_in_loop = isinstance(src.layout.innermost(call.cst, scopes), loops)
        if called == model and is_below and is_in_loop and keeps_graph(call):
            yield call


def speaks_of_gradients(switch: View, function: cst.CSTNode) -> bool:
    """Whether a function mentions gradients, or runs a backward pass.

    That they are off for another block says nothing of those that a call keeps.
    """
    src = switch.source
    text = OFF_FOR_A_BLOCK.sub("", src.text(function))
    return ABOUT_GRADIENTS.search(text) is not None or any(
        switch.of(call).backward is not None for call in src.calls(function)
    )
