"""Which functions run while a graph of their operations is captured, by `torch.compile`, an export
or CUDA, themselves or by what calls them.

A call that may run several functions leads nowhere: which of them is captured is not known. Nor
does one that stands where code runs rarely, or where a test has asked whether something is being
captured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amplint.analyses.cold_guards import ColdGuards
from amplint.facts.call_guards import CallGuards
from amplint.facts.fact import Fact, PlaceFact, Required
from amplint.inference import Inference, SiteId, State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Graph, Node
from amplint.knowledge.captures import (
    COMPILER,
    CUDA_GRAPH,
    EXPORTER,
    GRAPHER,
    LEAVERS,
    LOOKED_INTO,
)
from amplint.knowledge.vocabulary import ASKS_FOR_CAPTURE
from amplint.rule.conditions import failing
from amplint.util.walks import reachable
from amplint.values.atoms import Evidence, Function, Instance, Shows, Symbol, Value, constant
from amplint.values.lattice import only
from amplint.view.evaluated_node import EvaluatedNode

REACH = 8  # how many calls a capture is followed through
# Where none of these stands, nothing is captured.
CAPTURING = frozenset({COMPILER, EXPORTER, GRAPHER})
WORDS = frozenset(name.rpartition(".")[2] for name in (*CAPTURING, CUDA_GRAPH, *LEAVERS))


class Captured(NamedTuple):
    """A capture of a function.

    Args:
        by: the name of what captures.
        is_whole: whether it has `fullgraph=True`; None where that is not known.
        chain: the place that says so, and the calls from there.
        site: the last of these calls, if there is one.
        block: the block that is captured; 0 for the whole function.
    """

    by: str
    is_whole: bool | None
    chain: tuple[Evidence, ...]
    site: SiteId | None = None
    block: int = 0


class Captures(PlaceFact[Captured]):
    """The capture that a place is under, by the shortest way; None where none is seen."""

    sentence = "{it} is captured in a graph"

    _guards = Required(ColdGuards)
    _given_by_calls = Required(CallGuards)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._by_function: dict[str, Captured] = {}
        named = [*self._named()]
        left_out = {function for name, function, _ in named if name in LEAVERS}
        waiting = [(function, start) for name, function, start in named if name not in LEAVERS]
        for _ in range(REACH):
            reached: list[tuple[str, Captured | None]] = []
            for function, captured in waiting:
                if captured is None or function in {*self._by_function, *left_out}:
                    continue
                facts = inference.functions[function]
                if function in inference.states and LOOKED_INTO.issuperset(facts.decorated):
                    self._by_function[function] = captured
                    reached += self._called(function, captured)
            waiting = reached

    def of(self, at: NodePlace) -> Captured | None:
        captured = self._by_function.get(at.function)
        if captured is None or not self._is_within(at.function, at.block, captured):
            return None
        return captured if self._runs(at.function, at.block, captured) else None

    def _is_within(self, function: str, block: int, captured: Captured) -> bool:
        return self.inference.states[function].graph.is_in(block, captured.block)

    def captures(self, function: str) -> bool:
        """Whether something in a function may be captured."""
        return function in self._by_function

    def _named(self) -> Iterator[tuple[str | None, str, Captured | None]]:
        """The functions that a function of torch is given, or decorates, or of which it captures a
        block: its name, the function, and how that is captured if it is one that captures."""
        for function, state in self.inference.states.items():
            if WORDS.isdisjoint(self.inference.functions[function].words):
                continue
            nodes = state.graph.nodes
            for number, node in enumerate(nodes):
                if node.op == ops.DEF:
                    for decorator in node.operands:
                        call = nodes[decorator]
                        name = symbol(state, call.operands[0] if call.op == ops.CALL else decorator)
                        if name in CAPTURING | LEAVERS:
                            start = self._start(name, (function, number), call, node.data)
                            yield name, node.data, start
                elif node.op == ops.CALL and (first := node.argument(0)) >= 0:
                    name = symbol(state, node.operands[0])
                    if name == CUDA_GRAPH:
                        for block in blocks_of(state.graph, number):
                            why = self.why(function, number, f"captured by `{name}`", Shows.CALL)
                            yield name, function, Captured(name, True, (why,), None, block)
                    elif name in CAPTURING | LEAVERS:
                        for each in self._functions(state.values[first]):
                            yield name, each, self._start(name, (function, number), node, each)

    def _functions(self, value: Value) -> Iterator[str]:
        """The functions that a value may be, and the `forward` of the modules."""
        for atom in value:
            if isinstance(atom, Function):
                yield atom.id
            elif isinstance(atom, Instance):
                methods = self.inference.hierarchy.methods(atom.cls, "forward", overridden=False)
                yield from methods if len(methods) == 1 else ()

    def _start(self, name: str, place: SiteId, call: Node, function: str) -> Captured | None:
        """The capture by a function of torch; None where it is off, or in a test, which may show
        that it breaks."""
        state = self.inference.states[place[0]]
        if option(state, call, "disable") or self.inference.store.is_from_test(function, place[0]):
            return None
        why = self.why(*place, f"captured by `{name}`", Shows.CALL)
        return Captured(name, option(state, call, "fullgraph"), (why,))

    def _called(self, function: str, captured: Captured) -> Iterator[tuple[str, Captured]]:
        """The functions that a captured one calls, with their captures."""
        state = self.inference.states[function]
        for number, node in enumerate(state.graph.nodes):
            callees = self.inference.calls.edges.get((function, number), set())
            if len(callees) != 1 or not self._is_within(function, node.block, captured):
                continue
            if not self._runs(function, node.block, captured):
                continue
            (callee,) = callees
            if is_meant(state, node, callee):
                name = self.inference.functions[callee].name
                why = self.why(function, number, f"calls `{name}`", Shows.CALL)
                chain = (*captured.chain, why)
                yield callee, captured._replace(chain=chain, site=(function, number), block=0)

    def _runs(self, function: str, block: int, captured: Captured) -> bool:
        """Whether a block runs often in the capture: not by a call that leaves it out, and not
        after a test that asks for a capture, or for what is kept."""
        state, site = self.inference.states[function], captured.site
        tests = self._given_by_calls.around(function, block)
        if any(asks(state.graph, test) for test, _ in tests):
            return False
        if site is not None and self._given_by_calls.leaves_out(site, function, block):
            return False
        while block >= 0 and not self._guards.is_cold(function, state, block):
            block = state.graph.blocks[block].parent
        return block < 0


@failing("nothing is seen to compile this")
def in_capture(here: EvaluatedNode) -> bool:
    return here.project.facts[Captures].captures(here.function)


def blocks_of(graph: Graph, context: int) -> Iterator[int]:
    """The `with` blocks whose context a node is."""
    blocks = enumerate(graph.blocks)
    return (number for number, facts in blocks if facts.kind == "with" and facts.node == context)


def is_meant(state: State, call: Node, function: str) -> bool:
    """Whether a call is known to run a function by what is called, and not by a name alone, which
    `replace` of a string shares with a method of the project."""
    called = only(state.values[call.operands[0]]) if call.op == ops.CALL else None
    return isinstance(called, Instance) or (isinstance(called, Function) and called.id == function)


def symbol(state: State, number: int) -> str | None:
    """The dotted name of the library object that a node certainly is."""
    atom = only(state.values[number])
    return canonical(atom.name) if isinstance(atom, Symbol) else None


def option(state: State, call: Node, name: str) -> bool | None:
    """The value of an option, which is False where it is not given; None where it is not known."""
    number = call.argument(None, name) if call.op == ops.CALL else -1
    if number < 0:
        return None if call.op == ops.CALL and call.data.stars else False
    value = constant(state.values[number])
    return value if isinstance(value, bool) else None


def asks(graph: Graph, test: int) -> bool:
    """Whether a test asks if something is being captured, or if an object keeps something yet,
    which it does when the capture counts.

    Ex) not torch.compiler.is_compiling(), self.table is None
    """
    parts = reachable([test], lambda n: (o for o in graph.nodes[n].operands if o >= 0))
    names = (graph.nodes[each] for each in parts if graph.nodes[each].op in (ops.ATTR, ops.NAME))
    if any(ASKS_FOR_CAPTURE.search(str(name.data)) for name in names):
        return True
    node = graph.nodes[graph.narrowed(test)]
    is_none = node.op == ops.COMPARE and node.data in (("Is",), ("IsNot",))
    return is_none and graph.nodes[graph.narrowed(node.operands[0])].op == ops.ATTR
