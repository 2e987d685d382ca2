"""Gradients that a framework gathers over several batches, and that are unscaled for each of them.

The framework leaves out the step, and the `update()` of its scaler, for all batches but the last;
what divides the gradients by the scale is the user's to leave out. The step is in the framework's
hands, so that no path through a function shows what it does (`checker`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amplint.frameworks.models import UNSURE, ChosenPrecision
from amplint.gradscaler.events import SCALED_DTYPE, scaling_of
from amplint.inference import Inference, SiteId, State
from amplint.ir import ops
from amplint.ir.flow import last_name, method_called, terms
from amplint.ir.model import Graph, Node
from amplint.knowledge.vocabulary import CLIPPING_OPTION, TEST_PATH
from amplint.values.atoms import NONE, Symbol, Value, constant
from amplint.values.lattice import only


class UnscaledEachBatch(NamedTuple):
    """A call that unscales gradients for each batch.

    Args:
        here: the call.
        there: the backward pass of each batch.
        is_refused: whether the precision is seen to be one with a scaler, which then refuses the
            second call.
    """

    here: SiteId
    there: SiteId
    is_refused: bool


def unscaled_each_batch(inference: Inference) -> Iterator[UnscaledEachBatch]:
    """The calls that unscale gradients for each batch where a framework gathers them."""
    words = inference.files.models.gathering
    for function in sorted({each for word in words for each in inference.texts.mentioning(word)}):
        state = inference.states.get(function)
        if state is None or TEST_PATH.search(inference.functions[function].path):
            continue
        for number, block in enumerate(state.graph.blocks):
            if block.kind == "with" and done_by(inference, state, block.node) == "gathers":
                yield from found_in(inference, function, state, number)


def found_in(
    inference: Inference, function: str, state: State, block: int
) -> Iterator[UnscaledEachBatch]:
    """The calls in a context that are made for each batch."""
    graph = state.graph
    calls = [n for n in graph.nodes_in(block) if graph.nodes[n].op == ops.CALL]
    done = {n: done_by(inference, state, n) for n in calls}
    backward = next((n for n in calls if done[n] == "scales"), None)
    unscaling = [n for n in calls if done[n] == "unscales" and is_for_each(graph, n, block)]
    if backward is None or not unscaling or backward > unscaling[0]:
        return
    precisions = set(precisions_of(inference, function))
    if precisions and precisions <= {SCALED_DTYPE, None}:
        yield UnscaledEachBatch(
            (function, unscaling[0]), (function, backward), None not in precisions
        )


def done_by(inference: Inference, state: State, number: int) -> str | None:
    """The effect of a call on the gradients of a framework, as `scaling_of` has it."""
    method, receiver = method_called(state.graph, state.graph.nodes[number])
    return scaling_of(inference, state.values[receiver], method) if method else None


def is_for_each(graph: Graph, number: int, context: int) -> bool:
    """Whether a call in a context is made for each batch: no test stands around it, but those for
    options of the clipping."""
    block = graph.nodes[number].block
    while block != context:
        facts = graph.blocks[block]
        if facts.kind != "if" or not asks_for_option(graph, facts.node):
            return False
        block = facts.parent
    return True


def asks_for_option(graph: Graph, test: int) -> bool:
    """Ex) args.max_grad_norm is not None"""
    options = [each for each in terms(graph, test) if graph.nodes[each].op != ops.CONST]
    return bool(options) and all(CLIPPING_OPTION.search(last_name(graph, n)) for n in options)


def precisions_of(inference: Inference, function: str) -> Iterator[str | None]:
    """The dtypes that the framework may be asked for, in this function or else in the project.

    None stands for one that nobody knows, and "" for none, or where no gradients are gathered.
    """
    own = list(makers_in(inference, inference.states[function]))
    states = inference.states.values() if not own else ()
    for state, node, name in own or (m for s in states for m in makers_in(inference, s)):
        precision = chosen_by(inference, state, node, name)
        if precision is None or not is_gathering(inference, state, node, name):
            yield ""
        else:
            yield precision.dtype or "" if precision.sure else None


def makers_in(inference: Inference, state: State) -> Iterator[tuple[State, Node, str]]:
    """The calls of a function that make an object which gathers gradients if it is asked to."""
    for node in state.graph.nodes:
        if node.op == ops.CALL:
            atom = only(state.values[node.operands[0]])
            if isinstance(atom, Symbol):
                maker = inference.files.models.maker(atom.name)
                if maker is not None and maker.gathering:
                    yield state, node, atom.name


def chosen_by(inference: Inference, state: State, node: Node, name: str) -> ChosenPrecision | None:
    """The precision that a call asks for; None where it says none."""

    def constant_of(argument: str, position: int | None) -> object:
        at = node.argument(position, argument)
        return constant_or_unsure(state.values[at]) if at >= 0 else None

    return inference.files.models.precision(name, constant_of)


def is_gathering(inference: Inference, state: State, node: Node, name: str) -> bool:
    """Whether a call asks for more than one batch to be gathered."""
    maker = inference.files.models.maker(name)
    arguments = (node.argument(None, each) for each in maker.gathering) if maker is not None else ()
    return any(constant_or_unsure(state.values[at]) not in (None, 1) for at in arguments if at >= 0)


def constant_or_unsure(value: Value) -> object:
    """The constant that a value is; None for None, and UNSURE for what is none."""
    if value == frozenset({NONE}):
        return None
    literal = constant(value)
    return UNSURE if literal is None else literal
