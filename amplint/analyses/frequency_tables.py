"""Which expressions are frequencies, or complex numbers, also where functions make them.

def frequencies(dim):
    return 1 / 10000 ** (torch.arange(0, dim, 2) / dim)

inv_freq = torch.cat([frequencies(dim), frequencies(dim)])    # here
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice

from amplint.analyses.fact import NodeFact
from amplint.inference import State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Node
from amplint.knowledge.dtypes import WIDE_FLOATS
from amplint.knowledge.operations import SHAPE_METHODS
from amplint.util.walks import reachable
from amplint.values.atoms import Atom, Function, Symbol, Tensor, constant
from amplint.values.lattice import only

LOGSPACE = "torch.logspace"
COUNTING = frozenset({"torch.arange", "torch.linspace", LOGSPACE})
POWERS = frozenset({"exp", "pow"})
SINES = frozenset({"sin", "cos", "polar"})  # what only a table of sines has on the way
CASTS = frozenset({"half", "bfloat16", "to", "type", "type_as"})
COMPLEX = frozenset({"torch.complex", "torch.polar", "torch.view_as_complex"})
WHOLE = frozenset({ops.BINOP, ops.UNARY, ops.AUG, ops.TUPLE, ops.LIST})
RETURNED = frozenset({ops.RETURN, ops.NARROW})
MOST = 100  # expressions, in what one is made of

At = tuple[str, int]  # a function, and a node of it


class OfNumbers(NodeFact[bool]):
    """A fact about the numbers that an expression has, by the operations that make it."""

    def _state(self, at: At) -> State:
        return self.inference.states[at[0]]

    def _node(self, at: At) -> Node:
        return self._state(at).graph.nodes[at[1]]

    def _origin(self, at: At) -> At:
        """The operation that has made the value of a variable."""
        return at[0], self._state(at).graph.narrowed(at[1])

    def _callee(self, at: At) -> Node | None:
        node = self._node(at)
        return self._state(at).graph.nodes[node.operands[0]] if node.op == ops.CALL else None

    def _called(self, at: At) -> Atom | None:
        node = self._node(at)
        return only(self._state(at).values[node.operands[0]]) if node.op == ops.CALL else None

    def _name(self, at: At) -> str:
        """The dotted name of the function of a library that is called."""
        atom = self._called(at)
        return canonical(atom.name) if isinstance(atom, Symbol) else ""

    def _last(self, at: At) -> str:
        """The last identifier of what is called."""
        callee = self._callee(at)
        if callee is not None and callee.op == ops.ATTR:
            return str(callee.data)
        return self._name(at).rpartition(".")[2]

    def _returned(self, at: At) -> Iterator[At]:
        """The values that the function of the project returns which a call certainly runs."""
        function = self._called(at)
        state = self.inference.states.get(function.id) if isinstance(function, Function) else None
        if state is not None and isinstance(function, Function):
            for number in state.graph.returns:
                yield self._origin((function.id, state.graph.behind(number, RETURNED)))


class ComplexNumbers(OfNumbers):
    """Whether an expression surely has complex numbers. Ex) torch.polar(ones, angles)"""

    def of(self, at: NodePlace) -> bool:
        found = [*self._alike((at.function, at.node))]
        return bool(found) and all(self._name(each) in COMPLEX for each in found)

    def _alike(self, at: At) -> Iterator[At]:
        """The calls that give an expression, whatever shape and functions are between."""

        def before(at: At) -> Iterator[At]:
            yield from self._returned(at)
            callee = self._callee(at)
            if callee is not None and callee.op == ops.ATTR and callee.data in SHAPE_METHODS:
                yield self._origin((at[0], callee.operands[0]))

        ways = islice(reachable([self._origin(at)], before), MOST)
        return (each for each in ways if next(before(each), None) is None)


class Frequencies(OfNumbers):
    """Whether an expression is a power, or computed of one, whose exponent is counted."""

    def of(self, at: NodePlace) -> bool:
        made = [*self._made([(at.function, at.node)])]
        if any(self._loses(each) for each in made):
            return False
        exponents = (each for power in made for each in self._exponents(power))
        return any(self._name(each) in COUNTING for each in self._made(exponents))

    def _made(self, ats: Iterable[At]) -> Iterator[At]:
        """Expressions, and what they are computed from."""
        return islice(reachable(map(self._origin, ats), self._parts), MOST)

    def _parts(self, at: At) -> Iterator[At]:
        state, node = self._state(at), self._node(at)
        if node.op == ops.CALL:
            callee = state.graph.nodes[node.operands[0]]
            numbers = (*callee.operands[:1], *node.arguments)
        elif node.op in WHOLE:
            numbers = node.operands
        else:
            numbers = node.operands[:1] if node.op == ops.SUBSCRIPT else ()
        yield from (self._origin((at[0], number)) for number in numbers)
        yield from self._returned(at)

    def _exponents(self, power: At) -> list[At]:
        """Ex) t of base**t, torch.exp(t), t.exp() and torch.pow(base, t); torch.logspace(0, -4, n)

        Powers of 2 lose nothing, and their exponents are none.
        """
        state, node = self._state(power), self._node(power)
        if self._name(power) == LOGSPACE:
            base = node.argument(3, "base")
            return [] if base >= 0 and is_exact(state, base) else [power]
        callee = self._callee(power)
        if node.op == ops.BINOP:
            operands = node.operands if node.data == "Pow" else ()
        elif callee is not None and self._last(power) in POWERS:
            is_method = callee.op == ops.ATTR and is_tensor(state, callee.operands[0])
            own = callee.operands[:1] if is_method else ()
            operands = (*own, *node.arguments)
        else:
            operands = ()
        if len(operands) > 1 and is_exact(state, operands[0]):
            return []
        return [(power[0], number) for number in operands[-1:]]

    def _loses(self, at: At) -> bool:
        """Whether it is a table of sines, or cast to a dtype that may be half already."""
        last = self._last(at)
        if last not in CASTS:
            return last in SINES
        tensor = only(self._state(at).values[at[1]])
        return not isinstance(tensor, Tensor) or tensor.dtype not in WIDE_FLOATS


def is_tensor(state: State, number: int) -> bool:
    return isinstance(only(state.values[number]), Tensor)


def is_exact(state: State, number: int) -> bool:
    """Whether the powers of a number are those of 2."""
    base = constant(state.values[number])
    return isinstance(base, int | float) and abs(math.frexp(base)[0]) == 0.5
