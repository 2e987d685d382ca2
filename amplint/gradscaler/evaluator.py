"""The symbolic value of each node of a function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from amplint.gradscaler.control_flow import ControlFlow
from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import Role
from amplint.gradscaler.outcomes import Decision, Outcomes
from amplint.gradscaler.symbolic_values import NOTHING, Symbolic, SymbolicValues, operands_of
from amplint.gradscaler.trace import TrainingTrace
from amplint.inference import State
from amplint.ir import ops
from amplint.ir.flow import OPERATORS, TESTS, last_name, method_called
from amplint.ir.model import Graph, Node
from amplint.values.atoms import Class, Function, Instance, Module, Object, Symbol

Guards = frozenset[Decision]
Field = tuple[Symbolic, str]  # an object and the name of an attribute


class Whereabouts(NamedTuple):
    """A place that is reached: the last step before it, and what is stored in objects there."""

    step: int
    fields: dict[Field, Symbolic]


@dataclass
class Activation:
    """A function that is being run.

    Args:
        call: the call node in the frame `around`.
        within: the iterations of the loops around that call.
        values: of the nodes that were run.
        under: the tests that these were run under, with their outcomes.
        aside: the values of nodes on sides that do not matter, which change nothing else.
        iterations: of the loops around what is being run.
    """

    function: str
    state: State
    flow: ControlFlow
    key: Symbolic
    around: Activation | None = None
    call: int = -1
    within: tuple[int, ...] = ()
    values: dict[int, Symbolic] = field(default_factory=dict)
    under: dict[int, Guards] = field(default_factory=dict)
    aside: dict[int, Symbolic] = field(default_factory=dict)
    iterations: tuple[int, ...] = ()

    @property
    def graph(self) -> Graph:
        return self.state.graph

    @property
    def chain(self) -> Iterator[Activation]:
        """It, and those that run it."""
        frame: Activation | None = self
        while frame is not None:
            yield frame
            frame = frame.around

    @property
    def all_iterations(self) -> tuple[int, ...]:
        """The iterations of all loops around."""
        return self.within + self.iterations


class Evaluator:
    """Evaluates nodes, except for calls.

    Attributes:
        here: the present place; None where it is not reached.
        guards: the tests around it, with their outcomes.
        outcomes: the tests that are decided there.
    """

    def __init__(self, index: EventIndex) -> None:
        self.index = index
        self.inference = index.inference
        self.symbols = SymbolicValues()
        self.trace = TrainingTrace(self.symbols)
        self.here: Whereabouts | None = None
        self.guards = Guards()
        self.outcomes = Outcomes(self.symbols)

    def unique(self, frame: Activation, number: int) -> Symbolic:
        """An unknown value, known by its node and iteration."""
        return self.symbols.of("result", frame.key, number, frame.iterations)

    def choice(
        self,
        frame: Activation,
        place: object,
        iterations: tuple[int, ...],
        alternatives: Iterable[tuple[Symbolic, Guards]],
    ) -> Symbolic:
        """One of several values, each with the outcomes of tests under which it is that one."""
        guards: dict[Symbolic, Guards] = {}
        for value, under in alternatives:
            guards[value] = guards.get(value, under) & under
        if len(guards) == 1:
            return next(iter(guards))
        if not guards or any(map(self.symbols.is_deep, guards)):
            return self.symbols.of("result", frame.key, place, iterations)
        conditions = tuple(guards.values())
        return self.symbols.of("choice", frame.key, place, iterations, conditions, *guards)

    def at(self, frame: Activation, number: int) -> Symbolic:
        """The value of a node; unknown if it was not run."""
        if number < 0:
            return NOTHING
        for values in (frame.values, frame.aside):
            if number in values:
                return values[number]
        return self.unique(frame, number)

    def value(self, frame: Activation, number: int) -> Symbolic:
        """The value of a node that calls nothing, from those of its operands."""
        symbol = self._evaluate(frame, number, frame.graph.nodes[number])
        return self.unique(frame, number) if self.symbols.is_deep(symbol) else symbol

    def joined(self, frame: Activation, number: int) -> Symbolic:
        """The value of a name where what several branches have put into it meets."""
        operands = [each for each in frame.graph.nodes[number].operands if each in frame.values]
        later = [operand for operand in operands if operand > number]  # left by the last iteration
        values: dict[Guards, Symbolic] = {}
        for each in sorted(later or operands):
            under = frame.under[each] - self.guards
            if self.outcomes.allow(under):
                values[under] = frame.values[each]
        if len(values) == 2 and Guards() in values:
            # What was there before is there still where the test has the other outcome.
            (under,) = values.keys() - {Guards()}
            if len(under) == 1:
                ((test, outcome),) = under
                values[Guards({(test, not outcome)})] = values.pop(Guards())
        alternatives = [(value, under) for under, value in values.items()]
        if not alternatives:
            aside = (each for each in frame.graph.nodes[number].operands if each in frame.aside)
            alternatives = [(frame.aside[each], Guards()) for each in aside]
        return self.choice(frame, number, frame.iterations, alternatives)

    def result(self, frame: Activation, number: int) -> Symbolic:
        """The result of an unknown function: the same for the same arguments in one iteration."""
        node = frame.graph.nodes[number]
        operands = (self.at(frame, operand) for operand in node.operands)
        term = "call", node.data.keywords, frame.all_iterations, *operands
        symbol = self.made_of(frame, number, *term)
        if self.index.is_of_remainder((frame.function, number)):
            self.symbols.note_periodic(symbol)
        return symbol

    def made_of(self, frame: Activation, number: int, *term: object) -> Symbolic:
        """The value of a term; unknown if that is too deep."""
        if any(map(self.symbols.is_deep, operands_of(term))):
            return self.unique(frame, number)
        return self.symbols.of(*term)

    def role(self, frame: Activation, number: int) -> Role:
        """The role of a node's object; noted for its symbolic value, if it is known."""
        if number < 0:
            return Role.OTHER
        roles = self.trace.roles
        role, may_be_off = self.index.role((frame.function, number))
        symbol = self.at(frame, number)
        if may_be_off:
            self.trace.may_be_off.add(symbol)
        if role is Role.UNKNOWN:
            return roles.get(symbol, role)
        if roles.get(symbol) is Role.DISABLED and role is Role.SCALER:
            return Role.DISABLED  # others pass one that is enabled to the same function
        if role is not Role.OTHER or symbol not in roles:
            roles[symbol] = role
        return role

    # -- arguments

    def arguments(
        self, frame: Activation, number: int, node: Node, function: str
    ) -> dict[str, Symbolic]:
        """The values of the parameters of a function that is called, as far as they are known."""
        facts = self.inference.functions[function]
        names = [p.name for p in facts.positional]
        arguments: dict[str, Symbolic] = {}
        receiver = self._receiver(frame, number, node, function)
        if receiver is not None and names:
            arguments[names.pop(0)] = receiver
        if not node.data.stars:
            arguments.update(
                (name, self.at(frame, operand))
                for name, operand in zip(names, node.positional, strict=False)
            )
            for p in facts.params:
                if p.constant_default:
                    arguments.setdefault(p.name, self.symbols.constant(p.default))
        for name, operand in node.named:
            if name != "**":
                arguments[name] = self.at(frame, operand)
        return arguments

    def _receiver(
        self, frame: Activation, number: int, node: Node, function: str
    ) -> Symbolic | None:
        """The value of `self` in a function that is called; None where it takes none."""
        facts = self.inference.functions[function]
        if not facts.takes_receiver:
            return None
        _, owner = method_called(frame.graph, node)
        values = frame.state.values[node.operands[0]]
        if facts.name == "__init__" and any(isinstance(atom, Class) for atom in values):
            return self.unique(frame, number)
        if any(isinstance(atom, Instance) for atom in values):
            return self.at(frame, node.operands[0])  # `loss_scaler(...)` is its `__call__`
        bound = any(isinstance(atom, Function) and atom.bound is not None for atom in values)
        if owner < 0 or not bound:
            return None
        if is_super(frame.graph, owner):
            own = first_parameter(frame.graph)
            return self.at(frame, own) if own >= 0 else None
        return self.at(frame, owner)

    # -- by operation

    def _evaluate(self, frame: Activation, number: int, node: Node) -> Symbolic:
        match node.op:
            case ops.CONST:
                return self.symbols.constant(node.data)
            case ops.PARAM if frame.around is None:
                return self.symbols.of("param", frame.function, node.data)
            case ops.NAME:
                return self._free(frame, node.data)
            case ops.NARROW:
                return self.at(frame, node.operands[0])
            case ops.PHI:
                return self.joined(frame, number)
            case ops.ATTR:
                return self._attribute(self.at(frame, node.operands[0]), node)
            case ops.DEF | ops.CLASS | ops.LAMBDA:
                return self.symbols.of("def", node.data)
            case ops.IMPORT:
                return self.symbols.of("import", *node.data)
            case ops.ENTER:
                return self.symbols.of("enter", self.at(frame, node.operands[0]))
            case op if op in OPERATORS | TESTS | {ops.SUBSCRIPT, ops.TUPLE, ops.LIST, ops.FSTRING}:
                operands = (self.at(frame, operand) for operand in node.operands)
                return self.symbols.of("op", node.op, node.data, *operands)
            case ops.UNPACK:
                return self._unpacked(self.at(frame, node.operands[0]), node.data)
            case ops.ITER if not frame.iterations or frame.iterations[-1] < 0:
                # What loops over the same optimizers draw is the same, one after the other.
                element = self.symbols.of("each", self.at(frame, node.operands[0]))
                self.trace.elements.setdefault(element, set()).add((frame.function, number))
                return element
            case _:
                return self.unique(frame, number)

    def _attribute(self, thing: Symbolic, node: Node) -> Symbolic:
        content = self.here.fields.get((thing, node.data)) if self.here is not None else None
        return content if content is not None else self.symbols.of("attr", thing, node.data)

    def _unpacked(self, whole: Symbolic, data: tuple[int, int, bool]) -> Symbolic:
        index, count, starred = data
        term = self.symbols[whole]
        if term[:2] == ("op", ops.TUPLE) and len(term) == 3 + count and not starred:
            return Symbolic(term[3 + index])
        return self.symbols.of("unpack", whole, index)

    def _free(self, frame: Activation, name: str) -> Symbolic:
        """A name of a function around this one, which may be running, or of a module."""
        scope = self.inference.functions[frame.function].parent
        while scope is not None:
            facts = self.inference.functions[scope]
            bindings = self.inference.files[facts.path].graph(scope).bindings
            if name in bindings and facts.kind != "class":
                return self._bound(frame, scope, name)
            scope = facts.parent
        return self.symbols.of("name", name)

    def _bound(self, frame: Activation, scope: str, name: str) -> Symbolic:
        for running in frame.chain:
            if running.function == scope:
                bindings = [each for each in running.graph.bindings[name] if each in running.values]
                if bindings:
                    return running.values[max(bindings)]
                break
        return self.symbols.of("free", scope, name)


def is_object(state: State, number: int) -> bool:
    """Whether a call returns something that is true, as objects are."""
    value = state.values[number]
    return bool(value) and all(
        isinstance(atom, Object | Instance | Function | Class | Module | Symbol) for atom in value
    )


def is_super(graph: Graph, number: int) -> bool:
    """Whether a node is `super()`."""
    node = graph.nodes[number]
    return node.op == ops.CALL and last_name(graph, node.operands[0]) == "super"


def first_parameter(graph: Graph) -> int:
    return next((number for number, node in enumerate(graph.nodes) if node.op == ops.PARAM), -1)
