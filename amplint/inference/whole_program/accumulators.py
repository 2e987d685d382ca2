"""Loops that are taken to run: what a name holds before them is not what it holds after them.

Names that a loop adds to: `total = 0.0; for p in parameters: total = total + p.norm()`. Where what
is added are tensors, the number that the name starts with is there only before the first iteration,
or if there is none. Joined to the tensor it would hide that `float(total)` reads the device.
"""

from __future__ import annotations

from collections.abc import Mapping

from amplint.ir import ops
from amplint.ir.model import Graph, Node
from amplint.util.walks import components

ADDING = frozenset({"Add", "Sub"})


def starts(graph: Graph) -> Mapping[int, int]:
    """The `phi` of each name that a loop adds to -> the number that it starts with.

    A loop adds to a name where its `phi` and a sum are made of each other, through joins and sums.
    """
    candidates = [
        number
        for number, node in enumerate(graph.nodes)
        if node.op == ops.PHI
        and len(node.operands) > 1
        and is_number(graph.nodes[node.operands[0]])
        and any(n > number for n in node.operands)  # the `phi` of a loop
    ]
    adding = {
        number
        for component in components(candidates, lambda number: added_or_joined(graph, number))
        if len(component) > 1 and any(is_sum(graph.nodes[each]) for each in component)
        for number in component
    }
    return {n: graph.nodes[n].operands[0] for n in candidates if n in adding}


def added_or_joined(graph: Graph, number: int) -> tuple[int, ...]:
    """The operands of a join or a sum; none, of other nodes."""
    node = graph.nodes[number]
    return node.operands if node.op == ops.PHI or is_sum(node) else ()


def is_number(node: Node) -> bool:
    return node.op == ops.CONST and type(node.data) in (int, float)


def is_sum(node: Node) -> bool:
    return node.op in (ops.AUG, ops.BINOP) and node.data in ADDING
