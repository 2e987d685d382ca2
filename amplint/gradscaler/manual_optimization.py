"""Losses that go round a framework which scales them, and makes the step with its own scaler.

Ex) `loss.backward()` for `self.manual_backward(loss)` in a module of Lightning that calls `step()`
of `self.optimizers()`: the optimizer that Lightning hands out divides the gradients by the scale.
The scaler is out of sight, so that no path through a function shows what it does (`checker`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import (
    TrainingEvent,
    TrainingEventKind,
    framework_calls_behind,
    keeps_scaler,
)
from amplint.gradscaler.losses import scales
from amplint.inference import Inference, SiteId, State
from amplint.ir.flow import method_called
from amplint.ir.model import Graph
from amplint.knowledge.vocabulary import TEST_PATH
from amplint.values.atoms import Instance
from amplint.values.lattice import only

ENDS = frozenset({TrainingEventKind.ZERO, TrainingEventKind.ELSEWHERE, TrainingEventKind.STEP})


def bypasses(index: EventIndex) -> Iterator[tuple[SiteId, SiteId]]:
    """The plain backward passes, each with the step by which a framework divides its gradients."""
    for function, events in sorted(index.of.items()):
        kinds = {event.kind for event in events.values()}
        facts = index.inference.functions[function]
        if (
            TrainingEventKind.BACKWARD in kinds
            and TrainingEventKind.SCALED_BACKWARD not in kinds
            and not TEST_PATH.search(facts.path)
            and not any(map(scales, facts.words))  # a loss that is scaled by hand
            and not runs_scaled_backward(index, function)
        ):
            for backward, step in bypassed(index.inference, function, events):
                yield (function, backward), (function, step)


def runs_scaled_backward(index: EventIndex, function: str) -> bool:
    """Whether a function that this one calls backpropagates by the framework: the plain pass may be
    of other weights."""
    calls = index.inference.calls.edges
    numbers = range(len(index.inference.states[function].graph.nodes))
    callees = {each for number in numbers for each in calls.get((function, number), ())}
    return any(
        event.kind is TrainingEventKind.SCALED_BACKWARD
        for each in callees
        for event in index.of.get(each, {}).values()
    )


def bypassed(
    inference: Inference, function: str, events: Mapping[int, TrainingEvent]
) -> Iterator[tuple[int, int]]:
    """Those of one function: the last backward pass before a step, where no test makes it alone."""
    state = inference.states[function]
    if not all(
        is_step(inference, state, number, event)
        for number, event in events.items()
        if event.kind is TrainingEventKind.STEP
    ):
        return  # which of the optimizers has the gradients is not known
    backward = -1
    for number, event in sorted(events.items()):
        if event.kind is TrainingEventKind.BACKWARD:
            backward = number
        elif event.kind in ENDS and backward >= 0:
            is_alone = not sides(state.graph, backward) <= sides(state.graph, number)
            if is_step(inference, state, number, event) and not is_alone:
                yield backward, number
            backward = -1


def is_step(inference: Inference, state: State, number: int, event: TrainingEvent) -> bool:
    """Whether a call is the step of an optimizer that a framework with a scaler has handed out; not
    where it was asked for the bare one: `self.optimizers(use_pl_optimizer=False)`."""
    node = state.graph.nodes[number]
    if method_called(state.graph, node)[0] != "step" or node.arguments:
        return False
    calls = [*framework_calls_behind(inference, state, event.object)]
    return bool(calls) and all(
        row.gives in ("optimizer", "given")  # `optimizers` of Lightning, `prepare` of accelerate
        and (row.gives != "optimizer" or not call.arguments)
        and (owner := only(value)) is not None
        and keeps_scaler(inference, owner)
        and (not isinstance(owner, Instance) or may_be_manual(inference, owner.cls))
        for call, value, row in calls
    )


def may_be_manual(inference: Inference, cls: str) -> bool:
    """Whether a class speaks of the attribute by which a framework leaves the step to it."""
    rows = inference.hierarchy.models_of(cls)
    attributes = {method.unless for row in rows for method in row.methods} - {None}
    order = inference.hierarchy.mro(cls)
    return any(not attributes.isdisjoint(inference.functions[each].words) for each in order)


def sides(graph: Graph, number: int) -> frozenset[int]:
    """The sides of tests that a node stands in."""
    within, block = set(), graph.nodes[number].block
    while block >= 0:
        if graph.blocks[block].kind in ("if", "else"):
            within.add(block)
        block = graph.blocks[block].parent
    return frozenset(within)
