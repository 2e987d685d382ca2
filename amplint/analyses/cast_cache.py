"""Which weights change while an autocast region keeps the casts it has made of them.

The cast of a float32 weight is made once for the outermost autocast context, whatever its device
type and whether it is enabled, and is dropped only when that context is left. A weight that
changes within it is used as it was. (ATen/autocast_mode.cpp; run on the CPU with torch 2.13, 1.12
and 1.11.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from amplint.analyses.hotness import HeatMap
from amplint.core.values import (
    Autocast,
    Blob,
    Instance,
    Method,
    Object,
    Place,
    Tensor,
    Unknown,
    Value,
    Why,
)
from amplint.inference import Inference, State
from amplint.inference.use_evidence import path_of
from amplint.ir.model import Graph, Location, Node

MAX_CALLS = 6  # between the region and the loop, and between the loop and what it runs
HALVES = frozenset({"float16", "bfloat16"})
CASTS_TO_HALF = frozenset({"half", "bfloat16"})


@dataclass(frozen=True)
class Stale:
    """Weights that change within a region, and are used in it again.

    Args:
        loop: which repeats both.
        update: where the weights change.
        forward: where they are used.
        backwards: the backward passes that run in the very region, and not in one inside it.
        nested: whether the weights are used in another region inside.
    """

    loop: Why
    update: Why
    forward: Why
    backwards: tuple[Why, ...]
    nested: bool


@dataclass(frozen=True)
class Around:
    """The autocast state that holds where something runs: that of the innermost context.

    `nested`: it is not the context that the search began at.
    """

    context: Autocast
    nested: bool = False

    @property
    def casts(self) -> bool:
        return self.context.enabled is not False and self.context.cache is not False


class Staleness:
    """The search of one region and of what is called in it."""

    def __init__(self, heat: HeatMap) -> None:
        self.heat = heat
        self.inference = heat.inference

    def of_context(self, function: str, context: int, location: Location) -> Stale | None:
        """For the region that a `with`, or a decorator, opens in a function.

        Args:
            function: the function in which the context is written.
            context: the node of the context; one context may serve several times.
            location: where it is written.
        """
        state = self.inference.states[function]
        opened = autocast_in(state.values[context])
        if opened is None or opened.cache is False:
            return None
        around = Around(opened)
        for number, block in enumerate(state.graph.blocks):
            if (block.kind, block.node, block.location) == ("with", context, location):
                inner = any(autocast_of(state, b) for b in chain(state.graph, block.parent))
                return None if inner else self._search(function, state, number, around)
        for node in state.graph.nodes:
            if node.op == "def" and context in node.operands:
                decorated = self.inference.states.get(str(node.data))
                if decorated is not None:
                    return self._search(str(node.data), decorated, -1, around)
        return None

    def _search(self, function: str, state: State, outer: int, around: Around) -> Stale | None:
        found = self._loop_in(function, state, outer, around, frozenset())
        if found is None:
            return None
        backwards = tuple(
            Why(self._place(function, node), "the backward pass runs in the region as well")
            for number, node in self._calls(state, outer)
            if self.heat.backward_calls.chain(function, number) is not None
            and not self._within(state, node.block, outer, around).nested
        )
        return replace(found, backwards=backwards)

    # -- loops

    def _loop_in(
        self, function: str, state: State, outer: int, around: Around, above: frozenset[str]
    ) -> Stale | None:
        """The first loop that updates weights and uses them, in a block or in what it calls."""
        for number, block in enumerate(state.graph.blocks):
            if number == outer or not self.heat.is_training_loop(function, number):
                continue
            if outer not in chain(state.graph, number):
                continue
            inside = self._within(state, number, outer, around)
            update = self._update_in(function, state, number, frozenset())
            used = self._forward_in(function, state, number, inside, frozenset())
            if update is not None and used is not None:
                forward, nested = used
                row, column, _, _ = block.location
                place = Place(self._path(function), row, column, row, column + 3)
                loop = Why(place, "this loop runs within one autocast region")
                return Stale(loop, update, forward, (), nested)
        above |= {function}
        for number, node in self._calls(state, outer):
            if len(above) > MAX_CALLS:
                break
            inside = self._within(state, node.block, outer, around)
            for callee in self._callees(function, number):
                callee_state = self.inference.states[callee]
                if callee not in above:
                    entered = self._entered(callee, inside)
                    found = self._loop_in(callee, callee_state, -1, entered, above)
                    if found is not None:
                        return found
        return None

    # -- what a loop does

    def _update_in(
        self, function: str, state: State, outer: int, above: frozenset[str]
    ) -> Why | None:
        """The first call in a block that changes weights, or that runs what does."""
        above |= {function}
        for number, node in self._calls(state, outer):
            if self._is_update(function, state, number, outer):
                return Why(self._place(function, node), "changes the weights here")
            callees = self._callees(function, number)
            if not callees or len(above) > MAX_CALLS:
                continue
            found = [
                self._update_in(callee, self.inference.states[callee], -1, above)
                for callee in callees
                if callee not in above
            ]
            if found and all(found):
                return found[0]
        return None

    def _is_update(self, function: str, state: State, number: int, loop: int) -> bool:
        """Whether a call changes weights, and in every iteration those of the same layers."""
        if not self.heat.backward_calls.is_step(function, number):
            return False
        graph = state.graph
        callee = graph.nodes[graph.nodes[number].operands[0]]
        if callee.op != "attr":
            return True
        optimizer = callee.operands[0]
        return not optimises_tensors(state, optimizer) and not is_drawn(graph, optimizer, loop)

    def _forward_in(
        self, function: str, state: State, outer: int, around: Around, above: frozenset[str]
    ) -> tuple[Why, bool] | None:
        """The call in a block that is most surely a module's, where autocast casts and caches."""
        above |= {function}
        guess: tuple[Why, bool] | None = None
        for number, node in self._calls(state, outer):
            inside = self._within(state, node.block, outer, around)
            known = is_forward(self.inference, state, number)
            if known is not None and inside.casts:
                why = Why(self._place(function, node), "uses the weights as they were at first")
                if known:
                    return why, inside.nested
                guess = guess or (why, inside.nested)
            for callee in self._callees(function, number):
                if callee not in above and len(above) <= MAX_CALLS:
                    entered = self._entered(callee, inside)
                    callee_state = self.inference.states[callee]
                    found = self._forward_in(callee, callee_state, -1, entered, above)
                    guess = guess or found
        return guess

    # -- small things

    def _calls(self, state: State, outer: int) -> Iterator[tuple[int, Node]]:
        """The calls in a block, or in the whole function for -1."""
        for number, node in enumerate(state.graph.nodes):
            if node.op == "call" and (outer < 0 or outer in chain(state.graph, node.block)):
                yield number, node

    def _callees(self, function: str, number: int) -> list[str]:
        """The functions of the project that a call runs, without those that are only declared."""
        edges = self.inference.edges.get((function, number), ())
        return [
            callee
            for callee in sorted(edges)
            if callee in self.inference.states and not self.heat.backward_calls.is_abstract(callee)
        ]

    def _within(self, state: State, block: int, outer: int, around: Around) -> Around:
        """What holds in a block, where `around` holds in the block `outer` that it lies in."""
        for current in chain(state.graph, block):
            if current == outer:
                break
            opened = autocast_of(state, current)
            if opened is not None:
                return Around(opened, nested=True)
        return around

    def _entered(self, function: str, around: Around) -> Around:
        """What holds in a function that is called where `around` holds."""
        if self.inference.functions[function].decorated:
            for atom in self.inference.decorators(function):
                if isinstance(atom, Autocast):
                    return Around(atom, nested=True)
        return around

    def _place(self, function: str, node: Node) -> Place:
        return Place(self._path(function), *node.location)

    def _path(self, function: str) -> str:
        return self.inference.functions[function].path


def chain(graph: Graph, block: int) -> Iterator[int]:
    """The block and those around it, innermost first."""
    while block >= 0:
        yield block
        block = graph.blocks[block].parent
    yield -1


def autocast_in(value: Value) -> Autocast | None:
    return next((atom for atom in value if isinstance(atom, Autocast)), None)


def autocast_of(state: State, block: int) -> Autocast | None:
    """The autocast context that a block is the body of."""
    facts = state.graph.blocks[block] if block >= 0 else None
    if facts is None or facts.kind != "with" or facts.node < 0:
        return None
    return autocast_in(state.values[facts.node])


def optimises_tensors(state: State, optimizer: int) -> bool:
    """Whether an optimizer was given tensors one by one, which no layer holds: `Adam([latent])`"""
    made = state.graph.nodes[optimizer]
    while made.op == "narrow":
        made = state.graph.nodes[made.operands[0]]
    if made.op != "call" or len(made.operands) < 2:
        return False
    given = state.graph.nodes[made.operands[1]]
    return given.op == "list" and all(
        any(isinstance(atom, Tensor) for atom in state.values[element])
        for element in given.operands
    )


def is_drawn(graph: Graph, number: int, loop: int) -> bool:
    """Whether each iteration of a loop has another one: `for model, optimizer in zip(...)`"""
    node = graph.nodes[number]
    while node.op in ("narrow", "unpack", "subscript"):
        node = graph.nodes[node.operands[0]]
    return node.op == "iter" and node.block == loop


def is_forward(inference: Inference, state: State, number: int) -> bool | None:
    """Whether a call runs a module: surely, perhaps (False), or not (None)."""
    callee = state.graph.nodes[number].operands[0]
    value = state.values[callee]
    modules = [
        atom
        for atom in value
        if (isinstance(atom, Object) and atom.kind == "module")
        or (isinstance(atom, Instance) and inference.is_module(atom.cls))
        or (isinstance(atom, Method) and atom.name == "forward")
    ]
    if modules:
        half = any(isinstance(a, Object) and a.dtype in HALVES for a in modules)
        return None if half or is_cast_to_half(state.graph, callee) else True
    if value and Unknown() not in value:
        return None
    given = state.graph.nodes[number].operands[1:]
    tensors = any(isinstance(a, Tensor | Blob) for n in (number, *given) for a in state.values[n])
    used = any(number in node.operands for node in state.graph.nodes)
    return False if tensors and used else None


def is_cast_to_half(graph: Graph, module: int) -> bool:
    """Ex) model.half() somewhere in the function"""
    path = path_of(graph, module)
    return path is not None and any(
        node.op == "attr"
        and node.data in CASTS_TO_HALF
        and path_of(graph, node.operands[0]) == path
        for node in graph.nodes
    )
