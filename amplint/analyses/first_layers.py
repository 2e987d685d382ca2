"""Calls of modules that hand what they are given to a layer, as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amplint.analyses.fact import CallFact, Fact
from amplint.core.lattice import only
from amplint.core.values import Atom, Object
from amplint.core.walks import Solver
from amplint.inference import Inference
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Graph, Node, path_of
from amplint.knowledge.casts import EQUAL_DTYPES
from amplint.knowledge.modules import MODULES


class GivenToLayer(CallFact[bool]):
    """Whether a method of a module always gives its first argument, as it is, to a layer of the
    module that needs the dtype of its parameters.

    Ex) x of `def encode(self, x): return self.conv(x)`, and where `self.body(x)` does so in turn
    """

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._gives = Solver(self._find, False)

    def of(self, at: NodePlace) -> bool:
        return self._is_given(at.function, at.node, self._gives)

    def _is_given(self, function: str, call: int, ask: Callable[[str], bool]) -> bool:
        """Whether all that a call may mean give on what they are given first."""
        callees = sorted(self.inference.edges.get((function, call), ()))
        return bool(callees) and all(ask(callee) for callee in callees)

    def _find(self, function: str, ask: Callable[[str], bool]) -> bool:
        state, facts = self.inference.states.get(function), self.inference.functions[function]
        if state is None or not facts.takes_receiver or not facts.places:
            return False
        own = f"{facts.params[0].name}."
        for number in calls_given(state.graph, facts.places[0]):
            callee = state.graph.nodes[number].operands[0]
            if not (path_of(state.graph, callee) or "").startswith(own):
                continue
            layer = only(state.values[callee])
            if is_of_equal_dtypes(layer) or self._is_given(function, number, ask):
                return True
        return False


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


def is_of_equal_dtypes(layer: Atom | None) -> bool:
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
