"""Which functions run while a graph of their operations is captured: under `torch.compile`,
`torch.export` or in a CUDA graph, themselves or by what calls them.

A call that may run several functions leads nowhere: which of them is captured is not known. Nor
does one that stands where code runs rarely, or where a test has asked whether something is being
captured.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple, TypeVar

from amplint.analyses.call_guards import CallGuards
from amplint.analyses.cold_guards import ColdGuards
from amplint.analyses.fact import Fact, PlaceFact, Required
from amplint.inference import Inference, SiteId, State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import SIDES, Block, Graph, Node
from amplint.knowledge.captures import (
    COMPILERS,
    CUDA_GRAPHS,
    EXPORTERS,
    GRAPHERS,
    LEAVERS,
    LOOKED_INTO,
    Encloses,
)
from amplint.knowledge.vocabulary import ASKS_FOR_CAPTURE
from amplint.util.walks import reachable
from amplint.values.atoms import (
    Evidence,
    Function,
    Instance,
    Sequence,
    Shows,
    Symbol,
    Value,
    constant,
)
from amplint.values.lattice import only

REACH = 8  # how many calls a capture is followed through
METHOD = "compile"  # of a module, which compiles its `forward`
PARTIAL = "functools.partial"
NAMES = COMPILERS | EXPORTERS | GRAPHERS | CUDA_GRAPHS | LEAVERS
# The last identifiers of these: where none stands, nothing is captured.
WORDS = frozenset(name.rpartition(".")[2] for name in NAMES)
# What an object, a module or a dict keeps, which is there when it is asked for again.
KEPT = frozenset({ops.ATTR, ops.NAME, ops.SUBSCRIPT, ops.CALL})
TESTED = frozenset({ops.BOOL, ops.UNARY, ops.COMPARE, ops.NARROW})


Chosen = TypeVar("Chosen")


class Captured(NamedTuple):
    """A capture.

    Args:
        encloses: what captures.
        chain: the place that says so, and the calls from there.
        site: the last of these calls, if there is one.
    """

    encloses: Encloses
    chain: tuple[Evidence, ...]
    site: SiteId | None = None


class Start(NamedTuple):
    """Where a capture begins: a function, or a block of one."""

    function: str
    block: int  # -1 for the whole function
    captured: Captured


class Captures(PlaceFact[tuple[Captured, ...]]):
    """The captures that a place is under; None where nothing is seen to capture it.

    Of several of one kind, the one with the shortest way.
    """

    _guards = Required(ColdGuards)
    _given_by_calls = Required(CallGuards)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._left: dict[str, list[bool]] = {}
        self._found: dict[str, dict[tuple[int, Encloses], Captured]] = {}
        calls = [*self._naming_calls()]
        self._disabled = {
            function for place, name in calls if name in LEAVERS for function in self._given(place)
        }
        self._spread([start for place, name in calls for start in self._starts(place, name)])

    def of(self, at: NodePlace) -> tuple[Captured, ...] | None:
        found = self._found.get(at.function)
        if found is None or self._is_left(at.function, at.block):
            return None
        graph = self.inference.states[at.function].graph
        inside = [each for (block, _), each in found.items() if graph.is_in(at.block, block)]
        return (*(each for each in inside if self._runs(at.function, at.block, each)),) or None

    def captures(self, function: str) -> bool:
        """Whether something in a function may be captured."""
        return function in self._found

    # -- where captures begin

    def _naming_calls(self) -> Iterator[tuple[tuple[str, int], str]]:
        """The nodes that call what captures, or are decorators of it, with its name."""
        for function, state in self.inference.states.items():
            if WORDS.isdisjoint(self.inference.functions[function].words):
                continue
            for number, node in enumerate(state.graph.nodes):
                name = self._name(state, node)
                if name is not None:
                    yield (function, number), name

    def _name(self, state: State, node: Node) -> str | None:
        if node.op == ops.DEF:
            names = (named(state, decorator) for decorator in node.operands)
            return next((name for name in names if name in COMPILERS), None)
        if node.op != ops.CALL:
            return None
        callee = state.graph.nodes[node.operands[0]]
        name = symbol(state, node.operands[0])
        if name in NAMES:
            return name
        is_method = callee.op == ops.ATTR and callee.data == METHOD
        return METHOD if is_method and self._inherits(state.values[callee.operands[0]]) else None

    def _inherits(self, value: Value) -> bool:
        """Whether a value is a module whose `compile` is that of torch."""
        atom = only(value)
        if not isinstance(atom, Instance) or not self.inference.hierarchy.is_module(atom.cls):
            return False
        classes = self.inference.classes
        return not any(
            METHOD in classes[each].methods for each in self.inference.hierarchy.mro(atom.cls)
        )

    def _starts(self, place: tuple[str, int], name: str) -> Iterator[Start]:
        function, number = place
        state = self.inference.states[function]
        node = state.graph.nodes[number]
        if name in CUDA_GRAPHS:
            captured = self._captured(place, Encloses.CUDA_GRAPH)
            for block, facts in enumerate(state.graph.blocks):
                if facts.kind == "with" and facts.node == number:
                    yield Start(function, block, captured)
            return
        if node.op == ops.DEF:
            decorator = next(d for d in node.operands if named(state, d) in COMPILERS)
            encloses = by_arguments(name, state, state.graph.nodes[decorator])
            given = [node.data]
        else:
            encloses = by_arguments(name, state, node)
            given = [*self._given(place)]
        for each in given if encloses is not None and name not in LEAVERS else ():
            # A test may be there to show that it breaks, or that a part of it does not.
            if not self.inference.store.is_from_test(each, function):
                yield Start(each, -1, self._captured(place, encloses))

    def _captured(self, place: tuple[str, int], encloses: Encloses | None) -> Captured:
        assert encloses is not None
        why = self.why(*place, f"captured by `{encloses.value}`", Shows.CALL)
        return Captured(encloses, (why,))

    def _given(self, place: tuple[str, int]) -> Iterator[str]:
        """The functions that a call is given first, and the `forward` of the modules."""
        state = self.inference.states[place[0]]
        node = state.graph.nodes[place[1]]
        if node.op != ops.CALL:
            return
        callee = state.graph.nodes[node.operands[0]]
        name = symbol(state, node.operands[0])
        number = node.argument(0) if name in NAMES else callee.operands[0]
        if number >= 0:
            yield from self._functions(state.values[number])

    def _functions(self, value: Value) -> Iterator[str]:
        rows = (atom.items or () for atom in value if isinstance(atom, Sequence))
        for atom in chain(value, *(item for row in rows for item in row)):
            if isinstance(atom, Function):
                yield atom.id
            elif isinstance(atom, Instance):
                methods = self.inference.hierarchy.methods(atom.cls, "forward", overridden=False)
                yield from methods if len(methods) == 1 else ()

    # -- what they lead to

    def _spread(self, starts: list[Start]) -> None:
        """Breadth first: the shortest way of each kind to each function."""
        waiting = [start for start in starts if self._is_looked_into(start.function)]
        for _ in range(REACH):
            reached: list[Start] = []
            for start in waiting:
                known = self._found.setdefault(start.function, {})
                if (start.block, start.captured.encloses) not in known:
                    known[start.block, start.captured.encloses] = start.captured
                    reached += self._called(start)
            waiting = reached

    def _called(self, start: Start) -> Iterator[Start]:
        function, block, captured = start
        state = self.inference.states[function]
        for number in state.graph.nodes_in(block):
            callees = self.inference.calls.edges.get((function, number), set())
            node = state.graph.nodes[number]
            if len(callees) != 1 or not state.graph.is_in(node.block, block):
                continue
            (callee,) = callees
            if not is_meant(state, node, callee):
                continue
            is_run = self._runs(function, node.block, captured)
            if is_run and self._is_looked_into(callee) and not self._is_left(function, node.block):
                name = self.inference.functions[callee].name
                why = self.why(function, number, f"calls `{name}`", Shows.CALL)
                way, site = (*captured.chain, why), (function, number)
                yield Start(callee, -1, Captured(captured.encloses, way, site))

    def _runs(self, function: str, block: int, captured: Captured) -> bool:
        """Whether the call by which a function is captured may run a block of it."""
        site = captured.site
        return site is None or not self._given_by_calls.leaves_out(site, function, block)

    def _is_looked_into(self, function: str) -> bool:
        facts = self.inference.functions[function]
        known = function in self.inference.states and function not in self._disabled
        return known and LOOKED_INTO.issuperset(facts.decorated)

    def _is_left(self, function: str, block: int) -> bool:
        """Whether a block runs rarely, or after somebody has asked whether it is captured."""
        if function not in self._left:
            state = self.inference.states[function]
            left: list[bool] = []
            for number, facts in enumerate(state.graph.blocks):
                around = facts.parent >= 0 and left[facts.parent]
                left.append(
                    around
                    or self._guards.is_cold(function, state, number)
                    or (facts.kind in SIDES and asks(state.graph, facts.node))
                    or (facts.kind in SIDES and is_first_time(state.graph, facts))
                )
            self._left[function] = left
        return self._left[function][block]


def is_meant(state: State, call: Node, function: str) -> bool:
    """Whether a call is known to run a function by what is called, and not by a name alone, which
    `replace` of a string shares with a method of the project."""
    called = only(state.values[call.operands[0]]) if call.op == ops.CALL else None
    return isinstance(called, Instance) or (isinstance(called, Function) and called.id == function)


def symbol(state: State, number: int) -> str | None:
    """The dotted name of the library object that a node certainly is."""
    atom = only(state.values[number])
    return canonical(atom.name) if isinstance(atom, Symbol) else None


def named(state: State, decorator: int) -> str | None:
    """The name of a decorator: of torch.compile, torch.compile(mode="default") and
    partial(torch.compile, mode="default")."""
    node = state.graph.nodes[decorator]
    if node.op != ops.CALL:
        return symbol(state, decorator)
    name, first = symbol(state, node.operands[0]), node.argument(0)
    return symbol(state, first) if name == PARTIAL and first >= 0 else name


def by_arguments(name: str, state: State, node: Node) -> Encloses | None:
    """The kind of capture, by the arguments; None where they switch it off."""
    if name in GRAPHERS:
        return Encloses.CUDA_GRAPH
    if name in EXPORTERS:
        return by_option(state, node, "strict", (Encloses.EXPORT, Encloses.STRICT_EXPORT, None))
    if by_option(state, node, "disable", (False, True, False)):
        return None
    kinds = (Encloses.COMPILE, Encloses.WHOLE, Encloses.PERHAPS_WHOLE)
    return by_option(state, node, "fullgraph", kinds)


def by_option(
    state: State, node: Node, option: str, kinds: tuple[Chosen, Chosen, Chosen]
) -> Chosen:
    """The kind that an option chooses that is false, true, or not known."""
    off, on, unknown = kinds
    number = node.argument(None, option) if node.op == ops.CALL else -1
    if number < 0:
        return unknown if node.op == ops.CALL and node.data.stars else off
    chosen = constant(state.values[number])
    return unknown if not isinstance(chosen, bool) else on if chosen else off


def asks(graph: Graph, test: int) -> bool:
    """Whether a test asks if something is being captured. Ex) not torch.compiler.is_compiling()"""
    if test < 0:
        return False
    parts = reachable([test], lambda at: operands_of_test(graph, at))
    return any(ASKS_FOR_CAPTURE.search(last_name(graph, each)) for each in parts)


def is_first_time(graph: Graph, block: Block) -> bool:
    """Whether a block runs where something that is kept is not there yet: before a capture that
    counts, as a rule.

    Ex) if self.table is None:, if key not in self.tables:, after `if cached is not None: return`
    """
    holds, test = block.kind == "if", graph.nodes[graph.narrowed(block.node)]
    if test.op == ops.UNARY and test.data == "Not":
        holds, test = not holds, graph.nodes[graph.narrowed(test.operands[0])]
    if test.op != ops.COMPARE or len(test.data) != 1:
        return False
    (operator,) = test.data
    if operator in ("In", "NotIn"):
        return (operator == "NotIn") is holds
    kept, other = (graph.nodes[graph.narrowed(each)] for each in test.operands)
    is_none = other.op == ops.CONST and other.data is None and operator in ("Is", "IsNot")
    return is_none and kept.op in KEPT and (operator == "Is") is holds


def operands_of_test(graph: Graph, number: int) -> tuple[int, ...]:
    node = graph.nodes[number]
    return node.operands if node.op in TESTED else ()


def last_name(graph: Graph, number: int) -> str:
    """`is_compiling` of torch.compiler.is_compiling()"""
    node = graph.nodes[number]
    node = graph.nodes[node.operands[0]] if node.op == ops.CALL else node
    return str(node.data) if node.op in (ops.ATTR, ops.NAME) else ""
