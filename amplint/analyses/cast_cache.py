"""Which weights a training loop updates while the autocast region around it keeps their casts.

The cast of a float32 weight is made once for the outermost autocast context, and is dropped only
when that context is left. A weight that changes within it is used as it was. (ATen/
autocast_mode.cpp; run on the CPU with torch 2.13, 1.12 and 1.11.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from amplint.analyses.backward_calls import BackwardCalls
from amplint.analyses.hotness import Hotness
from amplint.facts.fact import Fact, Required
from amplint.inference import SiteId, State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import method_called, whole
from amplint.ir.model import path_of
from amplint.util.positions import Place
from amplint.util.walks import reachable
from amplint.values.atoms import (
    Autocast,
    Evidence,
    Instance,
    Method,
    Object,
    Shows,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    entered,
    may_be,
)

HALVES = frozenset({"float16", "bfloat16"})
CASTS_TO_HALF = frozenset({"half", "bfloat16"})
STALE = "still uses the first casts of the weights"
Part = tuple[str, int]  # a function, and a block of it; -1 for all of it


@dataclass(frozen=True)
class Stale:
    """Weights that change within a region, and are used in it again.

    Args:
        because: the loop that repeats both, where the weights change and where they are used, and
            the backward passes in the region itself.
        nested: whether the weights are used in another region inside.
    """

    because: tuple[Evidence, ...]
    nested: bool


class CastCache(Fact):
    """The training loops in regions, also where a call runs one of one function alone."""

    _backward_calls = Required(BackwardCalls)
    _hotness = Required(Hotness)

    def of_context(self, at: NodePlace, place: Place) -> Stale | None:
        """For the region that a `with`, or a decorator, opens.

        Args:
            at: the node of the context; one context may serve several times.
            place: where it is written.
        """
        state = self.inference.states[at.function]
        opened = autocast_in(state.values[at.node])
        if opened is None or opened.cache is False or opened.enabled is False:
            return None
        for number, block in enumerate(state.graph.blocks):
            if (block.kind, block.node, block.location) == ("with", at.node, place[1:]):
                is_inner = innermost(state, block.parent) is not None
                return None if is_inner else self._stale((at.function, number))
        for user in state.users[at.node]:
            decorated = str(state.graph.nodes[user].data)
            if state.graph.nodes[user].op == ops.DEF and decorated in self.inference.states:
                return self._stale((decorated, -1))
        return None

    def _stale(self, region: Part) -> Stale | None:
        """The nearest loop in a region that updates weights and uses them."""
        for function, block in self._run(region, training=True):
            graph = self.inference.states[function].graph
            for loop in self._hotness.training_loops(function):
                update = next(self._updates((function, loop)), None)
                use = next(self._uses((function, loop)), None)
                if graph.is_in(loop, block) and update is not None and use is not None:
                    row, column, *_ = graph.blocks[loop].location
                    path = self.inference.functions[function].path
                    place = Place(path, row, column, row, column + 3)
                    because = (
                        Evidence(place, "this loop runs within one autocast region", Shows.LOOP),
                        self.why(*update, "changes the weights here", Shows.WEIGHTS),
                        self.why(*use, STALE, Shows.WEIGHTS),
                        *self._backwards(region),
                    )
                    user = self.inference.states[use[0]]
                    opener = innermost(user, user.graph.nodes[use[1]].block)
                    return Stale(because, opener is not None and (use[0], opener) != region)
        return None

    def _backwards(self, region: Part) -> Iterator[Evidence]:
        """The backward passes that run in the region itself, and not in one inside it."""
        function, block = region
        text = "the backward pass runs in the region as well"
        for number, opener in self._calls(region):
            passes = self._backward_calls.chain(function, number)
            if passes is not None and opener in (None, block):
                yield self.why(function, number, text, Shows.BACKWARD)

    def _run(self, part: Part, training: bool = False) -> Iterator[Part]:
        """A part of a function and the functions that its calls surely run where weights are cast,
        the nearest first.

        Args:
            training: whether only those are wanted that update weights, or call what does.
        """

        def called(part: Part) -> Iterator[Part]:
            function, _ = part
            for number, _ in self._calls(part):
                if training and self._backward_calls.trains_nothing(function, number):
                    continue
                edges = self.inference.calls.edges.get((function, number), ())
                callees = [each for each in edges if not self._backward_calls.is_abstract(each)]
                pool = self._backward_calls.trains if training else callees
                if len(callees) == 1 and callees[0] in pool and not self._has_region(callees[0]):
                    yield callees[0], -1

        return reachable([part], called)

    def _has_region(self, function: str) -> bool:
        """Whether a decorator opens another region."""
        is_decorated = bool(self.inference.functions[function].decorated)
        return is_decorated and any(
            isinstance(atom, Autocast) for atom in self.inference.decorators(function)
        )

    def _calls(self, part: Part) -> Iterator[tuple[int, int | None]]:
        """The calls in a part of a function that stand where weights are cast and the casts kept,
        each with the block of the innermost region around it."""
        state = self.inference.states[part[0]]
        for number in state.graph.nodes_in(part[1]):
            if state.graph.nodes[number].op == ops.CALL:
                opener = innermost(state, state.graph.nodes[number].block)
                opened = autocast_of(state, opener) if opener is not None else None
                if opened is None or (opened.enabled is not False and opened.cache is not False):
                    yield number, opener

    def _updates(self, loop: Part) -> Iterator[SiteId]:
        """The calls that change weights, and in every iteration those of the same layers."""
        for function, block in self._run(loop, training=True):
            state = self.inference.states[function]
            for number, _ in self._calls((function, block)):
                is_step = self._backward_calls.is_step(function, number)
                if is_step and not is_of_others(state, number, loop[1]):
                    yield function, number

    def _uses(self, loop: Part) -> Iterator[SiteId]:
        """The calls that run a module, or perhaps one."""
        for function, block in self._run(loop):
            for number, _ in self._calls((function, block)):
                if self._is_forward(function, number):
                    yield function, number

    def _is_forward(self, function: str, number: int) -> bool:
        state = self.inference.states[function]
        callee = state.graph.nodes[number].operands[0]
        value = state.values[callee]
        modules = [
            atom
            for atom in value
            if (isinstance(atom, Object) and atom.kind == "module")
            or (isinstance(atom, Instance) and self.inference.hierarchy.is_module(atom.cls))
            or (isinstance(atom, Method) and atom.name == "forward")
        ]
        if modules:
            is_half = any(isinstance(a, Object) and a.dtype in HALVES for a in modules)
            return not is_half and not is_cast_to_half(state, callee)
        if value and Unknown() not in value:
            return False
        nodes = (number, *state.graph.nodes[number].arguments)
        holds = (isinstance(a, Tensor | TensorTree) for n in nodes for a in state.values[n])
        return any(holds) and bool(state.users[number])


def autocast_in(value: Value) -> Autocast | None:
    return next((atom for atom in entered(value) if isinstance(atom, Autocast)), None)


def autocast_of(state: State, block: int) -> Autocast | None:
    """The autocast context that a block is the body of."""
    facts = state.graph.blocks[block]
    if facts.kind != "with" or facts.node < 0:
        return None
    return autocast_in(state.values[facts.node])


def innermost(state: State, block: int) -> int | None:
    """The innermost block around one that is the body of an autocast context."""
    while block >= 0 and autocast_of(state, block) is None:
        block = state.graph.blocks[block].parent
    return block if block >= 0 else None


def is_cast_to_half(state: State, module: int) -> bool:
    """Whether the function casts the module to half: model.half()"""
    graph = state.graph
    path = path_of(graph, module)
    return path is not None and any(
        node.op == ops.ATTR
        and node.data in CASTS_TO_HALF
        and path_of(graph, node.operands[0]) == path
        for node in graph.nodes
    )


def is_of_others(state: State, step: int, loop: int) -> bool:
    """Whether a step changes no layer's weights, or those of other layers in each iteration.

    Ex) of `Adam([latent])`; in `for model, optimizer in zip(models, optimizers)`
    """
    graph = state.graph
    _, optimizer = method_called(graph, graph.nodes[step])
    if optimizer < 0:
        return False
    origin = graph.nodes[whole(graph, optimizer)]
    if origin.op == ops.ITER and origin.block == loop:
        return True
    constructor = graph.nodes[graph.narrowed(optimizer)]
    number = constructor.argument(0, "params") if constructor.op == ops.CALL else -1
    parameters = graph.nodes[number]
    return (
        number >= 0
        and parameters.op == ops.LIST
        and all(may_be(state.values[element], Tensor) for element in parameters.operands)
    )
