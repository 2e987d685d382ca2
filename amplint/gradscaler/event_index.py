"""The events of all functions of a project, and which functions lead to one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple

from amplint.gradscaler.events import (
    Role,
    TrainingEvent,
    TrainingEventKind,
    acts_as_scaler,
    divides_by_zero,
    event,
    is_adam,
    is_scaler_step,
    role,
)
from amplint.gradscaler.gradient_statistics import GradientStatistics
from amplint.inference import Inference, SiteId, State
from amplint.ir import ops
from amplint.ir.model import Node
from amplint.knowledge.vocabulary import UNSCALES
from amplint.util.walks import reachable
from amplint.values.atoms import Object

WORD = re.compile(r"\w+")
MOST_PARTS = 300  # of a value that a function returns


class TrainingPart(Enum):
    """The parts that a function may have in training."""

    TRAINS = "makes any event"
    SCALES = "calls a scaler, or a framework that has one"
    BACKWARD = "runs a backward pass"
    STEPS = "makes the step of a scaler"
    HALVES = "casts parameters to float16"
    ROUNDS = "casts parameters to bfloat16"
    DIVIDES = "makes an optimizer as in `divides_by_zero`"
    ADAM = "makes one as in `is_adam`"


# The parts that some events are, whatever they are called on.
PARTS = {
    TrainingEventKind.BACKWARD: TrainingPart.BACKWARD,
    TrainingEventKind.SCALED_BACKWARD: TrainingPart.BACKWARD,
    TrainingEventKind.ELSEWHERE: TrainingPart.BACKWARD,
    TrainingEventKind.HALF: TrainingPart.HALVES,
    TrainingEventKind.BFLOAT16: TrainingPart.ROUNDS,
}


class FunctionEvents(NamedTuple):
    """The calls of one function that are events, by node, and the parts that it has by them."""

    events: Mapping[int, TrainingEvent]
    parts: frozenset[TrainingPart]


class EventIndex:
    """The calls of a project that are events, and the functions that lead to one by calls.

    Args:
        sites: by function, the calls that may run it.
        events: of functions, what an earlier index has found, if it is still so.

    Attributes:
        functions: by function, what is found of it.
        of: by function and node, the events.
        leading: by part, the functions that have it, themselves or by calls.
    """

    def __init__(
        self,
        inference: Inference,
        sites: Mapping[str, Sequence[SiteId]],
        events: Mapping[str, FunctionEvents] | None = None,
    ) -> None:
        self.inference = inference
        self._sites = sites
        events = events or {}
        self.functions = {
            function: events.get(function) or self._function_events(function, state)
            for function, state in inference.states.items()
        }
        self.of = {function: each.events for function, each in self.functions.items()}
        self._roles: dict[SiteId, tuple[Role, bool]] = {}
        self._stored: dict[str, frozenset[str]] = {}
        self._stored_in: dict[tuple[str, int], frozenset[str]] = {}
        self._telling: dict[str, bool] = {}
        self.leading = {part: self._leading_to(part) for part in TrainingPart}

    def callers(self, function: str) -> Iterator[str]:
        """The functions that call a function."""
        return (caller for caller, _ in self.sites(function))

    def sites(self, function: str) -> Sequence[SiteId]:
        """The calls that may run a function."""
        return self._sites.get(function, ())

    def _leading_to(self, part: TrainingPart) -> frozenset[str]:
        """The functions that have a part, and those that call them, directly or by others."""
        having = (each for each, events in self.functions.items() if part in events.parts)
        return frozenset(reachable(having, self.callers))

    def role(self, site: SiteId) -> tuple[Role, bool]:
        """The role of the object that a node is, and whether it may be a scaler that is off, or
        None."""
        if site not in self._roles:
            function, number = site
            value = self.inference.states[function].values[number]
            enabled = all(isinstance(atom, Object) and atom.enabled is True for atom in value)
            self._roles[site] = role(value, self.inference), not enabled
        return self._roles[site]

    def callees(self, site: SiteId) -> set[str]:
        """The functions that a call runs, if any of them leads to an event."""
        callees = self.inference.calls.edges.get(site, set())
        return callees if callees & self.leading[TrainingPart.TRAINS] else set()

    def is_of_remainder(self, site: SiteId) -> bool:
        """Whether a call asks functions which all compute whether a number is a multiple of
        another: `self.should_step(i)`."""
        callees = self.inference.calls.edges.get(site, set())
        return bool(callees) and all(map(self._tells_remainder, callees))

    def _tells_remainder(self, function: str) -> bool:
        """Whether a function returns what depends on a remainder, by its own test or that of what
        it calls for it."""
        if function not in self._telling:
            parts = islice(reachable(self._told_by(function), self._parts), MOST_PARTS)
            self._telling[function] = any(
                is_remainder(self.inference.states[each].graph.nodes[number])
                for each, number in parts
            )
        return self._telling[function]

    def _told_by(self, function: str) -> Iterator[SiteId]:
        """The values that a function returns, and the tests under which it does."""
        state = self.inference.states.get(function)
        for number in state.graph.returns if state is not None else ():
            yield function, number
            block = state.graph.nodes[number].block if state is not None else -1
            while state is not None and block >= 0:
                if state.graph.blocks[block].kind in ("if", "else"):
                    yield function, state.graph.blocks[block].node
                block = state.graph.blocks[block].parent

    def _parts(self, site: SiteId) -> Iterator[SiteId]:
        """The parts that a value is made of; of a call, what the function returns."""
        function, number = site
        node = self.inference.states[function].graph.nodes[number]
        if node.op == ops.CALL:
            for callee in sorted(self.inference.calls.edges.get(site, ())):
                yield from self._told_by(callee)
        else:
            yield from ((function, each) for each in node.operands if each >= 0)

    def words_between(self, function: str, numbers: Collection[int]) -> frozenset[str]:
        """The words of a function from the first to the last of some nodes, without comments."""
        rows = [self.inference.states[function].graph.nodes[n].location[0] for n in numbers]
        path = self.inference.functions[function].path
        text = "\n".join(self.inference.files[path].code[min(rows) - 1 : max(rows)])
        return frozenset(WORD.findall(text))

    def stored_in(self, function: str, loop: int) -> frozenset[str]:
        """The fields that a loop stores, itself or in what it calls."""
        at = function, loop
        if at not in self._stored_in:
            graph = self.inference.states[function].graph
            edges, within = self.inference.calls.edges, graph.nodes_in(loop)
            own = {graph.nodes[n].data for n in within if graph.nodes[n].op == ops.STORE}
            callees = {callee for n in within for callee in edges.get((function, n), ())}
            self._stored_in[at] = frozenset(own).union(*map(self._stored_by, callees))
        return self._stored_in[at]

    def _stored_by(self, function: str) -> frozenset[str]:
        """The fields that a function stores itself."""
        if function not in self._stored:
            state = self.inference.states.get(function)
            nodes = state.graph.nodes if state is not None else ()
            self._stored[function] = frozenset(n.data for n in nodes if n.op == ops.STORE)
        return self._stored[function]

    def _function_events(self, function: str, state: State) -> FunctionEvents:
        events = dict(self._events(function, state))
        parts = {PARTS[each.kind] for each in events.values() if each.kind in PARTS}
        for number, each in events.items():
            parts.add(TrainingPart.TRAINS)
            if each.kind is TrainingEventKind.SCALED_BACKWARD or acts_as_scaler(
                self.inference, state, number, each
            ):
                parts.add(TrainingPart.SCALES)
            if is_scaler_step(self.inference, state, each):
                parts.add(TrainingPart.STEPS)
        for number in calls(state):
            if divides_by_zero(state, number):
                parts.add(TrainingPart.DIVIDES)
            if is_adam(state.values[number]):
                parts.add(TrainingPart.ADAM)
        return FunctionEvents(events, frozenset(parts))

    def _events(self, function: str, state: State) -> Iterable[tuple[int, TrainingEvent]]:
        statistics = GradientStatistics(self.inference, function)
        for number in calls(state):
            each = event(self.inference, state, number)
            if each is None and number in statistics.numbers:
                is_scaled = statistics.depends_on_scale(number)
                each = TrainingEvent(TrainingEventKind.READ, -1) if is_scaled else None
            if each is None:
                continue
            callees = self.inference.calls.edges.get((function, number), set())
            plain = each.kind is TrainingEventKind.STEP and all(map(self._is_plain_step, callees))
            if callees and not plain:
                continue
            if each.kind in (
                TrainingEventKind.READ,
                TrainingEventKind.CLIP,
            ) and self._is_of_optimizer(function):
                continue  # the mistake is the step that the optimizer makes with scaled gradients
            yield number, each

    def _is_plain_step(self, function: str) -> bool:
        """Whether a function is the step of an optimizer of the project, which has no scaler, and
        does not look for infinities itself, as far as its own words say; it calls no other."""
        facts = self.inference.functions[function]
        state = self.inference.states.get(function)
        edges = self.inference.calls.edges
        return (
            facts.name == "step"
            and self._is_of_optimizer(function)
            and not any(map(UNSCALES.search, facts.words))
            and state is not None
            and not any(edges.get((function, number)) for number in calls(state))
        )

    def _is_of_optimizer(self, function: str) -> bool:
        cls = self.inference.functions[function].cls
        return cls is not None and self.inference.hierarchy.is_optimizer(cls)


def is_remainder(node: Node) -> bool:
    return node.op == ops.BINOP and node.data == "Mod"


def calls(state: State) -> Iterable[int]:
    """The nodes of a function that are calls."""
    return (number for number, node in enumerate(state.graph.nodes) if node.op == ops.CALL)
