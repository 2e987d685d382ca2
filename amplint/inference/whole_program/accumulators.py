"""Loops that are taken to run: what a name holds before them is not what it holds after them.

Names that a loop adds to: `total = 0.0; for p in parameters: total = total + p.norm()`. Where what
is added are tensors, the number that the name starts with is there only before the first iteration,
or if there is none. Joined to the tensor it would hide that `float(total)` reads the device.
"""

from __future__ import annotations

from collections.abc import Mapping

from amplint.ir.flow import SUMS, alternatives, is_carried, is_number
from amplint.ir.model import Graph
from amplint.util.walks import components


def starts(graph: Graph) -> Mapping[int, int]:
    """The `phi` of each name that a loop adds to -> the number that it starts with.

    A loop adds to a name where its `phi` and a sum are made of each other, through joins and sums.
    """
    candidates = [
        number
        for number, node in enumerate(graph.nodes)
        if is_carried(graph, number)
        and len(node.operands) > 1
        and is_number(graph, node.operands[0])
    ]
    adding = {
        number
        for component in components(candidates, lambda number: added_or_joined(graph, number))
        if len(component) > 1 and any(graph.nodes[each].operator in SUMS for each in component)
        for number in component
    }
    return {n: graph.nodes[n].operands[0] for n in candidates if n in adding}


def added_or_joined(graph: Graph, number: int) -> tuple[int, ...]:
    """The nodes that a node is one of, or the sum of; none of other nodes."""
    node = graph.nodes[number]
    return node.operands if node.operator in SUMS else alternatives(graph, number)
