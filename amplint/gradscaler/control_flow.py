"""The parts of a function that have to be run, and how often.

Only what may matter to training is run: a side of a test that neither holds an event nor leaves
the loop or the function is left out, and so are handlers of exceptions and what raises. The body of
an innermost loop around a backward pass is run twice, and that of an innermost loop around both a
backward pass and a step of a scaler: with `for batch in loader: for part in batch: ...`, the steps
are those of the outer one. That of any other loop is run once. A loop around the backward pass of a
loss that was computed before it is none around the backward pass: it goes over losses or
optimizers, each of which is used once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from amplint.gradscaler.event_index import EventIndex, TrainingPart
from amplint.gradscaler.events import Role, TrainingEvent, TrainingEventKind, is_scaler_step
from amplint.inference import SiteId
from amplint.ir import ops
from amplint.ir.flow import EXITS, is_carried, method_called
from amplint.ir.model import LOOPS, Graph
from amplint.util.walks import reachable
from amplint.values.atoms import Host

# By kind of block: the outcome that leads there.
SIDES = {"if": True, "else": False, "after": False}


@dataclass(frozen=True)
class ControlFlow:
    """The blocks of a function, as they are run.

    Args:
        begins: by node, the blocks that begin with it, from the outermost.
        needed: those that hold an event, make a scaler or are left early, and those around them.
        twins: the blocks of one outcome of tests, each with that of the other one, if that is run.
        raising: those that end in a `raise`.
        sure: those that are run where another one does not raise.
        repeated: the loops that are run twice.
        carried: by loop, the nodes that hold at its start what an iteration left.
    """

    begins: Mapping[int, Sequence[int]]
    needed: frozenset[int]
    twins: Mapping[int, int]
    raising: frozenset[int]
    sure: frozenset[int]
    repeated: frozenset[int]
    carried: Mapping[int, Sequence[int]]


def control_flow(index: EventIndex, function: str) -> ControlFlow:
    graph = index.inference.states[function].graph
    needed: set[int] = set()
    training: set[int] = set()
    stepping: set[int] = set()
    raising: set[int] = set()
    carried: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        site = (function, number)
        event = index.of[function].get(number)
        if (
            event is not None
            or node.op in EXITS
            or index.callees(site)
            or (node.op == ops.CALL and index.role(site)[0] in (Role.SCALER, Role.DISABLED))
        ):
            add_ancestors(needed, graph, node.block)
        if node.op == ops.RAISE:
            raising.add(node.block)
        if is_carried(graph, number):
            carried.setdefault(node.block, []).append(number)
        callees = index.inference.calls.edges.get(site, set())
        each = event if event is not None and event.kind is TrainingEventKind.BACKWARD else None
        if callees & index.leading[TrainingPart.BACKWARD] or each is not None:
            add_ancestors(training, graph, block_of_backward(index, site, each))
        if callees & index.leading[TrainingPart.STEPS] or (
            event is not None
            and is_scaler_step(index.inference, index.inference.states[function], event)
        ):
            add_ancestors(stepping, graph, node.block)
    begins: dict[int, list[int]] = {}
    twins: dict[int, int] = {}
    sure: set[int] = set()
    sides: dict[tuple[int, int, int], int] = {}  # each `if`, by the block around, its test and end
    for block, facts in enumerate(graph.blocks):
        within = graph.nodes_in(block)
        if not within:
            continue
        begins.setdefault(within.start, []).append(block)
        if facts.kind in SIDES:
            twin = sides.get((facts.parent, facts.node, within.start))
            if facts.kind == "if":
                sides[facts.parent, facts.node, within.stop] = block
            elif twin is not None and {block, twin} & raising:
                sure |= {block, twin} - raising
            elif twin is not None and (facts.kind == "after" or block in needed):
                twins[twin] = block
    return ControlFlow(
        begins,
        frozenset(needed),
        twins,
        frozenset(raising),
        frozenset(sure),
        innermost_loops(training, graph) | innermost_loops(training & stepping, graph),
        carried,
    )


def block_of_backward(index: EventIndex, site: SiteId, backward: TrainingEvent | None) -> int:
    """The block of a backward pass, or the one around the loops that do not compute its loss.

    Args:
        site: the call.
        backward: the backward pass itself; None for a call that leads to one.
    """
    function, number = site
    state = index.inference.states[function]
    graph = state.graph
    block = graph.nodes[number].block
    losses = {backward.object} if backward is not None else handed_losses(index, site)
    loop = loop_around(graph, block)
    while losses and loop >= 0 and not is_computed_within(index, function, losses, loop):
        block = graph.blocks[loop].parent
        loop = loop_around(graph, block)
    return block


def handed_losses(index: EventIndex, site: SiteId) -> set[int]:
    """The arguments of a call whose backward passes it is that the function runs; none where it
    runs another one as well."""
    node = index.inference.states[site[0]].graph.nodes[site[1]]
    losses: set[int] = set()
    if node.op != ops.CALL:
        return losses
    for callee in index.callees(site):
        graph = index.inference.states[callee].graph
        names = index.inference.functions[callee].places
        backward = [
            each for each in index.of[callee].values() if each.kind is TrainingEventKind.BACKWARD
        ]
        if not backward:
            return set()
        for each in backward:
            loss = graph.nodes[loss_of(graph, each.object)]
            if loss.op != ops.PARAM or loss.data not in names:
                return set()
            losses.add(node.argument(names.index(loss.data), loss.data))
    return losses - {-1}


def loss_of(graph: Graph, number: int) -> int:
    """The loss of `scaler.scale(loss)`; that of anything else is itself."""
    node = graph.nodes[number]
    is_scaling = method_called(graph, node)[0] == "scale"
    scaled = node.argument(0, "outputs") if is_scaling else -1
    return graph.narrowed(scaled if scaled >= 0 else number)


def loop_around(graph: Graph, block: int) -> int:
    """The innermost loop around a block, or the block itself; -1 without one."""
    while block >= 0 and graph.blocks[block].kind not in LOOPS:
        block = graph.blocks[block].parent
    return block


def is_computed_within(index: EventIndex, function: str, losses: Iterable[int], loop: int) -> bool:
    """Whether each iteration of a loop calls or draws something that a loss is made of, or stores
    the field that it is read from; not where it only scales it, or chooses it by a number."""
    state = index.inference.states[function]
    graph = state.graph

    within = graph.nodes_in(loop)

    def operands(number: int) -> Iterable[int]:
        return (each for each in graph.nodes[number].operands if each in within)

    for number in reachable(losses, operands):
        node = graph.nodes[number]
        if number not in within or all(isinstance(atom, Host) for atom in state.values[number]):
            continue
        if node.op in (ops.ITER, ops.PHI, ops.AUG, ops.OPAQUE):
            return True
        if node.op == ops.CALL and loss_of(graph, number) == number:
            return True
        if node.op == ops.ATTR and node.data in index.stored_in(function, loop):
            return True
    return False


def innermost_loops(blocks: set[int], graph: Graph) -> frozenset[int]:
    """The loops of some blocks in which none of the others lies."""
    loops = sorted(block for block in blocks if graph.blocks[block].kind in LOOPS)
    return frozenset(
        loop
        for loop, following in pairwise([*loops, -1])
        if following < 0 or not graph.is_in(following, loop)  # what lies in it comes right after it
    )


def add_ancestors(blocks: set[int], graph: Graph, block: int) -> None:
    """Add a block and those around it."""
    while block >= 0 and block not in blocks:
        blocks.add(block)
        block = graph.blocks[block].parent
