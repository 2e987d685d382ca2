"""Statistics of gradients: how large these are, times the scale where they are scaled.

What is made of one decides. The scale does not matter to a test whether it is 0 or finite, and two
that are divided by each other, or a gradient by its own mean, do not have it any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.gradscaler.events import NORMS, is_gradient, subject
from amplint.inference import Inference, State
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


def is_statistic(state: State, number: int) -> bool:
    """Ex) p.grad.abs().max(), torch.sum(p.grad ** 2)"""
    node = state.graph.nodes[number]
    is_reduction = node.op == ops.CALL and last_name(state.graph, node.operands[0]) in REDUCTIONS
    return is_reduction and is_made_of_gradient(state, subject(state, node))


def is_made_of_gradient(state: State, number: int) -> bool:
    """Ex) p.grad, p.grad.abs(), p.grad ** 2, p.grad * p.grad"""
    while number >= 0 and not is_gradient(state, number):
        node = state.graph.nodes[number]
        if node.op == ops.CALL and last_name(state.graph, node.operands[0]) in OF_EACH_ELEMENT:
            number = subject(state, node)
        elif node.op == ops.BINOP and (
            node.data == "Pow" or (node.data == "Mult" and is_gradient(state, node.second))
        ):
            number = node.operands[0]
        else:
            return False
    return number >= 0


def depends_on_scale(inference: Inference, function: str, statistic: int) -> bool:
    """Whether a function makes nothing of a statistic that is the same for each scale."""
    state = inference.states[function]

    def takers(number: int) -> Iterator[int]:
        if state.graph.nodes[number].op != ops.COMPARE:
            calls = inference.calls.edges
            yield from (user for user in state.users[number] if not calls.get((function, user)))

    return not any(loses_scale(state, each) for each in reachable([statistic], takers))


def loses_scale(state: State, number: int) -> bool:
    """Whether something is made of a node that does not depend on its scale."""
    if state.graph.nodes[number].op == ops.COMPARE:
        return is_of_any_scale(state, number)
    is_test = any(each.node == number and each.kind in SIDES for each in state.graph.blocks)
    return is_test or any(is_without_scale(state, number, user) for user in state.users[number])


def is_of_any_scale(state: State, comparison: int) -> bool:
    """Whether a comparison of a number has the same outcome when that is scaled."""
    node = state.graph.nodes[comparison]
    values = [constant(state.values[each]) for each in node.operands]
    return (
        not ORDERS.issuperset(node.data)
        or any(each in NO_THRESHOLDS for each in values)
        or any(is_made_of_gradient(state, each) for each in node.operands)
    )


def is_without_scale(state: State, number: int, user: int) -> bool:
    """Whether what a node makes of another one has no scale, or is a gradient of the right size."""
    graph, node = state.graph, state.graph.nodes[user]
    others = [each for each in node.operands if each not in (number, -1)]
    operation = node.operator
    if node.op == ops.CALL:
        others.append(method_called(graph, node)[1])
        operation = last_name(graph, node.operands[0])
    divided = others if operation in QUOTIENTS else ()
    return (
        node.op in (ops.BOOL, ops.ASSERT)
        or (node.op == ops.UNARY and node.data == "Not")
        or (node.op == ops.STORE and node.data == "grad")
        or (node.op == ops.CALL and ASKS_NO_VALUE.search(operation) is not None)
        or (operation not in PRODUCTS and any(is_made_of_gradient(state, n) for n in others))
        or any(
            is_statistic(state, n) for n in reachable(divided, lambda n: graph.nodes[n].operands)
        )
    )
