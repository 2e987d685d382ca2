"""Loops that are taken to run: what a name holds before them is not what it holds after them.

Names that a loop adds to: `total = 0.0; for p in parameters: total = total + p.norm()`. Where what
is added are tensors, the number that the name starts with is there only before the first iteration,
or if there is none. Joined to the tensor it would hide that `float(total)` reads the device.

Names that a loop hands through what it draws: `for layer in self.layers: x = layer(x)`. What it
starts with would hide what the layers give.
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


def entries(graph: Graph) -> Mapping[int, int]:
    """The `phi` behind each loop that hands a name through what it draws -> that of the loop.

    A loop does so where the name and a call of what is drawn are made of each other.
    """
    nodes = graph.nodes
    ends = {
        number: max(node.operands)
        for number, node in enumerate(nodes)
        if node.op == ops.PHI and any(each > number for each in node.operands)
    }
    if not ends:
        return {}
    drawn = drawn_in(graph)
    handed = {
        number
        for component in components(ends, lambda number: nodes[number].operands)
        if any(nodes[n].op == ops.CALL and nodes[n].operands[0] in drawn for n in component)
        for number in component
    }
    return {
        number: each
        for number, node in enumerate(nodes)
        if node.op == ops.PHI
        for each in node.operands
        if each in handed and number > ends.get(each, number)
    }


def drawn_in(graph: Graph) -> set[int]:
    """The nodes that are drawn by loops, or found by what these draw: layers[i], layer.forward."""
    drawn: set[int] = set()
    for number, node in enumerate(graph.nodes):
        part = node.op in (ops.UNPACK, ops.NARROW, ops.ATTR) and node.operands[0] in drawn
        indexed = node.op == ops.SUBSCRIPT and not drawn.isdisjoint(node.operands)
        if node.op == ops.ITER or part or indexed:
            drawn.add(number)
    return drawn


def added_or_joined(graph: Graph, number: int) -> tuple[int, ...]:
    """The operands of a join or a sum; none, of other nodes."""
    node = graph.nodes[number]
    return node.operands if node.op == ops.PHI or is_sum(node) else ()


def is_number(node: Node) -> bool:
    return node.op == ops.CONST and type(node.data) in (int, float)


def is_sum(node: Node) -> bool:
    return node.op in (ops.AUG, ops.BINOP) and node.data in ADDING
