"""Gradients that are thrown away right before the step of a scaler that is to use them.

Where the backward pass is in sight, the paths through a function show it (`checker`). Between
`optimizer.zero_grad()` and `scaler.step(optimizer)` of one block nothing else has to be known: what
was there is gone, and nothing came in between that makes new gradients.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import TrainingEventKind, is_scaler_step
from amplint.inference import SiteId, State
from amplint.ir import ops
from amplint.ir.flow import method_called
from amplint.knowledge.vocabulary import TEST_PATH
from amplint.values.atoms import Symbol

# Events that make no gradients.
LEAVING = frozenset(
    {
        TrainingEventKind.UNSCALE,
        TrainingEventKind.CLIP,
        TrainingEventKind.READ,
        TrainingEventKind.IS_ENABLED,
    }
)


def find_cleared(index: EventIndex) -> Iterator[tuple[SiteId, SiteId]]:
    """The calls of `zero_grad`, each with the step that finds nothing."""
    for function, events in sorted(index.of.items()):
        if not events:
            continue
        state = index.inference.states[function]
        if TEST_PATH.search(index.inference.functions[function].path):
            continue
        leaving = {number for number, event in events.items() if event.kind in LEAVING}
        for number, event in events.items():
            if is_scaler_step(index.inference, state, event) and event.argument >= 0:
                cleared = cleared_before(state, number, event.argument, leaving)
                if cleared is not None:
                    yield (function, cleared), (function, number)


def cleared_before(state: State, step: int, optimizer: int, leaving: set[int]) -> int | None:
    """The call that clears the gradients of an optimizer right before a step; None without one.

    Args:
        leaving: calls that may stand between the two.
    """
    nodes = state.graph.nodes
    for number in range(step - 1, -1, -1):
        node = nodes[number]
        if node.op not in (ops.CALL, ops.STORE) or number in leaving:
            continue
        if node.op != ops.CALL or node.block != nodes[step].block:
            return None
        method, receiver = method_called(state.graph, node)
        if method == "zero_grad":
            return number if is_same(state, receiver, optimizer) else None
        value = state.values[node.operands[0]]
        if not value or not all(isinstance(each, Symbol) for each in value):
            return None
    return None


def is_same(state: State, one: int, other: int) -> bool:
    """Whether two nodes, between which nothing is stored, are the same variable or field."""
    while one != other:
        first, second = state.graph.nodes[one], state.graph.nodes[other]
        if first.op != second.op or first.data != second.data:
            return False
        if first.op != ops.ATTR:
            return first.op == ops.NAME
        one, other = first.operands[0], second.operands[0]
    return True
