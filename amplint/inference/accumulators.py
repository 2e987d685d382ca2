"""Names that a loop adds to: `total = 0.0; for p in parameters: total = total + p.norm()`.

Where what is added are tensors, the number that the name starts with is there only before the first
iteration, or if there is none. Joined to the tensor it would hide that `float(total)` reads the
device, so a loop that adds is taken to run.
"""

from __future__ import annotations

from collections.abc import Mapping

from amplint.ir import ops
from amplint.ir.model import Graph, Node

ADDING = frozenset({"Add", "Sub"})


def starts(graph: Graph) -> Mapping[int, int]:
    """The `phi` of each name that a loop adds to -> the number that it starts with."""
    return {
        number: node.operands[0]
        for number, node in enumerate(graph.nodes)
        if node.op == ops.PHI
        and len(node.operands) > 1
        and is_number(graph.nodes[node.operands[0]])
        and any(n > number and adds_to(graph, n, number) for n in node.operands[1:])
    }


def is_number(node: Node) -> bool:
    return node.op == ops.CONST and type(node.data) in (int, float)


def is_sum(node: Node) -> bool:
    return node.op in (ops.AUG, ops.BINOP) and node.data in ADDING


def adds_to(graph: Graph, number: int, phi: int) -> bool:
    """Whether a node is `phi + something`, at least on one path through the loop's body."""
    stack, seen = [number], {phi}
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        node = graph.nodes[current]
        if node.op == ops.PHI:
            stack.extend(node.operands)
        elif is_sum(node) and any(leads_to(graph, n, phi) for n in node.operands):
            return True
    return False


def leads_to(graph: Graph, number: int, phi: int) -> bool:
    """Whether a node is the `phi`, or a sum or a join that holds it."""
    stack, seen = [number], set[int]()
    while stack:
        current = stack.pop()
        if current == phi:
            return True
        node = graph.nodes[current]
        if current in seen or not (node.op == ops.PHI or is_sum(node)):
            continue
        seen.add(current)
        stack.extend(node.operands)
    return False
