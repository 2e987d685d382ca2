"""Statistics of gradients: how large these are, times the scale where they are scaled.

What is made of one decides. The scale does not matter to a test whether it is 0 or finite, and two
that are divided by each other, or a gradient by its own mean, do not have it any more.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import cached_property

from amplint.gradscaler.events import NORMS, is_gradient, subject
from amplint.inference import Inference
from amplint.ir import ops
from amplint.ir.flow import last_name, method_called
from amplint.ir.model import SIDES
from amplint.knowledge.vocabulary import ASKS_NO_VALUE
from amplint.util.walks import reachable
from amplint.values.atoms import constant

REDUCTIONS = NORMS | {"max", "min", "amax", "amin", "mean", "sum", "std", "var"}
OF_EACH_ELEMENT = frozenset({"abs", "pow", "square", "float", "double", "detach"})
PRODUCTS = frozenset({"Mult", "mul", "mul_"})
QUOTIENTS = frozenset({"Div", "div", "div_"})
ORDERS = frozenset({"Lt", "LtE", "Gt", "GtE"})
NO_THRESHOLDS = (0, float("inf"), float("-inf"))


class GradientStatistics:
    """The statistics of gradients in a function, and whether it matters that these are scaled.

    What is asked of many nodes is kept: walks from each took time with the square of their number.
    """

    def __init__(self, inference: Inference, function: str) -> None:
        self._function = function
        self._state = inference.states[function]
        self._graph = self._state.graph
        self._callees = inference.calls.edges
        self._is_made_of_gradient: dict[int, bool] = {-1: False}

    @cached_property
    def numbers(self) -> frozenset[int]:
        """Their nodes. Ex) of p.grad.abs().max() and torch.sum(p.grad ** 2)"""
        return frozenset(
            number
            for number, node in enumerate(self._graph.nodes)
            if node.op == ops.CALL
            and last_name(self._graph, node.operands[0]) in REDUCTIONS
            and self._is_of_gradient(subject(self._state, node))
        )

    def depends_on_scale(self, number: int) -> bool:
        """Whether nothing that is the same for each scale is made of a node."""
        return number not in self._without_scale

    @cached_property
    def _without_scale(self) -> frozenset[int]:
        """The nodes of which something is made, here or later, that is the same for each scale."""
        nodes = self._graph.nodes
        tests = {block.node for block in self._graph.blocks if block.kind in SIDES}

        def operands(number: int) -> Iterator[int]:
            if not self._callees.get((self._function, number)):
                each = (n for n in nodes[number].operands if n >= 0)
                yield from (n for n in each if nodes[n].op != ops.COMPARE)

        ends = (n for n in range(len(nodes)) if self._loses_scale(n, tests))
        return frozenset(reachable(ends, operands))

    @cached_property
    def _made_of_statistics(self) -> frozenset[int]:
        return frozenset(reachable(self.numbers, lambda number: self._state.users[number]))

    def _loses_scale(self, number: int, tests: Container[int]) -> bool:
        """Whether something is made of a node that does not depend on its scale."""
        if self._graph.nodes[number].op == ops.COMPARE:
            return self._is_of_any_scale(number)
        return number in tests or any(
            self._is_without_scale(number, user) for user in self._state.users[number]
        )

    def _is_of_any_scale(self, comparison: int) -> bool:
        """Whether a comparison of a number has the same outcome when that is scaled."""
        node = self._graph.nodes[comparison]
        values = [constant(self._state.values[each]) for each in node.operands]
        return (
            not ORDERS.issuperset(node.data)
            or any(each in NO_THRESHOLDS for each in values)
            or any(map(self._is_of_gradient, node.operands))
        )

    def _is_without_scale(self, number: int, user: int) -> bool:
        """Whether what a node makes of another one has no scale, or is a gradient of the right
        size."""
        node = self._graph.nodes[user]
        others = [each for each in node.operands if each not in (number, -1)]
        operation = node.operator
        if node.op == ops.CALL:
            others.append(method_called(self._graph, node)[1])
            operation = last_name(self._graph, node.operands[0])
        return (
            node.op in (ops.BOOL, ops.ASSERT)
            or (node.op == ops.UNARY and node.data == "Not")
            or (node.op == ops.STORE and node.data == "grad")
            or (node.op == ops.CALL and ASKS_NO_VALUE.search(operation) is not None)
            or (operation not in PRODUCTS and any(map(self._is_of_gradient, others)))
            or (operation in QUOTIENTS and not self._made_of_statistics.isdisjoint(others))
        )

    def _is_of_gradient(self, number: int) -> bool:
        """Ex) p.grad, p.grad.abs(), p.grad ** 2, p.grad * p.grad"""
        answers, chain = self._is_made_of_gradient, list[int]()
        while number not in answers and not is_gradient(self._state, number):
            chain.append(number)
            number = self._same_elements(number)
        answer = answers.get(number, True)
        answers.update(dict.fromkeys(chain, answer))
        return answer

    def _same_elements(self, number: int) -> int:
        """The node whose elements a node makes larger or smaller, each by itself; -1 for others."""
        node = self._graph.nodes[number]
        if node.op == ops.CALL:
            is_meant = last_name(self._graph, node.operands[0]) in OF_EACH_ELEMENT
            return subject(self._state, node) if is_meant else -1
        is_power = node.op == ops.BINOP and (
            node.data == "Pow" or (node.data == "Mult" and is_gradient(self._state, node.second))
        )
        return node.operands[0] if is_power else -1
