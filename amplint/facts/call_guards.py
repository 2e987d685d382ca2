"""Which blocks of a function a call does not run, by the constants that it passes, and by what it
passes that is a tensor, or is none.

def step(model, x, y, train=True):
    if not train:
        print(x.cpu())        # not run by `step(model, x, y)` of the training loop

def resize(x, size):
    if isinstance(size, torch.Tensor):
        size = size.tolist()  # not run by `resize(x, x.shape)`

def update(self, **kwargs):
    for name, v in kwargs.items():
        if isinstance(v, torch.Tensor):
            v = v.item()      # not run by `log.update(lr=lr, size=8.0)`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import ge, gt, le, lt
from typing import Any

from amplint.facts.fact import Fact
from amplint.inference import Inference, SiteId, State
from amplint.inference.function.annotations import TENSOR_TYPES
from amplint.inference.function.narrowing import class_atoms
from amplint.inference.incremental.continuation import FixpointEdit
from amplint.ir import ops
from amplint.ir.flow import elements, method_called
from amplint.ir.model import Graph, Node, Param
from amplint.values.atoms import (
    Class,
    Function,
    Host,
    Symbol,
    Tensor,
    constant,
    one,
    surely,
)
from amplint.values.lattice import only

UNKNOWN = object()  # the constant of what is none
NEGATED = {"IsNot": "Is", "NotEq": "Eq", "NotIn": "In"}
ORDERS = {"Gt": gt, "GtE": ge, "Lt": lt, "LtE": le}
CONVERSIONS: dict[str, Callable[[Any], object]] = {
    "builtins.bool": bool,
    "builtins.float": float,
    "builtins.int": int,
}
MAX_DEPTH = 4  # times `not` before a test


class CallGuards(Fact):
    """The tests of parameters around blocks, and the constants that calls give for these."""

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self._guards: dict[tuple[str, int], list[tuple[int, bool]]] = {}

    def follow(self, inference: Inference, edit: FixpointEdit) -> bool:
        self.inference = inference
        self._guards = {at: of for at, of in self._guards.items() if at[0] not in edit.functions}
        return True

    def leaves_out(self, site: SiteId, function: str, block: int) -> bool:
        """Whether a call of a function does not run a block of it."""
        return any(
            self._outcome(site, function, test) is (not holds)
            for test, holds in self.around(function, block)
        )

    def around(self, function: str, block: int) -> list[tuple[int, bool]]:
        """The tests around a block, each with the outcome with which the block runs."""
        key = (function, block)
        if key not in self._guards:
            graph = self.inference.states[function].graph
            guards = self._guards[key] = []
            while block >= 0:
                facts = graph.blocks[block]
                if facts.kind in ("if", "else", "after") and facts.node >= 0:
                    guards.append((facts.node, facts.kind == "if"))
                block = facts.parent
        return self._guards[key]

    def _outcome(
        self, site: SiteId, function: str, test: int, is_part: bool = False
    ) -> bool | None:
        """The outcome of a test in a call; None where it is not known.

        Args:
            is_part: of a test with `and` or `or`, whose parts have none that are looked at.
        """
        graph = self.inference.states[function].graph
        number, negated = graph.narrowed(test), False
        for _ in range(MAX_DEPTH):
            node = graph.nodes[number]
            if node.op == ops.UNARY and node.data == "Not":
                number, negated = graph.narrowed(node.operands[0]), not negated
        outcome = self._plain_outcome(site, function, number, is_part)
        return None if outcome is None else outcome is not negated

    def _plain_outcome(
        self, site: SiteId, function: str, number: int, is_part: bool
    ) -> bool | None:
        """The outcome of a test that does not begin with `not`."""
        node = self.inference.states[function].graph.nodes[number]
        if node.op == ops.BOOL:
            parts = () if is_part else node.operands
            outcomes = {self._outcome(site, function, part, True) for part in parts}
            stops: bool = node.data == "Or"
            if stops in outcomes:
                return stops
            return None if None in outcomes or not outcomes else not stops
        if node.op == ops.COMPARE and len(node.operands) == 2:
            return self._compared(site, function, node)
        if node.op == ops.CALL and (outcome := self._called(site, function, node)) is not None:
            return outcome
        condition = self._constant(site, function, number)
        return None if condition is UNKNOWN else bool(condition)

    def _called(self, site: SiteId, function: str, node: Node) -> bool | None:
        """Ex) isinstance(size, torch.Tensor), torch.is_tensor(size)"""
        state = self.inference.states[function]
        tested = node.argument(0)
        if tested < 0 or not asks_for_tensor(state, node):
            return None
        outcomes = {
            self._is_tensor(site, argument) for argument in self._given_for(site, function, tested)
        }
        return outcomes.pop() if len(outcomes) == 1 else None

    def _is_tensor(self, site: SiteId, argument: int | None) -> bool | None:
        """Whether what a call passes is a tensor: -1 is a default that is a constant."""
        if argument is None or argument == -1:
            return None if argument is None else False
        value = self.inference.states[site[0]].values[argument]
        return True if surely(value, Tensor) else False if surely(value, Host) else None

    def _given_for(self, site: SiteId, function: str, number: int) -> Iterator[int | None]:
        """The nodes of what a call passes for a parameter, or for those that a loop goes over; as
        those of `_argument`."""
        graph = self.inference.states[function].graph
        for each in loop_elements(graph, number):
            node = graph.nodes[graph.narrowed(each)]
            parameter = self._parameter(function, node)
            if parameter is not None and parameter.kind == "starstar":
                yield from self._more_keywords(site, function)
                continue
            argument = self._argument(site, function, node)
            if argument is None:
                yield None
            else:
                parameter, caller_node = argument
                yield caller_node if caller_node >= 0 or parameter.constant_default else None

    def _more_keywords(self, site: SiteId, function: str) -> Iterator[int | None]:
        """The nodes of what a call passes by keywords that no parameter has."""
        caller = self.inference.states.get(site[0])
        node = caller.graph.nodes[site[1]] if caller is not None else None
        if node is None or node.op != ops.CALL or node.data.stars:
            yield None
            return
        names = {p.name for p in self.inference.functions[function].params}
        yield from (argument for name, argument in node.named if name not in names)

    def _compared(self, site: SiteId, function: str, node: Node) -> bool | None:
        """Ex) mode == "train", keep is False, reduction in ("mean", "sum")"""
        graph = self.inference.states[function].graph
        left, right = node.operands[0], graph.narrowed(node.second)
        (operator,) = node.data
        negated, operator = operator in NEGATED, NEGATED.get(operator, operator)
        written = elements(graph, right) if operator == "In" else None
        tested = self._constant(site, function, left)
        others = [
            self._constant(site, function, each, is_other=True)
            for each in ((node.second,) if written is None else written)
        ]
        if tested is UNKNOWN or UNKNOWN in others:
            return None
        if operator in ORDERS:
            return comparison_outcome(operator, tested, others[0])
        if operator not in ("Is", "Eq") and written is None:
            return None
        # `1 == True` holds, and `1 is True` does not.
        equal = [each for each in others if operator != "Is" or type(tested) is type(each)]
        return (tested in equal) is not negated

    def _constant(self, site: SiteId, function: str, number: int, is_other: bool = False) -> object:
        """The constant that a node is in a call, be it converted: `float(norm_type)`."""
        state = self.inference.states[function]
        node = state.graph.nodes[state.graph.narrowed(number)]
        convert = conversion(state, node)
        if convert is None:
            return self._unconverted(site, function, number, is_other)
        operand = self._unconverted(site, function, node.argument(0), is_other)
        try:
            return convert(operand) if isinstance(operand, int | float | str) else UNKNOWN
        except (ValueError, OverflowError):
            return UNKNOWN

    def _unconverted(self, site: SiteId, function: str, number: int, is_other: bool) -> object:
        """The constant that a call passes for a parameter, or that is its default, or is written.

        Args:
            is_other: it is what a test compares with, which may have a name: `math.inf`.
        """
        state = self.inference.states[function]
        number = state.graph.narrowed(number)
        node = state.graph.nodes[number]
        if node.op == ops.CONST:
            return node.data
        if is_other and is_global(state.graph, node):
            literal = constant(state.values[number])
            return UNKNOWN if literal is None else literal
        argument = self._argument(site, function, node)
        if argument is None:
            return UNKNOWN
        parameter, caller_node = argument
        if caller_node < 0:
            return parameter.default if parameter.constant_default else UNKNOWN
        caller = self.inference.states[site[0]]
        literal = constant(caller.values[caller_node])
        node = caller.graph.nodes[caller_node]
        return literal if literal is not None or node.op == ops.CONST else UNKNOWN

    def _argument(self, site: SiteId, function: str, node: Node) -> tuple[Param, int] | None:
        """The parameter that a node is, and the node that a call passes for it, or -1; None where
        that is not known."""
        parameter = self._parameter(function, node)
        if parameter is None or parameter.kind not in ("positional", "keyword"):
            return None
        number = self.argument(site, function, parameter.name)
        return None if number is None else (parameter, number)

    def _parameter(self, function: str, node: Node) -> Param | None:
        facts = self.inference.functions[function]
        return facts.param(node.data) if node.op == ops.PARAM else None

    def argument(self, site: SiteId, function: str, name: str) -> int | None:
        """The node of the argument that a call passes for a parameter of a function; -1 where there
        is none, None where that is not known."""
        caller = self.inference.states.get(site[0])
        node = caller.graph.nodes[site[1]] if caller is not None else None
        if caller is None or node is None or node.op != ops.CALL:
            return None  # a property is read, an object is iterated
        callees = caller.values[node.operands[0]]
        partial = any(isinstance(a, Function) and (a.first or a.given_names) for a in callees)
        if node.data.stars or partial:
            return None
        facts = self.inference.functions[function]
        names = [p.name for p in facts.positional]
        if name not in names:
            return node.argument(None, name)
        position = names.index(name) - self._bound(caller, node, function)
        if position < 0:
            return None
        return node.argument(position, name)

    def _bound(self, caller: State, node: Node, function: str) -> int:
        """How many parameters the call does not write: `self` of a method of an object."""
        if not self.inference.functions[function].takes_receiver:
            return 0
        for atom in caller.values[node.operands[0]]:
            if isinstance(atom, Function) and atom.id == function:
                return 1 if atom.bound is not None else 0
            if isinstance(atom, Class):
                return 1
        return 1  # `model(x)` runs `forward`


def asks_for_tensor(state: State, test: Node) -> bool:
    """Whether a call asks whether its first argument is a tensor, and nothing else."""
    callee, classes = state.values[test.operands[0]], test.argument(1)
    if callee == one(Symbol("torch.is_tensor")):
        return True
    types = class_atoms(state.values[classes]) if classes >= 0 else []
    return (
        callee == one(Symbol("builtins.isinstance"))
        and bool(types)
        and all(isinstance(atom, Symbol) and atom.name in TENSOR_TYPES for atom in types)
    )


def loop_elements(graph: Graph, number: int) -> tuple[int, ...]:
    """The nodes of which a node is any one: of the variable of a loop over a tuple its parts, of
    one over the values of a dict this; else itself.

    Ex) x of `for x in (a, b)`, v of `for k, v in kwargs.items()`
    """
    number = graph.narrowed(number)
    node, index = graph.nodes[number], None
    if node.op == ops.UNPACK and not node.data[2]:
        node, index = graph.nodes[graph.narrowed(node.operands[0])], node.data[0]
    if node.op != ops.ITER:
        return (number,)
    iterable = graph.narrowed(node.operands[0])
    source, written = graph.nodes[iterable], elements(graph, iterable)
    if written is not None and index is None:
        return written
    method, receiver = method_called(graph, source)
    is_value = (method, index) in (("values", None), ("items", 1))
    return (receiver,) if is_value and not source.arguments else (number,)


def conversion(state: State, node: Node) -> Callable[[Any], object] | None:
    """The function that a call makes a number of another type with: `float` of `float(x)`."""
    if node.op != ops.CALL or len(node.arguments) != 1 or node.argument(0) < 0:
        return None
    callee = only(state.values[node.operands[0]])
    return CONVERSIONS.get(callee.name) if isinstance(callee, Symbol) else None


def is_global(graph: Graph, node: Node) -> bool:
    """Ex) inf, math.inf"""
    if node.op == ops.ATTR:
        node = graph.nodes[node.operands[0]]
    return node.op == ops.NAME


def comparison_outcome(operator: str, left: object, right: object) -> bool | None:
    """The outcome of an order of two numbers; None where they are none."""
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    return bool(ORDERS[operator](left, right))
