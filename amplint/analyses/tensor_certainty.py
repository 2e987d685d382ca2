"""Whether what is inferred to be a tensor surely is one.

A parameter of `forward` that is subscripted or multiplied is taken for a tensor (see
`inference/whole_program/use_evidence.py`): right for what is asked of tensors, since a list of ints
would not be asked it. Where a *number* is needed, ints are as likely. A tensor is sure there by an
annotation, by an attribute or a method that only tensors have, by a function of torch, or since
callers that are seen pass one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from amplint.facts.call_guards import CallGuards
from amplint.facts.callers import Callers
from amplint.facts.fact import Fact, NodeFact, Required
from amplint.facts.inference_results import Reasons
from amplint.facts.unknown_in_calls import is_declared, may_hold
from amplint.inference import Inference, State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import ELEMENTS, NAMED, OPERATORS, alternatives, method_called
from amplint.ir.model import Graph, Location, Node
from amplint.util.walks import Solver, reachable
from amplint.values.atoms import Evidence, Mapping, Sequence, Symbol, Tensor, TensorTree, Value
from amplint.values.lattice import inner

# What these give is an element of a nest of tensors, or holds some of them.
OF_MAPPINGS = frozenset({"get", "items", "pop", "popitem", "setdefault", "values"})


class Grounds(NamedTuple):
    """Evidence for and against a value being a tensor.

    sure: something that it is made of is a tensor for certain.
    guessed: something that decides what it is may be a guess.
    nested: it is out of a nest of tensors, such as a batch, which may hold numbers besides.
    """

    sure: bool = False
    guessed: bool = False
    nested: bool = False


At = tuple[str, int]  # a function, and a node of it
Ask = Callable[[At], Grounds]
SURE, GUESS = Grounds(sure=True), Grounds(guessed=True)


class TensorCertainty(NodeFact[bool]):
    """Whether the tensor that an expression is, or the tensors in the container, are no guess.

    A parameter of `forward` that is only subscripted or counted with may be a list or an int.

    A loop's variable does not speak for itself: in a cycle both grounds begin with False.
    """

    _reasons = Required(Reasons)
    _callers = Required(Callers)
    _guards = Required(CallGuards)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._grounds = Solver(self._find, Grounds())
        self._parameters: dict[str, dict[Location, list[At]]] = {}
        self._used: dict[str, Collection[int]] = {}

    def of(self, at: NodePlace) -> bool:
        return self.grounds(at) == SURE

    def grounds(self, at: NodePlace) -> Grounds:
        value = self.inference.states[at.function].values[at.node]
        return self._grounds(at[:2]) if holds_tensor(value) else GUESS

    def _find(self, at: At, ask: Ask) -> Grounds:
        state = self.inference.states.get(at[0])
        grounds = self._find_by_node(at, ask)
        is_nested = state is not None and is_nest(state.values[at[1]])
        return grounds._replace(nested=True) if is_nested else grounds

    def _find_by_node(self, at: At, ask: Ask) -> Grounds:
        function, number = at
        state = self.inference.states.get(function)
        if state is None or not may_hold(state.values[number]):
            return GUESS
        node = state.graph.nodes[number]
        if node.op in NAMED or number in self.inference.uses.marks_of(function).nodes:
            return SURE  # known from elsewhere, or a part of a loss that is backpropagated
        if indexes_dimensions(state.graph, node):
            return SURE
        if node.op == ops.PARAM:
            return self._of_parameter(function, state, number, ask)
        if node.op == ops.CALL:
            return self._of_call(function, state, number, ask)
        return self._of_operands(function, state, node, node.operands, ask)

    def _of_operands(
        self, function: str, state: State, node: Node, operands: tuple[int, ...], ask: Ask
    ) -> Grounds:
        if node.op in ELEMENTS or node.op in (ops.NARROW, ops.STARRED, ops.AWAIT):
            operands = operands[:1]
        holding = [n for n in operands if n >= 0 and may_hold(state.values[n])]
        if not holding:
            return SURE  # a batch of a loader, say
        grounds = [ask((function, n)) for n in holding]
        if node.op == ops.PHI and SURE in grounds:
            return SURE  # on one of the paths that meet here
        if node.op in OPERATORS:  # one tensor among the operands makes the result one
            return Grounds(
                any(g.sure for g in grounds),
                all(g.guessed for g in grounds),
                all(g.nested for g in grounds),
            )
        return together(grounds)

    def _of_call(self, function: str, state: State, number: int, ask: Ask) -> Grounds:
        states, node = self.inference.states, state.graph.nodes[number]
        callees = self.inference.calls.edges.get((function, number), set())
        returned = [
            (callee, n)
            for callee in sorted(callees & states.keys())
            for n in states[callee].graph.returns
            if may_hold(states[callee].values[n])
        ]
        if returned:
            return together([ask(at) for at in returned])
        method, receiver = method_called(state.graph, node)
        if method in OF_MAPPINGS:
            return ask((function, receiver)) if is_nest(state.values[receiver]) else SURE
        of_python = any(
            isinstance(atom, Symbol) and atom.name.startswith("builtins.")
            for atom in state.values[node.operands[0]]
        )
        # `max(a, b)`, `zip(heights, widths)` give what they are given.
        arguments = node.arguments
        return self._of_operands(function, state, node, arguments, ask) if of_python else SURE

    def _of_parameter(self, function: str, state: State, number: int, ask: Ask) -> Grounds:
        """By an annotation, by a use that only tensors have, or by what callers pass."""
        if is_declared(self.inference, function, number) or number in self._used_as_tensors(
            function, state
        ):
            return SURE
        reasons = self._reasons.explanations.of_devices(function, number)
        if not reasons and is_nest(state.values[number]):
            return GUESS  # a nest that nobody but a cycle of calls hands on
        guesses = [at for evidence in reasons for at in self._guessed(evidence)]
        own = (function, number)
        grounds = together([GUESS if own == at else ask(at) for at in guesses] or [SURE])
        if grounds == SURE or own in guesses:
            return grounds
        # The guess is where a device comes from: what calls give may have been made of it.
        arguments = self._arguments(function, state.graph.nodes[number].data)
        return together(map(ask, arguments)) if arguments else grounds

    def _arguments(self, function: str, name: str) -> list[At]:
        """The arguments that calls of a function give for a parameter; none where that of one of
        them is not known."""
        arguments: list[At] = []
        for site in self._callers.sites.get(function, ()):
            number = self._guards.argument(site, function, name)
            if number is None:
                return []
            if number >= 0 and may_hold(self.inference.states[site[0]].values[number]):
                arguments.append((site[0], number))
        return arguments

    def _used_as_tensors(self, function: str, state: State) -> Collection[int]:
        """The nodes of which an attribute is read that only tensors have, or that a function of
        torch is given first, be it in a part of the code where a test has narrowed them."""
        if function not in self._used:
            used = self.inference.uses.marks_of(function).surely_tensors
            self._used[function] = {sole_origin(state.graph, each) for each in used}
        return self._used[function]

    def _guessed(self, evidence: Evidence) -> Iterator[At]:
        """The parameter whose device is a guess, and this the reason: that of `forward`."""
        for function, number in self._of_forwards(evidence.place.path).get(evidence.place[1:], ()):
            if evidence in self._reasons.explanations.of_devices(function, number):
                yield function, number

    def _of_forwards(self, path: str) -> dict[Location, list[At]]:
        """The parameters of the `forward` methods of a file, by their places."""
        if path not in self._parameters:
            parameters = self._parameters[path] = {}
            for function, facts in self.inference.files[path].facts.functions.items():
                state = self.inference.states.get(function)
                if facts.name != "forward" or state is None:
                    continue
                for number, node in enumerate(state.graph.nodes):
                    if node.op == ops.PARAM:
                        parameters.setdefault(node.location, []).append((function, number))
        return self._parameters[path]


class NotGuessed(NodeFact[bool]):
    """Whether an expression is a tensor by more than a guess, or out of a nest of tensors: where
    that was moved to the device, so was what it holds."""

    _certainty = Required(TensorCertainty)

    def of(self, at: NodePlace) -> bool:
        grounds = self._certainty.grounds(at)
        return grounds.sure and not grounds.guessed


def sole_origin(graph: Graph, number: int) -> int:
    """The node that a value comes from, whatever was written into it, and whatever a test has left
    of it; itself where that is not one alone."""
    sources = [
        each
        for each in reachable([number], lambda at: carried(graph, at))
        if not carried(graph, each)
    ]
    return sources[0] if len(sources) == 1 else number


def carried(graph: Graph, number: int) -> tuple[int, ...]:
    """The operands that a node hands on: the same tensor, after a write, a test or a loop."""
    node = graph.nodes[number]
    return node.operands[:1] if node.op == ops.PUT else alternatives(graph, number)


def together(parts: Iterable[Grounds]) -> Grounds:
    """The grounds of a value that all of these decide."""
    parts = list(parts)
    return Grounds(
        any(g.sure for g in parts), any(g.guessed for g in parts), any(g.nested for g in parts)
    )


def tensors_held(value: Value, depth: int = 4) -> Iterator[Tensor]:
    """The tensors that the value may be or hold; a nest may hold anything."""
    for atom in value:
        if isinstance(atom, Tensor):
            yield atom
        elif isinstance(atom, Sequence | Mapping) and depth:
            for each in inner(atom):
                yield from tensors_held(each, depth - 1)


def holds_tensor(value: Value) -> bool:
    return next(tensors_held(value), None) is not None


def is_nest(value: Value) -> bool:
    """Whether a value is a nest of tensors, and no tensor by itself."""
    nests = any(isinstance(atom, TensorTree) and not atom.has_rows for atom in value)
    return nests and not holds_tensor(value)


def indexes_dimensions(graph: Graph, node: Node) -> bool:
    """Ex) x[i, j]: what has several dimensions is no list, and no number"""
    index = graph.nodes[node.second] if node.op == ops.SUBSCRIPT else node
    return node.op == ops.SUBSCRIPT and index.op == ops.TUPLE and len(index.operands) > 1
