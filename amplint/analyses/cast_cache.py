"""Which weights change while an autocast region keeps the casts it has made of them.

The cast of a float32 weight is made once for the outermost autocast context, whatever its device
type and whether it is enabled, and is dropped only when that context is left. A weight that
changes within it is used as it was. (ATen/autocast_mode.cpp; run on the CPU with torch 2.13, 1.12
and 1.11.)
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from amplint.analyses.backward_calls import BackwardCalls
from amplint.analyses.callers import Callers
from amplint.analyses.fact import Fact, Required
from amplint.analyses.hotness import Hotness
from amplint.inference import Inference, State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Graph, Location, path_of
from amplint.util.positions import Place
from amplint.util.walks import derivable, nearest, reachable
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
)

HALVES = frozenset({"float16", "bfloat16"})
CASTS_TO_HALF = frozenset({"half", "bfloat16"})
DRAWING = frozenset({ops.NARROW, ops.UNPACK, ops.SUBSCRIPT})


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

    loop: Evidence
    update: Evidence
    forward: Evidence
    backwards: tuple[Evidence, ...]
    nested: bool


class AutocastState(NamedTuple):
    """The autocast state that holds where something runs: that of the innermost context.

    casts: whether weights are cast there, and the casts kept.
    nested: whether it is not that of the context that the search began at.
    """

    casts: bool
    nested: bool


AROUND = [AutocastState(casts, nested) for casts in (False, True) for nested in (False, True)]
Entered = tuple[str, AutocastState]  # a function, and what holds where it is called


class WeightUse(NamedTuple):
    """A call that uses weights: where, and in which autocast state."""

    evidence: Evidence
    around: AutocastState


class CastCache(Fact):
    """The regions of a project and what is called in them, searched once for all.

    Each question (what updates weights, what uses them, which loop does both) is asked of functions
    under an autocast state (`AutocastState`), of which there are four, and answered for all of them
    by one walk from the answers back along the calls.
    """

    _callers = Required(Callers)
    _backward_calls = Required(BackwardCalls)
    _hotness = Required(Hotness)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._opened: dict[str, list[tuple[int, AutocastState | None]]] = {}
        self._bodies: dict[str, dict[tuple[int, Location], int]] = {}
        self._half: dict[str, frozenset[str]] = {}
        self._found: dict[tuple[str, int, AutocastState], Stale | None] = {}
        self._own_uses: dict[Entered, WeightUse | None] = {}

    def of_context(self, at: NodePlace, place: Place) -> Stale | None:
        """For the region that a `with`, or a decorator, opens.

        Args:
            at: the node of the context; one context may serve several times.
            place: where it is written.
        """
        function, context, location = at.function, at.node, place[1:]
        state = self.inference.states[function]
        opened = autocast_in(state.values[context])
        if opened is None or opened.cache is False:
            return None
        around = AutocastState(opened.enabled is not False, nested=False)
        block = self._regions(function).get((context, location))
        if block is not None:
            inner = self._innermost(function)[state.graph.blocks[block].parent][1] is not None
            return None if inner else self._search(function, block, around)
        for user in state.users[context]:
            decorated = str(state.graph.nodes[user].data)
            if state.graph.nodes[user].op == ops.DEF and decorated in self.inference.states:
                return self._search(decorated, -1, around)
        return None

    def _search(self, function: str, outer: int, around: AutocastState) -> Stale | None:
        """The nearest loop in a region: in its own function, or by the fewest calls."""
        found = self._own_loop(function, outer, around)
        if found is None:
            entered = self._nearest(self._distances, self._called_in(function, outer, around))
            found = self._own_loop(entered[0], -1, entered[1]) if entered is not None else None
        if found is None:
            return None
        state = self.inference.states[function]
        backwards = tuple(
            self.why(
                function,
                number,
                "the backward pass runs in the region as well",
                Shows.BACKWARD,
            )
            for number in self._calls(state, outer)
            if self._backward_calls.chain(function, number) is not None
            and not self._within(function, state.graph.nodes[number].block, outer, around).nested
        )
        return replace(found, backwards=backwards)

    # -- loops

    @cached_property
    def _loops(self) -> Mapping[str, Mapping[int, Evidence]]:
        """By function: its loops over the batches of training that update weights, in their order,
        and where they do."""
        found: dict[str, dict[int, Evidence]] = {}
        for function in sorted(self.inference.states):
            for number in self._hotness.training_loops(function):
                update = self._update(function, number)
                if update is not None:
                    found.setdefault(function, {})[number] = update
        return found

    def _own_loop(self, function: str, outer: int, around: AutocastState) -> Stale | None:
        """The first loop in a block that updates weights and uses them."""
        key = (function, outer, around)
        if key not in self._found:
            loops = self._loops.get(function, {})
            numbers = list(loops)
            inside = itertools.takewhile(
                lambda number: self.inference.states[function].graph.is_in(number, outer),
                itertools.islice(numbers, bisect_right(numbers, outer), None),
            )
            found = (self._stale(function, n, loops[n], outer, around) for n in inside)
            self._found[key] = next((each for each in found if each is not None), None)
        return self._found[key]

    def _stale(
        self, function: str, loop: int, update: Evidence, outer: int, around: AutocastState
    ) -> Stale | None:
        used = self._use(function, loop, self._within(function, loop, outer, around))
        if used is None:
            return None
        row, column, _, _ = self.inference.states[function].graph.blocks[loop].location
        place = Place(self._path(function), row, column, row, column + 3)
        evidence = Evidence(place, "this loop runs within one autocast region", Shows.LOOP)
        return Stale(evidence, update, used.evidence, (), used.around.nested)

    @cached_property
    def _distances(self) -> Mapping[Entered, tuple[int, Entered]]:
        """By function and autocast state: the nearest function that has such a loop."""
        callers = self._callers.sites
        leading = reachable(
            self._loops, lambda function: (caller for caller, _ in callers.get(function, ()))
        )
        known = [function for function in leading if function in self.inference.states]
        entered = [(function, around) for function in known for around in AROUND]
        goals = [
            (function, around)
            for function in self._loops
            for around in AROUND
            if self._own_loop(function, -1, around) is not None
        ]
        return nearest(goals, self._preceding(entered))

    # -- what changes weights

    def _update(self, function: str, outer: int) -> Evidence | None:
        """The first call in a block that changes weights, or that runs what does."""
        for number in self._calls(self.inference.states[function], outer):
            if self._is_update(function, number, outer):
                return self.why(function, number, "changes the weights here", Shows.WEIGHTS)
            callees = self._callees(function, number)
            if callees and all(callee in self._updates for callee in callees):
                return self._updates[callees[0]]
        return None

    @cached_property
    def _updates(self) -> Mapping[str, Evidence]:
        """The functions that change weights whenever they are called, and where the nearest of
        their calls does so."""
        direct: dict[str, int] = {}
        calls: list[tuple[str, list[str]]] = []
        for function in sorted(self._backward_calls.trains & self.inference.states.keys()):
            for number in self._calls(self.inference.states[function], -1):
                if self._is_update(function, number, -1):
                    direct.setdefault(function, number)
                elif callees := self._callees(function, number):
                    calls.append((function, callees))
        certain = derivable([*((function, ()) for function in direct), *calls])
        running: dict[str, list[str]] = {}
        for function, callees in calls:
            if all(callee in certain for callee in callees):
                running.setdefault(callees[0], []).append(function)
        places = nearest(direct, lambda function: running.get(function, ()))
        return {
            function: self.why(goal, direct[goal], "changes the weights here", Shows.WEIGHTS)
            for function, (_, goal) in places.items()
        }

    def _is_update(self, function: str, number: int, loop: int) -> bool:
        """Whether a call changes weights, and in every iteration those of the same layers."""
        if not self._backward_calls.is_step(function, number):
            return False
        state = self.inference.states[function]
        callee = state.graph.nodes[state.graph.nodes[number].operands[0]]
        if callee.op != ops.ATTR:
            return True
        optimizer = callee.operands[0]
        return not optimises_tensors(state, optimizer) and not is_drawn(
            state.graph, optimizer, loop
        )

    # -- what uses weights

    def _use(self, function: str, outer: int, around: AutocastState) -> WeightUse | None:
        """The call in a block that is most surely a module's, where autocast casts and caches: the
        nearest one in what is called, unless there is one in the block itself."""
        own = self._own_use(function, outer, around)
        if own is not None:
            return own
        entered = self._nearest(self._uses, self._called_in(function, outer, around))
        return self._entered_use(entered) if entered is not None else None

    def _own_use(self, function: str, outer: int, around: AutocastState) -> WeightUse | None:
        state = self.inference.states[function]
        guess: WeightUse | None = None
        for number in self._calls(state, outer):
            inside = self._within(function, state.graph.nodes[number].block, outer, around)
            known = self._is_forward(function, number) if inside.casts else None
            if known is not None and (known or guess is None):
                evidence = self.why(
                    function,
                    number,
                    "still uses the first casts of the weights",
                    Shows.WEIGHTS,
                )
                if known:
                    return WeightUse(evidence, inside)
                guess = WeightUse(evidence, inside)
        return guess

    def _entered_use(self, entered: Entered) -> WeightUse | None:
        if entered not in self._own_uses:
            self._own_uses[entered] = self._own_use(entered[0], -1, entered[1])
        return self._own_uses[entered]

    @cached_property
    def _uses(self) -> Mapping[Entered, tuple[int, Entered]]:
        """By function and autocast state, of what loops run: the nearest one that uses weights."""
        starts = [
            entered
            for function, loops in self._loops.items()
            for number in loops
            for around in AROUND
            for entered in self._called_in(function, number, around)
        ]
        run = list(reachable(starts, self._called_by))
        goals = [entered for entered in run if self._entered_use(entered) is not None]
        return nearest(goals, self._preceding(run))

    def _is_forward(self, function: str, number: int) -> bool | None:
        """Whether a call runs a module: surely, perhaps (False), or not (None)."""
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
            half = any(isinstance(a, Object) and a.dtype in HALVES for a in modules)
            return None if half or path_of(state.graph, callee) in self._halved(function) else True
        if value and Unknown() not in value:
            return None
        given = state.graph.nodes[number].arguments
        tensors = any(
            isinstance(a, Tensor | TensorTree) for n in (number, *given) for a in state.values[n]
        )
        return False if tensors and state.users[number] else None

    def _halved(self, function: str) -> frozenset[str]:
        """The dotted names whose values a function casts to half: model.half()"""
        if function not in self._half:
            graph = self.inference.states[function].graph
            paths = (
                path_of(graph, node.operands[0])
                for node in graph.nodes
                if node.op == ops.ATTR and node.data in CASTS_TO_HALF
            )
            self._half[function] = frozenset(path for path in paths if path is not None)
        return self._half[function]

    # -- calls, under an autocast state

    def _called_in(self, function: str, outer: int, around: AutocastState) -> Iterator[Entered]:
        """The functions that calls in a block run, in order, where `around` holds in the block."""
        state = self.inference.states[function]
        for number in self._calls(state, outer):
            inside = self._within(function, state.graph.nodes[number].block, outer, around)
            for callee in self._callees(function, number):
                yield callee, self._entered(callee, inside)

    def _called_by(self, entered: Entered) -> Iterator[Entered]:
        return self._called_in(entered[0], -1, entered[1])

    def _preceding(self, entered: Iterable[Entered]) -> Callable[[Entered], Iterable[Entered]]:
        """A function that returns those of some functions, under their autocast states, that call
        one."""
        callers: dict[Entered, list[Entered]] = {}
        for caller in entered:
            for callee in self._called_by(caller):
                callers.setdefault(callee, []).append(caller)
        return lambda callee: callers.get(callee, ())

    def _nearest(
        self, distances: Mapping[Entered, tuple[int, Entered]], called: Iterable[Entered]
    ) -> Entered | None:
        """The nearest goal of what is called, the first of several."""
        known = [distances[entered] for entered in called if entered in distances]
        return min(known, key=lambda each: each[0])[1] if known else None

    def _calls(self, state: State, outer: int) -> Iterator[int]:
        """The calls in a block, or in the whole function for -1."""
        nodes = state.graph.nodes
        return (number for number in state.graph.nodes_in(outer) if nodes[number].op == ops.CALL)

    def _callees(self, function: str, number: int) -> list[str]:
        """The functions of the project that a call runs, without those that are only declared."""
        edges = self.inference.calls.edges.get((function, number), ())
        return [
            callee
            for callee in sorted(edges)
            if callee in self.inference.states and not self._backward_calls.is_abstract(callee)
        ]

    def _within(
        self, function: str, block: int, outer: int, around: AutocastState
    ) -> AutocastState:
        """The autocast state in a block, where `around` holds in the block `outer` around it."""
        opener, opened = self._innermost(function)[block]
        graph = self.inference.states[function].graph
        if opened is None or opener == outer or not graph.is_in(opener, outer):
            return around
        return opened

    def _innermost(self, function: str) -> Sequence[tuple[int, AutocastState | None]]:
        """By block: the innermost block around it that is the body of an autocast context, and what
        holds in it. The last entry is that of what is in no block."""
        known = self._opened.get(function)
        if known is None:
            state = self.inference.states[function]
            known = self._opened[function] = []
            for number, block in enumerate(state.graph.blocks):
                context = autocast_of(state, number)
                outer = known[block.parent] if block.parent >= 0 else (-1, None)
                known.append(outer if context is None else (number, nested(context)))
            known.append((-1, None))
        return known

    def _regions(self, function: str) -> Mapping[tuple[int, Location], int]:
        """The bodies of `with` statements, by the node and the place of the context."""
        if function not in self._bodies:
            found = self._bodies[function] = {}
            for number, block in enumerate(self.inference.states[function].graph.blocks):
                if block.kind == "with":
                    found.setdefault((block.node, block.location), number)
        return self._bodies[function]

    def _entered(self, function: str, around: AutocastState) -> AutocastState:
        """The autocast state in a function that is called where `around` holds."""
        if self.inference.functions[function].decorated:
            for atom in self.inference.decorators(function):
                if isinstance(atom, Autocast):
                    return nested(atom)
        return around

    def _path(self, function: str) -> str:
        return self.inference.functions[function].path


def nested(context: Autocast) -> AutocastState:
    """The autocast state in the body of a context inside the one that a search began at."""
    return AutocastState(context.enabled is not False and context.cache is not False, nested=True)


def autocast_in(value: Value) -> Autocast | None:
    return next((atom for atom in entered(value) if isinstance(atom, Autocast)), None)


def autocast_of(state: State, block: int) -> Autocast | None:
    """The autocast context that a block is the body of."""
    facts = state.graph.blocks[block] if block >= 0 else None
    if facts is None or facts.kind != "with" or facts.node < 0:
        return None
    return autocast_in(state.values[facts.node])


def optimises_tensors(state: State, optimizer: int) -> bool:
    """Whether an optimizer was given tensors one by one, which no layer holds: `Adam([latent])`"""
    made = state.graph.nodes[state.graph.narrowed(optimizer)]
    number = made.argument(0, "params") if made.op == ops.CALL else -1
    if number < 0:
        return False
    given = state.graph.nodes[number]
    return given.op == ops.LIST and all(
        any(isinstance(atom, Tensor) for atom in state.values[element])
        for element in given.operands
    )


def is_drawn(graph: Graph, number: int, loop: int) -> bool:
    """Whether each iteration of a loop has another one: `for model, optimizer in zip(...)`"""
    node = graph.nodes[graph.behind(number, DRAWING)]
    return node.op == ops.ITER and node.block == loop
