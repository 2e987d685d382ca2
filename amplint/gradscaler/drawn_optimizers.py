"""A loop over optimizers that calls `update()` for each: the next one steps at another scale.

Such a loop is run once (`control_flow`), with one symbolic value for all that it draws. So the step
of the next optimizer is no event of its own, and is asked of the loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from amplint.gradscaler.control_flow import SIDES
from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import TrainingEventKind
from amplint.gradscaler.symbolic_values import Symbolic, operands_of
from amplint.gradscaler.trace import Occurrence, TrainingTrace
from amplint.inference import SiteId, State
from amplint.ir import ops
from amplint.ir.flow import FROM_OUTSIDE, terms
from amplint.ir.model import LOOPS, Graph
from amplint.util.walks import reachable
from amplint.values.atoms import Sequence

# After one of these, the next optimizer may have gradients of the new scale.
MAKES_GRADIENTS = frozenset(
    {TrainingEventKind.BACKWARD, TrainingEventKind.SCALED_BACKWARD}
    | {TrainingEventKind.ELSEWHERE, TrainingEventKind.HOOK}
)


def updates_for_each(
    trace: TrainingTrace, index: EventIndex, step: Occurrence, update: Occurrence
) -> bool:
    """Whether a loop draws several optimizers and calls `step` and `update` for each, while their
    gradients were made before it."""
    elements = trace.elements.keys() & parts(trace, [step.argument])
    tests = (test for test, _ in step.guards | update.guards)
    if not elements or not elements.isdisjoint(parts(trace, [step.object, *tests])):
        return False
    loops = {site for each in elements for site in trace.elements[each]}
    return any(is_around(site, trace, index, step, update) for site in loops)


def parts(trace: TrainingTrace, values: Iterable[Symbolic]) -> set[Symbolic]:
    """The values that some values are made of."""
    return set(reachable(values, lambda each: operands_of(trace.symbols[each])))


def is_around(
    drawing: SiteId, trace: TrainingTrace, index: EventIndex, step: Occurrence, update: Occurrence
) -> bool:
    """Whether the loop that draws there is the innermost one around both calls, runs them for all
    that it draws, and makes no gradients itself."""
    function, number = drawing
    state = index.inference.states[function]
    graph = state.graph
    loop = graph.nodes[number].block
    level = next((n for n, each in enumerate(update.site) if each[0] == function), -1)
    if level < 0 or is_short(state, number) or step.site[:level] != update.site[:level]:
        return False
    within = graph.nodes_in(loop)
    return (
        all(is_for_all(graph, each.site[level][1], loop) for each in (step, update))
        and not any(graph.nodes[each].op in (ops.BREAK, ops.RETURN) for each in within)
        and not any(
            event.kind in MAKES_GRADIENTS
            and event.site[:level] == update.site[:level]
            and any(each == function and n in within for each, n in event.site[level : level + 1])
            for event in trace.events
        )
    )


def is_short(state: State, number: int) -> bool:
    """Whether what a loop goes over may have one element alone."""
    over = state.values[state.graph.nodes[number].operands[0]]
    return any(
        isinstance(atom, Sequence) and atom.items is not None and len(atom.items) < 2
        for atom in over
    )


def is_for_all(graph: Graph, number: int, loop: int) -> bool:
    """Whether a loop is the innermost one around a call, and no test that an iteration may answer
    in another way stands between them."""
    within = graph.nodes_in(loop)
    block = graph.nodes[number].block
    while block != loop:
        facts = graph.blocks[block]
        if not graph.is_in(block, loop) or facts.kind in LOOPS:
            return False
        tested = terms(graph, facts.node) if facts.kind in SIDES else []
        if any(each in within and graph.nodes[each].op not in FROM_OUTSIDE for each in tested):
            return False
        block = facts.parent
    return True
