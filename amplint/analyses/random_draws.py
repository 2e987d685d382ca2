"""Tests of a number that is drawn at random: on which side of one the code runs rarely.

Rare is what happens in half of all cases or fewer, as under `step % 2 == 0`. A chance that is not
known (`random.random() < self.p`), or of a number in another range than from 0 to 1, is taken to be
small: that is what one is drawn for.
"""

from __future__ import annotations

from amplint.inference import State
from amplint.ir import ops
from amplint.ir.flow import elements, method_called
from amplint.ir.model import Node
from amplint.knowledge.libraries import DRAWN_FROM, RANGE_DRAWS, UNIT_DRAWS
from amplint.values.atoms import Symbol, constant
from amplint.values.lattice import known

MAX_DEPTH = 4  # of what is done to a draw: float(torch.rand(1)[0])
NUMBERS_OF = frozenset({"builtins.float", "builtins.int", "builtins.bool"})
RARE = 0.5
MIRRORED = {"Lt": "Gt", "LtE": "GtE", "Gt": "Lt", "GtE": "LtE"}


def rare_side(state: State, test: Node) -> str | None:
    """The side of a comparison with a draw on which the code runs rarely: "if", "else" or neither.

    Ex) random.random() < 0.002, torch.rand(1).item() > 0.99, random.randint(0, 99) == 0
    """
    left, right = test.operands[:2]
    operator = test.data[0] if len(test.operands) == 2 else ""
    draw, limit = draw_at(state, left), right
    if draw is None:
        draw, limit, operator = draw_at(state, right), left, MIRRORED.get(operator, operator)
    if draw is None:
        return None
    if operator in ("Eq", "NotEq"):
        return "if" if operator == "Eq" else "else"
    bound = constant(known(state.values[limit]))
    is_of_unit = all(is_of_one(state, each) for each in draw.positional)  # random(), rand(1)
    often = is_of_unit and isinstance(bound, int | float) and bound > RARE
    if operator in ("Lt", "LtE"):
        return "else" if often else "if"
    if operator in ("Gt", "GtE"):
        return "if" if often else "else"
    return None


def draw_at(state: State, number: int) -> Node | None:
    """The call that draws the one number that a node is; None if it is anything else."""
    nodes = state.graph.nodes
    for _ in range(MAX_DEPTH):
        node = nodes[state.graph.narrowed(number)]
        if node.op == ops.SUBSCRIPT:
            number = node.operands[0]
            continue
        if node.op != ops.CALL:
            return None
        method, receiver = method_called(state.graph, node)
        if draws_of(state, node):
            return node
        if method == "item":
            number = receiver
        elif node.argument(0) >= 0 and names(state, node) & NUMBERS_OF:
            number = node.argument(0)
        else:
            return None
    return None


def draws_of(state: State, call: Node) -> bool:
    """Whether a call draws one number. Ex) random.random(), rng.uniform(0, 1), torch.rand(1)"""
    symbols = {each.rpartition(".") for each in names(state, call)}
    if symbols:
        words = {word for module, _, word in symbols if module in DRAWN_FROM}
    else:
        words = {method_called(state.graph, call)[0]}
    if words & RANGE_DRAWS:
        return True
    return bool(words & UNIT_DRAWS) and all(is_of_one(state, each) for each in call.positional)


def is_of_one(state: State, number: int) -> bool:
    """Whether an argument asks for one number: 1, (1,), ()"""
    sizes = elements(state.graph, number)
    numbers = (number,) if sizes is None else sizes
    return all(constant(state.values[each]) == 1 for each in numbers)


def names(state: State, call: Node) -> set[str]:
    """The names of what a library has that a call may call."""
    callee = state.values[call.operands[0]]
    return {atom.name for atom in callee if isinstance(atom, Symbol)}
