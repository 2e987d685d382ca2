"""Where the positions that a value holds are counted, by `torch.arange`, also in callers.

def angles(t, inv_freq):
    return torch.outer(t, inv_freq)

angles(torch.arange(length), inv_freq)    # counted here, for `t`

A parameter is counted where each call that is seen hands counted positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from amplint.facts.call_guards import CallGuards
from amplint.facts.callers import Callers
from amplint.facts.fact import Fact, NodeFact, Required
from amplint.inference import Inference, State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import PARTS, method_called
from amplint.ir.model import Node
from amplint.knowledge.dtypes import INTEGERS_BEYOND_HALF
from amplint.knowledge.operations import COUNTED_ALIKE
from amplint.util.walks import Solver
from amplint.values.atoms import Evidence, Host, Shows, Symbol, Tensor
from amplint.values.lattice import known, only

# How many of the operands of an operator decide whether its result is counted.
COUNTED = {"Add": 2, "Sub": 2, "Mult": 2, "Div": 1}
MOST_CALLS = 8  # of one function, beyond which nothing is said
NAMES = ("start", "end", "step")


class Counted(NamedTuple):
    """Positions.

    Args:
        evidence: where they are counted, or are known to be integers.
        last: how far they go; None where that is not known.
    """

    evidence: Evidence
    last: float | None


At = tuple[str, int]  # a function, and a node of it
Ask = Callable[[At], Counted | None]


class CountedPositions(NodeFact[Counted]):
    """Where the numbers of an expression are counted, or where they are known to be integers.

    Ex) torch.arange(n), for t[:, None] + offset
    """

    sentence = "the numbers of {it} are counted"

    _callers = Required(Callers)
    _guards = Required(CallGuards)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._counted: Solver[At, Counted | None] = Solver(self._find, None)

    def of(self, at: NodePlace) -> Counted | None:
        return self._counted((at.function, at.node))

    def _find(self, at: At, ask: Ask) -> Counted | None:
        function, number = at
        state = self.inference.states.get(function)
        if state is None:
            return None
        node = state.graph.nodes[number]
        if is_count(state, node):
            return Counted(self._here(at), last_number(state, node))
        before = [ask((function, each)) for each in parts(state, node)]
        positions = next((each for each in before if each is not None), None)
        if positions is None and node.op == ops.PARAM:
            positions = self._handed(function, str(node.data), ask)
        if positions is None and node.op == ops.CALL:
            positions = self._returned(at, ask)
        if positions is not None:
            return positions
        tensor = only(known(state.values[number]))
        is_integer = isinstance(tensor, Tensor) and tensor.dtype in INTEGERS_BEYOND_HALF
        return Counted(self._here(at), None) if is_integer else None

    def _returned(self, call: At, ask: Ask) -> Counted | None:
        """The positions that a function that a call runs returns, a lambda among them."""
        callees = sorted(self.inference.calls.edges.get(call, ()))
        states = {each: self.inference.states.get(each) for each in callees[:MOST_CALLS]}
        results = {
            (callee, *state.graph.given_back)
            for callee, state in states.items()
            if state is not None and len(state.graph.given_back) == 1
        }
        counted = [each for at in sorted(results) if (each := ask(at)) is not None]
        return max(counted, key=how_far, default=None)

    def _here(self, at: At) -> Evidence:
        return self.why(*at, "counted here", Shows.OPERATION)

    def _handed(self, function: str, name: str, ask: Ask) -> Counted | None:
        """The positions that each call of a function that is seen hands for a parameter: those of
        the call that counts furthest."""
        sites = self._callers.sites.get(function, ())
        if len(sites) > MOST_CALLS:
            return None
        arguments = [(site[0], self._guards.argument(site, function, name)) for site in sites]
        handed = [ask((caller, n)) if n is not None and n >= 0 else None for caller, n in arguments]
        counted = [each for each in handed if each is not None]
        if len(counted) < len(handed) or not counted:
            return None
        return max(counted, key=how_far)


def how_far(counted: Counted) -> float:
    return math.inf if counted.last is None else counted.last


def is_count(state: State, node: Node) -> bool:
    if node.op != ops.CALL:
        return False
    atom = only(known(state.values[node.operands[0]]))
    return isinstance(atom, Symbol) and canonical(atom.name) == "torch.arange"


def parts(state: State, node: Node) -> Iterator[int]:
    """The parts of an expression that are counted where it is."""
    if node.op == ops.CALL:
        method, receiver = method_called(state.graph, node)
        if method in COUNTED_ALIKE:
            yield receiver
    elif node.op in PARTS:
        yield node.operands[0]
    elif node.op == ops.PHI:
        yield from node.operands
    else:
        yield from node.operands[: COUNTED.get(node.operator, 0)]


def last_number(state: State, counting: Node) -> float | None:
    """How far `torch.arange` counts; 0 with a step, for half has more of such numbers."""
    named = [number for name, number in counting.named if name in NAMES]
    numbers = [constant_of(state, each) for each in (*counting.positional, *named)]
    magnitudes = [abs(number) for number in numbers if number is not None]
    if counting.data.stars or len(magnitudes) < max(len(numbers), 1):
        return None
    return max(magnitudes) - 1 if len(magnitudes) < 3 else 0.0


def constant_of(state: State, number: int) -> float | None:
    atom = only(known(state.values[number])) if number >= 0 else None
    number_or_not = atom.const if isinstance(atom, Host) else None
    if isinstance(number_or_not, bool) or not isinstance(number_or_not, int | float):
        return None
    return float(number_or_not)
