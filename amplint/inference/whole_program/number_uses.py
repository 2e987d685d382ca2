"""The nodes of a function that are Python numbers, by what they are used for.

A width that a layer is made with, a length that a tensor is viewed in, what a `range` ends at:
nothing but a number is of use there. (A tensor of one element would do, and would leave the dtype
of another tensor as a number does.) So is what such a number is computed from: both factors of
`nn.Linear(heads * dim_head, dim)`. It is evidence by structure, never by the name of a variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amplint.ir import ops
from amplint.ir.flow import NAMED, elements
from amplint.ir.model import Graph, Node, path_of
from amplint.knowledge.modules import SIZES
from amplint.knowledge.operations import SHAPE_METHODS
from amplint.knowledge.vocabulary import CONFIGURATION
from amplint.util.walks import reachable

# What is computed by these is a number only if both operands are.
ARITHMETIC = frozenset({"Add", "Sub", "Mult", "FloorDiv", "Mod", "Pow", "Div"})
# What scales a tensor.
SCALING = frozenset({"Mult", "Div", "Pow"})
# What tests leave of a name, and is that still; `isinstance` separates what it may be.
STILL_THE_SAME = frozenset({"true", "not none"})

# Methods that have no function of the same name, in torch or in NumPy.
OF_TENSORS_ALONE = frozenset({"view", "expand"})


def used_as_numbers(graph: Graph, is_constructor: bool) -> frozenset[int]:
    """The nodes that are used as only numbers can be, and those that these are computed from.

    Args:
        is_constructor: whether it is the `__init__` of a class. What that divides without a rest,
            or raises to a negative power, are the sizes of what it builds.
    """
    numbers = [number for node in graph.nodes for number in sizes(graph, node)]
    if is_constructor:
        numbers += (n for node in graph.nodes if divides(graph, node) for n in node.operands)
    return frozenset(reachable(numbers, lambda number: computed_from(graph, number)))


def configured(graph: Graph) -> frozenset[int]:
    """The options of a program, or the settings of a model, that are computed with, or kept in a
    field that may be: they are no tensors, and texts and lists are not divided.

    Ex) config.scale of `scores * config.scale`, args.temperature of `self.temperature = ...`
    """
    settings = {
        number
        for node in graph.nodes
        if node.operator in SCALING or node.op == ops.STORE
        for number in node.operands
        if is_setting(graph, number)
    }
    holders = (n.operands[0] for n in graph.nodes if n.op in (ops.ATTR, ops.CALL, ops.SUBSCRIPT))
    return frozenset(settings.difference(holders))


def is_setting(graph: Graph, number: int) -> bool:
    """Ex) self.args.temperature, config["temperature"]"""
    node = graph.nodes[number]
    is_item = node.op == ops.SUBSCRIPT and graph.nodes[node.second].op == ops.CONST
    path = path_of(graph, node.operands[0]) if is_item or node.op == ops.ATTR else None
    return path is not None and any(map(CONFIGURATION.search, path.split(".")))


def sizes(graph: Graph, node: Node) -> Iterator[int]:
    """The operands of a call that can only be numbers."""
    if node.op != ops.CALL or node.data.stars:
        return
    callee = graph.nodes[node.operands[0]]
    name, arguments = callee.data, node.positional
    if is_shaping(graph, callee):
        yield from arguments if len(arguments) > 1 else elements_of(graph, arguments)
    elif callee.op == ops.NAME and name == "range":
        yield from arguments
    elif callee.op in NAMED:
        parameters = SIZES.get(name if isinstance(name, str) else name[1] or "", ())
        yield from arguments[: len(parameters)]
        yield from (number for keyword, number in node.named if keyword in parameters)


def is_shaping(graph: Graph, callee: Node) -> bool:
    """Ex) x.view, (q @ k).reshape; not torch.reshape, einops.repeat or self.backend.transpose,
    which are given the tensor itself"""
    if callee.op != ops.ATTR or callee.data not in SHAPE_METHODS:
        return False
    named = graph.nodes[callee.operands[0]].op in NAMED
    return not named or callee.data in OF_TENSORS_ALONE


def elements_of(graph: Graph, numbers: Iterable[int]) -> Iterator[int]:
    """Ex) b and n in x.view((b, n))"""
    return (each for number in numbers for each in elements(graph, number) or ())


def divides(graph: Graph, node: Node) -> bool:
    """Ex) dim // heads, dim_head ** -0.5; not %, which formats texts as well"""
    if node.op != ops.BINOP:
        return False
    if node.data == "Pow":
        power = graph.nodes[node.second]
        return (power.op, power.data) == (ops.UNARY, "USub")
    return bool(node.data == "FloorDiv")


def computed_from(graph: Graph, number: int) -> Iterator[int]:
    """The numbers that a number is computed from, or is one of."""
    node = graph.nodes[number]
    same = node.op == ops.NARROW and node.data in STILL_THE_SAME
    if (node.op == ops.BINOP and node.data in ARITHMETIC) or node.op in (ops.PHI, ops.BOOL):
        yield from node.operands
    elif node.op == ops.UNARY or same:
        yield node.operands[0]
