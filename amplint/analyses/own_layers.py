"""Calls of modules that hand what they are given to a layer, as it is, or return what one
computes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple

from amplint.analyses.fact import CallFact, Fact
from amplint.inference import Inference
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Graph, Node, path_of
from amplint.knowledge.casts import EQUAL_DTYPES
from amplint.knowledge.modules import MODULES
from amplint.util.walks import Solver
from amplint.values.atoms import Atom, Object
from amplint.values.lattice import only

RETURNED = frozenset({ops.RETURN, ops.NARROW})


class ModuleMethod(NamedTuple):
    """A method of a module.

    Args:
        first: its first parameter behind `self`.
        holds: whether the fact holds of a call in it.
    """

    graph: Graph
    first: str
    holds: Callable[[int], bool]


class OfLayers(CallFact[bool]):
    """A fact about what methods of a module do with the layers of that module."""

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._holds = Solver(self._find, False)

    @abstractmethod
    def is_by(self, layer: Atom | None) -> bool:
        """Whether it holds of the call of a layer."""

    @abstractmethod
    def is_of(self, method: ModuleMethod) -> bool:
        """Whether it holds of a method."""

    def of(self, at: NodePlace) -> bool:
        return self._is_by_called(at.function, at.node, self._holds)

    def _is_by_called(self, function: str, call: int, ask: Callable[[str], bool]) -> bool:
        """Whether it holds of all that a call may mean."""
        callees = sorted(self.inference.calls.edges.get((function, call), ()))
        return bool(callees) and all(ask(callee) for callee in callees)

    def _find(self, function: str, ask: Callable[[str], bool]) -> bool:
        state, facts = self.inference.states.get(function), self.inference.functions[function]
        if state is None or not facts.takes_receiver or not facts.places:
            return False
        own = f"{facts.params[0].name}."

        def holds(call: int) -> bool:
            callee = state.graph.nodes[call].operands[0]
            is_own = (path_of(state.graph, callee) or "").startswith(own)
            is_layer = is_own and self.is_by(only(state.values[callee]))
            return is_layer or (is_own and self._is_by_called(function, call, ask))

        return self.is_of(ModuleMethod(state.graph, facts.places[0], holds))


class GivenToLayer(OfLayers):
    """Whether a method of a module always passes its first argument, as it is, to a layer of the
    module that needs the dtype of its parameters.

    Ex) x of `def encode(self, x): return self.conv(x)`, and where `self.body(x)` does so in turn
    """

    def is_by(self, layer: Atom | None) -> bool:
        return needs_own_dtype(layer)

    def is_of(self, method: ModuleMethod) -> bool:
        return any(map(method.holds, calls_given(method.graph, method.first)))


class ReturnedByLayer(OfLayers):
    """Whether a method of a module returns what a layer of the module computes, as it is, in the
    dtype of its parameters.

    Ex) def encode(self, x): return self.conv(self.norm(x))
    """

    def is_by(self, layer: Atom | None) -> bool:
        name = layer.last or layer.type if isinstance(layer, Object) else ""
        return name in EQUAL_DTYPES and name in MODULES and MODULES[name].returns == "tensor"

    def is_of(self, method: ModuleMethod) -> bool:
        graph = method.graph
        returned = [graph.behind(number, RETURNED) for number in graph.returns]
        are_calls = all(graph.nodes[number].op == ops.CALL for number in returned)
        return bool(returned) and are_calls and all(map(method.holds, returned))


def calls_given(graph: Graph, parameter: str) -> Iterator[int]:
    """The calls that are given a parameter first, as it is, and that always run."""
    for number, node in enumerate(graph.nodes):
        first = node.argument(0) if node.op == ops.CALL else -1
        if first >= 0 and always_runs(graph, node):
            given = graph.nodes[graph.narrowed(first)]
            if given.op == ops.PARAM and given.data == parameter:
                yield number


def always_runs(graph: Graph, node: Node) -> bool:
    """Whether a node is under no test, in no loop, and in nothing that catches what it raises."""
    number = node.block
    while number >= 0:
        block = graph.blocks[number]
        if block.kind not in ("body", "with"):
            return False
        number = block.parent
    return True


def needs_own_dtype(layer: Atom | None) -> bool:
    """Whether a layer of torch raises for an input of another float dtype than its parameters have.

    Ex) nn.Conv2d, nn.Sequential(nn.ReLU(), nn.Linear(8, 8))
    """
    if not isinstance(layer, Object) or layer.kind != "module":
        return False
    if layer.type != "torch.nn.Sequential":
        return layer.type in EQUAL_DTYPES
    types = [held.type if isinstance(held, Object) else "" for held in layer.holds]
    keep = all(each in MODULES and MODULES[each].dtype == "same" for each in types)
    return keep and not EQUAL_DTYPES.isdisjoint(types)
