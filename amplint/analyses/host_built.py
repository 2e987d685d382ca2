"""Which functions of the project build a tensor on the CPU, from numbers alone.

What such a function returns could be built on any device: it is made by factories and by operations
on their results. One that fills the tensor element by element, that reads data, or that keeps what
it has made for the next call, is none: there the CPU is a good place to build it.
"""

from __future__ import annotations

import re

from amplint.analyses.fact import CallFact
from amplint.core.values import (
    CPU,
    Atom,
    DType,
    Evidence,
    Host,
    Method,
    Place,
    Sequence,
    Shows,
    Symbol,
    Tensor,
    Value,
)
from amplint.core.walks import reachable
from amplint.inference import Inference, State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.knowledge.factories import BUILDABLE, FACTORIES
from amplint.knowledge.operations import SHAPE_METHODS

# What gives a tensor, or a part of one, that depends on its operands alone.
COMPUTED = frozenset(
    {ops.BINOP, ops.UNARY, ops.COMPARE, ops.SUBSCRIPT, ops.SLICE, ops.TUPLE, ops.LIST}
    | {ops.UNPACK, ops.STARRED, ops.NARROW}
)
PLAIN = (Host, DType, Symbol)
# With these, the call says where the tensor is, or what it is for.
DECIDING = frozenset({"device", "out", "pin_memory", "generator", "names", "layout", "**"})
SIZES = frozenset({"shape", "size", "numel", "dim", "ndim", "dtype", "device"})
# Ex) functools.lru_cache, cached_property
MEMOISES = re.compile(r"(^|[_.])cached?(_|$)")


class HostBuilt(CallFact[Evidence]):
    """The factory whose result a call of a function of the project gives."""

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self._known: dict[str, Evidence | None] = {}

    def of(self, at: NodePlace) -> Evidence | None:
        value = self.inference.states[at.function].values[at.node]
        if not all(isinstance(a, Tensor) and a.device.kind == CPU.kind for a in value):
            return None
        callees = sorted(self.inference.edges.get((at.function, at.node), ()))
        for callee in callees:
            if callee not in self._known:
                self._known[callee] = self._find(callee)
        found = [self._known[callee] for callee in callees]
        return found[0] if found and None not in found else None

    def _find(self, function: str) -> Evidence | None:
        """The first factory of a function that returns what factories give, and nothing else."""
        state = self.inference.states.get(function)
        if state is None or state.graph.yields or not state.graph.returns:
            return None
        facts = self.inference.functions[function]
        if any(MEMOISES.search(name) for name in facts.decorated):
            return None
        nodes = state.graph.nodes
        factories = [first_factory(state, nodes[each].operands[0]) for each in state.graph.returns]
        if any(each < 0 for each in factories):
            return None
        place = Place(facts.path, *nodes[factories[0]].location)
        return Evidence(place, "it is built here", Shows.PLACEMENT)


def first_factory(state: State, number: int) -> int:
    """The first of the factories that a value comes from; -1 where it comes from anything else."""
    nodes = state.graph.nodes

    def operands(each: int) -> list[int]:
        """The operands that a value is made of, but for sizes and other numbers."""
        given = nodes[each].operands
        if nodes[each].op == ops.CALL:
            callee = nodes[given[0]]
            owner = callee.operands if callee.op == ops.ATTR else ()
            if is_factory(state, each):
                return []
            given = owner if callee.data in SHAPE_METHODS else (*owner, *given[1:])
        return [n for n in given if n >= 0 and not all(map(is_host, state.values[n]))]

    factories: list[int] = []
    made = set(reachable([number], operands))
    for each in made:
        node = nodes[each]
        if any(is_other_use(state, user, made) for user in state.users[each]):
            return -1
        if node.op != ops.CALL:
            if node.op not in COMPUTED:
                return -1
            continue
        value = state.values[node.operands[0]]
        if is_factory(state, each):
            factories.append(each)
        elif not all(isinstance(atom, Method) for atom in value) and not is_operation(value):
            return -1
    return min(factories, default=-1)


def is_other_use(state: State, user: int, made: set[int]) -> bool:
    """Whether something is done with a tensor but to compute what is returned: it may be filled,
    through a view of it or by a function that is given it."""
    node = state.graph.nodes[user]
    if user in made or node.op == ops.RETURN:
        return False
    if node.op != ops.ATTR or node.data in SIZES:
        return node.op != ops.ATTR
    return not all(each in made for each in state.users[user])


def is_factory(state: State, number: int) -> bool:
    """Whether a call builds a tensor on the CPU, and could on another device."""
    node = state.graph.nodes[number]
    names = library_names(state.values[node.operands[0]])
    return bool(names) and names <= BUILDABLE and DECIDING.isdisjoint(node.data.keywords)


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
    """Whether it is a number, a size, a dtype, a module of a library, or a sequence of these."""
    if isinstance(atom, Sequence):
        inner = atom.items if atom.items is not None else (atom.element,)
        return all(isinstance(each, PLAIN) for value in inner for each in value)
    return isinstance(atom, PLAIN)
