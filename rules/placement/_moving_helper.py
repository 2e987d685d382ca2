"""Which functions of the project move what they are given to the device, and do nothing else.

def to_gpu(x):
    return x.cuda() if torch.cuda.is_available() else x
"""

from __future__ import annotations

from amplint.facts.fact import CallFact
from amplint.inference import Inference, State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import alternatives, method_called, origins
from amplint.util.walks import reachable
from amplint.values.atoms import ACCELERATOR, Evidence, Shows, Symbol, Tensor, TensorTree

from .._shared.factories import VARIABLES


class MovedByHelper(CallFact[Evidence]):
    """Where the functions that a call runs move the first argument, if that is all they do with
    it: a list of tensors they may move one by one."""

    sentence = "{it} moves what it is given"

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self._moves: dict[str, Evidence | None] = {}

    def of(self, at: NodePlace) -> Evidence | None:
        callees = sorted(self.inference.calls.edges.get((at.function, at.node), ()))
        moves = [self._move(function) for function in callees]
        return moves[0] if moves and None not in moves else None

    def _move(self, function: str) -> Evidence | None:
        if function not in self._moves:
            self._moves[function] = self._find(function)
        return self._moves[function]

    def _find(self, function: str) -> Evidence | None:
        """The move in a function that returns what it is given, or that moved."""
        state = self.inference.states.get(function)
        places = self.inference.functions[function].places
        if state is None or not places or state.graph.yields:
            return None
        nodes = state.graph.nodes
        parameters = {
            n for n, each in enumerate(nodes) if (each.op, each.data) == (ops.PARAM, places[0])
        }
        returned = set(reachable(state.graph.given_back, lambda number: holders(state, number)))
        moves = [number for number in sorted(returned) if is_move(state, number, parameters)]
        others = [
            number
            for number in returned.difference(moves, parameters)
            if nodes[number].op != ops.COMP and not holders(state, number)
        ]
        if others or not moves:
            return None
        return self.why(function, moves[0], "moved to the device here", Shows.PLACEMENT)


def holders(state: State, number: int) -> tuple[int, ...]:
    """The nodes that hold the tensor of a join, or of a `Variable` around it."""
    node = state.graph.nodes[number]
    if node.op == ops.CALL:
        callee = state.values[node.operands[0]]
        is_wrapped = any(isinstance(a, Symbol) and a.name in VARIABLES for a in callee)
        return node.arguments[:1] if is_wrapped else ()
    return alternatives(state.graph, number)


def is_move(state: State, number: int, parameters: set[int]) -> bool:
    """Ex) x.cuda(), where `x` is given; not x.to(device), where that is the CPU"""
    method, receiver = method_called(state.graph, state.graph.nodes[number])
    return (
        method in ("to", "cuda")
        and parameters.issuperset(origins(state.graph, receiver))
        and any(
            isinstance(atom, Tensor | TensorTree) and atom.device.kind == ACCELERATOR
            for atom in state.values[number]
        )
    )
