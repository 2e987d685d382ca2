"""Which arguments of its methods an object adds to what it holds, with their graphs: a meter, say.

def update(self, value, n=1):
    self.sum += value * n           # both arguments
    self.values.append(value)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from amplint.analyses.call_guards import CallGuards
from amplint.analyses.fact import CallFact, Fact, NodeFact, Required
from amplint.analyses.hotness import Hotness
from amplint.inference import Inference, State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Graph, Node
from amplint.util.walks import reachable
from amplint.values.atoms import Evidence, Function, Instance, Shows, Tensor, Value
from amplint.values.atoms import Sequence as SequenceValue

SUMS = frozenset({"Add", "Sub"})
ARITHMETIC = SUMS | {"Mult", "Div"}


class KeptArgument(NamedTuple):
    """An argument of a call that an object keeps.

    position: of the argument, in the order of the call.
    field: of the object, which holds what it is given.
    evidence: where it is added.
    """

    position: int
    field: str
    evidence: Evidence


class KeptArguments(CallFact[Sequence[KeptArgument]]):
    """The arguments of the call of a method that its object adds to a field as they come."""

    _guards = Required(CallGuards)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._known: dict[str, Mapping[str, tuple[str, Evidence]]] = {}

    def of(self, at: NodePlace) -> Sequence[KeptArgument]:
        state = self.inference.states[at.function]
        node = state.graph.nodes[at.node]
        method = self._method(state.values[node.operands[0]]) if node.op == ops.CALL else None
        if method is None:
            return ()
        found: list[KeptArgument] = []
        for name, (field, evidence) in self._kept_by(method).items():
            given = self._guards.given(at[:2], method, name)
            if given is not None and given in node.arguments:
                found.append(KeptArgument(node.arguments.index(given), field, evidence))
        return found

    def _method(self, callee: Value) -> str | None:
        """The method that is called, if all that may be called are methods of one object: its own,
        and not that of a class which is derived from its class."""
        own = set[str]()
        for atom in callee:
            if not isinstance(atom, Function) or not isinstance(atom.bound, Instance):
                return None
            if self.inference.functions[atom.id].cls not in self.inference.hierarchy.subclasses(
                atom.bound.cls
            ):
                own.add(atom.id)
        return own.pop() if len(own) == 1 else None

    def _kept_by(self, function: str) -> Mapping[str, tuple[str, Evidence]]:
        """By parameter: the field that a method adds it to, and where."""
        if function not in self._known:
            state, facts = self.inference.states.get(function), self.inference.functions[function]
            is_plain = state is not None and facts.takes_receiver and not facts.decorated
            self._known[function] = dict(self._find(function, state)) if state and is_plain else {}
        return self._known[function]

    def _find(self, function: str, state: State) -> Iterator[tuple[str, tuple[str, Evidence]]]:
        graph = state.graph
        for number, node in enumerate(graph.nodes):
            if node.op != ops.STORE or any(each.kind == "with" for each in graph.blocks):
                continue  # gradients may be off in it
            added = self._added(state, node)
            for each in () if added < 0 else reachable([added], lambda n: made_of(graph.nodes[n])):
                holds_tensor = any(isinstance(atom, Tensor) for atom in state.values[each])
                if graph.nodes[each].op == ops.PARAM and holds_tensor:
                    evidence = self.why(function, number, "added up here", Shows.OPERATION)
                    yield graph.nodes[each].data, (node.data, evidence)

    def _added(self, state: State, store: Node) -> int:
        """The node that is added to a field which holds a sum or a list; -1 for all else."""
        old, new = grown_by(state.graph, store)
        value = state.values[old] if old >= 0 else frozenset()
        is_list = bool(value) and all(isinstance(atom, SequenceValue) for atom in value)
        of_list = state.graph.nodes[store.second].op == ops.ADD
        return new if is_list or not of_list else -1


class LastingFields(NodeFact[bool]):
    """Whether a field of an object, which a method of it reads, is not seen to begin anew or to be
    emptied for every batch."""

    _hotness = Required(Hotness)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._known: dict[tuple[str, str], bool] = {}

    def of(self, at: NodePlace) -> bool | None:
        node = self.inference.states[at.function].graph.nodes[at.node]
        cls = self.inference.functions[at.function].cls
        if cls is None or node.op != ops.ATTR:
            return None
        key = cls, node.data
        if key not in self._known:
            emptied = rf"\bdel\s[^#]*\.{node.data}\b|\.{node.data}\.(clear|pop|popleft)\b"
            self._known[key] = not (
                self.inference.texts.is_stored_from_outside(node.data)
                or self.inference.texts.matches(emptied, node.data)
                or any(self._begins_anew(each, node.data) for each in self._methods(cls))
            )
        return self._known[key]

    def _methods(self, cls: str) -> Iterator[str]:
        """The methods of a class, and of those that are derived from it."""
        classes = {cls, *self.inference.hierarchy.subclasses(cls)}
        functions = self.inference.functions
        yield from (each for each in self.inference.states if functions[each].cls in classes)

    def _begins_anew(self, method: str, field: str) -> bool:
        """Whether a method sets the field to another value in a place that runs for every batch."""
        graph = self.inference.states[method].graph
        return any(
            node.op == ops.STORE
            and node.data == field
            and grown_by(graph, node) == (-1, -1)
            and self._hotness.of(NodePlace(method, number, node.block)) is not None
            for number, node in enumerate(graph.nodes)
        )


def grown_by(graph: Graph, store: Node) -> tuple[int, int]:
    """The sum or list that a field of the object itself held before a store, and what is added to
    that; -1 for both where it is something else that is stored."""
    receiver, grown = store.operands[0], graph.nodes[store.second]
    if graph.nodes[receiver].op != ops.PARAM:
        return -1, -1
    if grown.op == ops.PUT:  # a sum in a dict
        _, _, value = grown.operands
        grown = graph.nodes[value]
    if grown.op != ops.ADD and not (grown.op in (ops.AUG, ops.BINOP) and grown.data in SUMS):
        return -1, -1
    old, new = grown.operands
    held = graph.nodes[graph.narrowed(old)]
    if held.op == ops.SUBSCRIPT:
        held = graph.nodes[held.operands[0]]
    same = held.op == ops.ATTR and held.data == store.data and held.operands[0] == receiver
    return (old, new) if same else (-1, -1)


def made_of(node: Node) -> tuple[int, ...]:
    """The operands that a number with a graph is computed from by arithmetic alone."""
    if node.op in (ops.BINOP, ops.AUG) and node.data in ARITHMETIC:
        return node.operands
    return node.operands[:1] if node.op == ops.NARROW else ()
