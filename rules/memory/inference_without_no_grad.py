"""Inference keeps a graph that nobody uses.

`model.eval()` changes what dropout and batch norm do, and nothing else: the forward pass records a
graph and keeps the activations for a backward pass that never comes.

    model.eval()
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum()

    model.eval()
    with torch.no_grad():                        # or inference_mode()
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum()

Fix safety: none is offered: what leaves the loop no longer has a graph, and where the context
begins is a matter of taste.

Known limits: the call of `eval()` and the loop have to be in one function, of which no known caller
switches gradients off; under a context or a decorator that amplint does not know, they may be off.
amplint is silent in a function that mentions gradients, where the project switches them globally
(`set_grad_enabled`), of a model whose parameters are frozen in the same function, or in a
LightningModule, since Lightning validates without gradients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    EVALUATION,
    Classes,
    Finding,
    GradSurelyOn,
    Group,
    Instance,
    Rule,
    Same,
    Spot,
    calls,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.vocabulary import ABOUT_GRADIENTS

from .._shared.code_texts import called_texts
from .._shared.lightning import in_lightning_module
from .._shared.reads import heat_places

if TYPE_CHECKING:
    from amplint import Source

SWITCHES_OFF = re.compile(r"no_grad|inference_mode")
GLOBALLY = r"set_grad_enabled\("


def is_followed(at: Spot) -> bool:
    """Whether something in the function runs for every batch of evaluation, with gradients."""
    return not at.arguments and any(
        node.op == "call"
        and (found := at.heat_of(node.block)) is not None
        and found.temperature == EVALUATION
        for node in at.graph.nodes
    )


rule = Rule(
    "AMP902",
    __doc__,
    group=Group.PEDANTIC,
    since="0.1",
    help="run it under `torch.no_grad()` or `torch.inference_mode()`",
    witness=Same(),
    candidates=calls(".eval") & is_followed,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    function = src.function(call)
    if not switches_to_evaluation(call) or function is None or in_lightning_module(call, src):
        return
    model = src.text(cst.ensure_type(call.func, cst.Attribute).value)
    if ABOUT_GRADIENTS.search(src.text(function)) or src.matches(GLOBALLY, "set_grad_enabled"):
        return
    forward = next(forward_calls(call, model, function, src), None)
    heat = src.heat(forward) if forward is not None else None
    if forward is None or heat is None or trains(function, src):
        return
    message = f"`{src.brief(forward)}` keeps a graph for a backward pass that never comes"
    related = (src.related_node(call, "switched to evaluation here"), *heat_places(heat, src))
    yield src.finding(rule, forward, message, related=related)


def switches_to_evaluation(call: cst.Call) -> bool:
    """Ex) model.eval()"""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "eval" and not call.args


def forward_calls(
    switch: cst.Call, model: str, function: cst.CSTNode, src: Source
) -> Iterator[cst.Call]:
    """The calls of a model that follow its switch to evaluation, for every batch and with
    gradients."""
    block = src.parent(src.statement(switch))
    begin = src.span(switch).end
    calls = sorted(src.calls(function), key=lambda call: src.span(call).start)
    for call in calls:
        if src.span(call).start < begin or src.function(call) is not function:
            continue
        if src.text(call.func) == f"{model}.train":
            return
        around = list(src.ancestors(call))
        if src.text(call.func) != model or block not in around:
            continue
        loops = (cst.For, cst.While, cst.BaseComp)
        if not any(isinstance(each, loops) for each in around[: around.index(function)]):
            continue
        heat = src.heat(call)
        if heat is None or heat.temperature != EVALUATION or not is_module(call.func, src):
            continue
        runs = called_texts(call, src)
        if src.ask(GradSurelyOn, call) and not any(map(SWITCHES_OFF.search, runs)):
            yield call


def is_module(node: cst.BaseExpression, src: Source) -> bool:
    """Whether a model may be a module of torch: no other class of the project."""
    value = src.value(node)
    return not isinstance(only(value), Instance) or src.fact(Classes).is_module(value)


def trains(function: cst.CSTNode, src: Source) -> bool:
    return any(src.backward(call) is not None for call in src.calls(function))
