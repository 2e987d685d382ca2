"""The fixpoint: values of all nodes of the functions that matter, across functions and files.

A function is evaluated when somebody needs it. What it needs of others (a parameter's values, what
a function returns, a field of a class, a name of a module) are *keys*: reading one queues its
writers, and has the reader evaluated again when the key changes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from amplint.inference.function.binding import ArgumentBinding
from amplint.inference.function.evaluation import EVERYWHERE, Evaluation
from amplint.inference.function.frame import Frame
from amplint.inference.function.regions import regions_of
from amplint.inference.inference import Inference
from amplint.inference.state import WHOLE, State
from amplint.ir.model import FunctionFacts
from amplint.util.errors import describe
from amplint.values.atoms import BOTTOM


def solve(inference: Inference, roots: Iterable[str]) -> None:
    """Evaluate the given functions, those that were not, and all that they need, until nothing
    changes."""
    for root in sorted(roots):
        if root not in inference.states:
            inference.queue.later(root)
    for function, nodes in inference.queue.drain():
        evaluate(inference, function, nodes)


def evaluate(
    inference: Inference,
    function: str,
    nodes: set[int],
    scope: Container[int] = EVERYWHERE,
    component: Container[int] | None = None,
    turn: int = 0,
) -> None:
    """Evaluate nodes of a function, and what depends on them there; see `Evaluation.run`."""
    inference.will_change(function)
    store = inference.store
    try:
        state = inference.states.get(function)
        if state is None:
            state, nodes = begun(inference, function), {WHOLE}
        state.rounds += inference.queue.turn is None
        facts = inference.functions[function]
        store.current, store.outside = function, facts.path not in inference.files.own
        evaluation_of(inference, facts, state).run(nodes, scope, component, turn)
    except Exception as error:
        inference.give_up(function, f"inference failed: {describe(error)}")
    finally:
        store.current, store.outside, store.node = "", False, WHOLE


def evaluation_of(inference: Inference, facts: FunctionFacts, state: State) -> Evaluation:
    """The evaluation of a function, which reads and writes the keys of the project."""
    frame = Frame(inference, inference.store, facts, state)
    return Evaluation(frame, ArgumentBinding(frame))


def begun(inference: Inference, function: str) -> State:
    """The state of a function of which nothing is known yet."""
    facts = inference.functions[function]
    graph = inference.files[facts.path].graph(function)
    state = State(graph, [BOTTOM] * len(graph.nodes), facts.kind == "function")
    inference.states[function] = state
    return state


def forget(inference: Inference, function: str, nodes: Iterable[int]) -> None:
    """Take the values of nodes for nothing: they are going to be evaluated."""
    inference.will_change(function)
    values = inference.states[function].values
    for node in nodes:
        values[node] = BOTTOM


def note_regions(inference: Inference) -> None:
    """Note the regions of all blocks of all functions."""
    for function, state in inference.states.items():
        if len(state.regions) < len(state.graph.blocks):
            regions = regions_of(inference, inference.functions[function], state)
            regions.around, regions.by_block = state.around, state.regions
            for block in range(len(state.graph.blocks)):
                regions.of(block)
