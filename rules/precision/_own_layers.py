"""Calls of modules that hand what they are given to a layer, as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amplint.analyses.module_uses import around
from amplint.facts.fact import CallFact, Fact
from amplint.inference import Inference
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Graph, path_of
from amplint.knowledge.casts import EQUAL_DTYPES
from amplint.knowledge.modules import MODULES
from amplint.util.walks import Solver
from amplint.values.atoms import Atom, Object
from amplint.values.lattice import only


class GivenToLayer(CallFact[bool]):
    """Whether a call passes its first argument, as it is, to a layer that needs the dtype of its
    parameters: always, in a method of the module that holds the layer.

    Ex) x of `def encode(self, x): return self.conv(x)`, and where `self.body(x)` does so in turn
    """

    sentence = "{it} passes its input to a layer as it is"

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._passes_on = Solver(self._find, False)

    def of(self, at: NodePlace) -> bool:
        return self._is_given(at.function, at.node, self._passes_on)

    def _is_given(self, function: str, call: int, passes_on: Callable[[str], bool]) -> bool:
        state = self.inference.states[function]
        if needs_own_dtype(only(state.values[state.graph.nodes[call].operands[0]])):
            return True
        callees = sorted(self.inference.calls.edges.get((function, call), ()))
        return bool(callees) and all(map(passes_on, callees))

    def _find(self, function: str, passes_on: Callable[[str], bool]) -> bool:
        state, facts = self.inference.states.get(function), self.inference.functions[function]
        if state is None or not facts.takes_receiver or not facts.places:
            return False
        graph, own = state.graph, f"{facts.params[0].name}."
        return any(
            (path_of(graph, graph.nodes[call].operands[0]) or "").startswith(own)
            and self._is_given(function, call, passes_on)
            for call in calls_given(graph, facts.places[0])
        )


def calls_given(graph: Graph, parameter: str) -> Iterator[int]:
    """The calls that are given a parameter first, as it is, and that always run: under no test, in
    no loop, and in nothing that catches what they raise."""
    for number, node in enumerate(graph.nodes):
        first = node.argument(0) if node.op == ops.CALL else -1
        blocks = (graph.blocks[each].kind for each in around(graph, node.block))
        if first >= 0 and all(kind in ("body", "with") for kind in blocks):
            argument = graph.nodes[graph.narrowed(first)]
            if argument.op == ops.PARAM and argument.data == parameter:
                yield number


def needs_own_dtype(layer: Atom | None) -> bool:
    """Whether a layer of torch raises for an input of another float dtype than its parameters have.

    Ex) nn.Conv2d, nn.Sequential(nn.ReLU(), nn.Linear(8, 8))
    """
    if not isinstance(layer, Object) or layer.kind != "module":
        return False
    if layer.type != "torch.nn.Sequential":
        return layer.type in EQUAL_DTYPES
    types = [child.type if isinstance(child, Object) else "" for child in layer.holds]
    keep = all(each in MODULES and MODULES[each].dtype == "same" for each in types)
    return keep and not EQUAL_DTYPES.isdisjoint(types)
