"""Which functions of the project build a tensor on the CPU, from numbers alone.

What such a function returns could be built on any device: it is made by factories and by operations
on their results. One that fills the tensor element by element, that reads data, or that keeps what
it has made for the next call, is none: there the CPU is a good place to build it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from amplint.facts.fact import NodeFact
from amplint.inference import Inference, State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import COMPUTED
from amplint.knowledge.factories import BUILDABLE, FACTORIES, LEGACY_CONSTRUCTORS
from amplint.knowledge.operations import DESCRIBES, SHAPE_METHODS
from amplint.knowledge.vocabulary import MEMOISES
from amplint.util.walks import Solver, reachable
from amplint.values.atoms import (
    CPU,
    Atom,
    Class,
    DType,
    Evidence,
    Host,
    Instance,
    Method,
    Object,
    Sequence,
    Shows,
    Symbol,
    Tensor,
    Value,
)

# An object holds what it likes, but what its methods return is looked at itself.
PLAIN = (Host, DType, Symbol, Instance, Class)
# With these, the call says where the tensor is, or what it is for.
DECIDING = frozenset({"device", "out", "pin_memory", "generator", "names", "layout", "**"})


@dataclass(frozen=True)
class FactoryValue:
    """A value that factories give, and operations on their results.

    Args:
        factory: the first of them; None where all that it is made of is given to the function.
        is_given: whether a part of it is.
    """

    factory: Evidence | None
    is_given: bool


Ask = Callable[[str], FactoryValue | None]  # returns the result of a function, if it is built so
# Returns the results of the functions of the project that a call runs, if all are built so.
Called = Callable[[int], list[FactoryValue]]


class HostBuilt(NodeFact[Evidence]):
    """The factory whose result a value is, or is computed from, with nothing else but numbers,
    through functions of the project or as one of several results.

    What is computed within one function in a line of calls is up to rules, which see what else is
    done with each variable on the way.
    """

    sentence = "{it} is built on the host"

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        # By function: its result, if it is built so.
        self._returned: Solver[str, FactoryValue | None] = Solver(self._find, None)

    def of(self, at: NodePlace) -> Evidence | None:
        value = self.inference.states[at.function].values[at.node]
        on_host = [isinstance(a, Tensor) and a.device.kind == CPU.kind for a in value]
        if not on_host or not all(on_host) or not self._is_far(at.function, at.node):
            return None
        result = self._value_of(at.function, at.node, self._returned)
        return result.factory if result is not None and not result.is_given else None

    def _is_far(self, function: str, number: int) -> bool:
        """Whether a value is one of several, is drawn from a distribution or computed from a tensor
        that is read twice, or a function of the project has a part in it."""
        state = self.inference.states[function]
        if state.graph.nodes[number].op == ops.UNPACK:
            return True
        called = partial(self._called, function, ask=self._returned)
        if any(map(called, made_of(state, number, called) or ())):
            return True
        computed = computed_from(state, number, called)
        parts = (atom for each in computed for atom in state.values[each])
        is_random = any(isinstance(atom, Object) and atom.kind == "distribution" for atom in parts)
        twice = any(is_read_twice(state, each) for each in computed - {number})
        return (is_random or twice) and not is_read_twice(state, number)

    def _find(self, function: str, ask: Ask) -> FactoryValue | None:
        """The result of a function, if it is built so."""
        state = self.inference.states.get(function)
        if state is None or state.graph.yields or not state.graph.returns:
            return None
        if any(MEMOISES.search(name) for name in self.inference.functions[function].decorated):
            return None
        returned = state.graph.given_back
        called = partial(self._called, function, ask=ask)
        whole = set().union(*(computed_from(state, each, called) for each in returned))
        if any(is_other_use(state, user, whole) for each in returned for user in state.users[each]):
            return None
        results = [self._value_of(function, each, ask) for each in returned]
        values = [each for each in results if each is not None]
        return joined(values) if len(values) == len(results) else None

    def _value_of(self, function: str, number: int, ask: Ask) -> FactoryValue | None:
        """The value of a node, if it is built so."""
        state = self.inference.states[function]
        parts = made_of(state, number, partial(self._called, function, ask=ask))
        if parts is None:
            return None
        return joined(built for each in parts for built in self._parts(function, each, ask))

    def _parts(self, function: str, number: int, ask: Ask) -> Iterable[FactoryValue]:
        node = self.inference.states[function].graph.nodes[number]
        if node.op == ops.PARAM:
            return [FactoryValue(None, True)]
        called = self._called(function, number, ask)
        if called:  # what it is given is among the parts itself
            return [FactoryValue(each.factory, False) for each in called]
        return [
            FactoryValue(self.why(function, number, "it is built here", Shows.PLACEMENT), False)
        ]

    def _called(self, function: str, number: int, ask: Ask) -> list[FactoryValue]:
        """The results of the functions of the project that a call runs, if all are built so."""
        callees = sorted(self.inference.calls.edges.get((function, number), ()))
        results = [ask(callee) for callee in callees]
        return [each for each in results if each is not None] if None not in results else []


def joined(parts: Iterable[FactoryValue]) -> FactoryValue | None:
    """Several values as one that is made of them; None of nothing."""
    all_parts = [*parts]
    factories = [each.factory for each in all_parts if each.factory is not None]
    if not all_parts:
        return None
    return FactoryValue(
        factories[0] if factories else None, any(each.is_given for each in all_parts)
    )


def made_of(state: State, number: int, called: Called) -> list[int] | None:
    """The factories, the calls of functions of the project and the parameters that a value is made
    of; None where it is made of anything else."""
    nodes = state.graph.nodes
    parts: list[int] = []
    whole = computed_from(state, number, called)
    for each in whole:
        node = nodes[each]
        if each != number and any(is_other_use(state, user, whole) for user in state.users[each]):
            return None
        if node.op == ops.PARAM:
            parts.append(each)
        elif node.op != ops.CALL:
            if node.op not in COMPUTED:
                return None
        elif is_factory(state, each) or called(each):
            parts.append(each)
        else:
            value = state.values[node.operands[0]]
            if not all(isinstance(atom, Method) for atom in value) and not is_operation(value):
                return None
    return sorted(parts)


def computed_from(state: State, number: int, called: Called) -> set[int]:
    """A value and what it is computed from, except sizes and other numbers, and for what factories
    are given, or functions of the project that put nothing of it into what they build."""
    nodes = state.graph.nodes

    def operands(each: int) -> list[int]:
        numbers = nodes[each].operands
        if nodes[each].op == ops.CALL:
            callee = nodes[numbers[0]]
            owner = callee.operands if callee.op == ops.ATTR else ()
            built = called(each)
            if is_factory(state, each) or (built and not any(one.is_given for one in built)):
                return []
            numbers = owner if callee.data in SHAPE_METHODS else (*owner, *numbers[1:])
        return [n for n in numbers if n >= 0 and not all(map(is_host, state.values[n]))]

    return set(reachable([number], operands))


def is_read_twice(state: State, number: int) -> bool:
    """Ex) rows of `rows.unsqueeze(1) - rows.unsqueeze(0)`"""
    nodes = state.graph.nodes
    readers = [nodes[user] for user in state.users[number]]
    return sum(node.op != ops.ATTR or node.data not in DESCRIBES for node in readers) > 1


def is_other_use(state: State, user: int, whole: set[int]) -> bool:
    """Whether something is done with a tensor but to compute what is returned: it may be filled,
    through a view of it or by a function that is given it."""
    node = state.graph.nodes[user]
    if user in whole or node.op in (ops.RETURN, ops.UNPACK):  # another tensor of several
        return False
    if node.op != ops.ATTR or node.data in DESCRIBES:
        return node.op != ops.ATTR
    return not all(each in whole for each in state.users[user])


def is_factory(state: State, number: int) -> bool:
    """Whether a call builds a tensor on the CPU, and could on another device."""
    node = state.graph.nodes[number]
    names = library_names(state.values[node.operands[0]])
    if names and all(LEGACY_CONSTRUCTORS.get(name, ("", ""))[1] == "cpu" for name in names):
        return all(is_size(state.values[each]) for each in node.arguments)
    return bool(names) and names <= BUILDABLE and DECIDING.isdisjoint(node.data.keywords)


def is_size(value: Value) -> bool:
    """Whether a legacy constructor takes an argument for a size: it is an int."""
    return bool(value) and all(isinstance(a, Host) and a.kind == "int" for a in value)


def is_operation(value: Value) -> bool:
    """Whether functions of torch are called, which take no data of the host."""
    names = library_names(value)
    return (
        bool(names)
        and all(name.startswith("torch.") for name in names)
        and names.isdisjoint(FACTORIES)
    )


def library_names(value: Value) -> set[str]:
    """The library functions that a value is; none where it may be anything else."""
    names = {canonical(atom.name) for atom in value if isinstance(atom, Symbol)}
    return names if len(names) == len(value) else set()


def is_host(atom: Atom) -> bool:
    """Whether it is a number, a size, a dtype, a module of a library, an object, or a sequence of
    these."""
    if isinstance(atom, Sequence):
        inner = atom.items if atom.items is not None else (atom.element,)
        return all(isinstance(each, PLAIN) for value in inner for each in value)
    return isinstance(atom, PLAIN)
