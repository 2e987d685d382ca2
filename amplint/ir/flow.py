"""The questions about a value graph that many modules ask, each once.

What is asked of one node looks at it and its operands. What is asked of the nodes behind it visits
each of them once (`amplint.util.walks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import UnionType

from amplint.ir import ops
from amplint.ir.model import Graph, Node, path_of
from amplint.util.walks import reachable

# ------------------------------------------------------------------------------ kinds of operations

DISPLAYS = frozenset({ops.LIST, ops.TUPLE, ops.SET})  # their elements are written out
# These put their operands together, to be taken out again.
COLLECTIONS = DISPLAYS | {ops.DICT, ops.COMP, ops.DICTCOMP, ops.STARRED}
ELEMENTS = frozenset({ops.ITER, ops.UNPACK, ops.SUBSCRIPT})  # and these take one out
HOLDS = frozenset({ops.STORE, ops.PUT, ops.ADD})  # these put something into an object
NAMED = frozenset({ops.ATTR, ops.NAME, ops.IMPORT})  # read by name, and bound elsewhere
FROM_OUTSIDE = NAMED | {ops.CONST, ops.PARAM}  # what no iteration of a loop makes anew
OPERATORS = frozenset({ops.BINOP, ops.AUG, ops.UNARY, ops.COMPARE})
TESTS = frozenset({ops.BOOL, ops.COMPARE, ops.UNARY})  # what a test is made of
# These look at a value, and keep nothing of it.
LOOKS = TESTS | {ops.ASSERT, ops.FSTRING, ops.ANNOTATION}
# The value of such a node is that of an operand: where paths meet, and behind a test.
JOINS = frozenset({ops.PHI, ops.NARROW})
# A part of a value: an item of it, what is unpacked from it, what a test has left of it.
PARTS = frozenset({ops.NARROW, ops.SUBSCRIPT, ops.UNPACK})
# The value of such a node depends on its operands alone.
COMPUTED = OPERATORS | TESTS | PARTS | DISPLAYS | {ops.DICT, ops.SLICE, ops.STARRED, ops.FSTRING}
EXITS = frozenset({ops.BREAK, ops.CONTINUE, ops.RETURN})
SUMS = frozenset({"Add", "Sub"})  # as `Node.operator` has them
SCOPES = frozenset({ops.DEF, ops.CLASS, ops.LAMBDA})

# ------------------------------------------------------------------------------ the same value


def alternatives(graph: Graph, number: int) -> tuple[int, ...]:
    """The nodes that a node is one of, whatever tests have left of it; none of what is no join."""
    node = graph.nodes[number]
    if node.op == ops.NARROW:
        return node.operands[:1]
    return node.operands if node.op == ops.PHI else ()


def origins(graph: Graph, number: int) -> list[int]:
    """The nodes that have made the value of a node, through joins and tests."""
    sources = reachable([number], partial(alternatives, graph))
    return [each for each in sources if graph.nodes[each].op not in JOINS]


def is_carried(graph: Graph, number: int) -> bool:
    """Whether a loop goes on to give a name another value."""
    node = graph.nodes[number]
    return node.op == ops.PHI and any(operand > number for operand in node.operands)


def whole(graph: Graph, number: int) -> int:
    """The node of what a value is a part of; itself, if it is none. Ex) a, of a[0][1]"""
    return graph.behind(number, PARTS)


# ------------------------------------------------------------------------------ what is written


def constant(graph: Graph, number: int) -> object:
    """The constant that is written there; None for None, for anything else, and for no node."""
    node = graph.nodes[number]
    return node.data if number >= 0 and node.op == ops.CONST else None


def is_none(graph: Graph, number: int) -> bool:
    """Whether None is written there."""
    node = graph.nodes[number]
    return node.op == ops.CONST and node.data is None


def is_number(graph: Graph, number: int, kind: type | UnionType = int | float) -> bool:
    """Whether a number is written there, be it with a sign. Ex) 1, -0.5"""
    node = graph.nodes[number]
    return isinstance(constant(graph, node.operands[0] if node.op == ops.UNARY else number), kind)


def last_name(graph: Graph, number: int) -> str:
    """The last identifier of what is read there; "" of anything else.

    Ex) verbose, of self.args.verbose
    """
    node = graph.nodes[graph.narrowed(number)]
    is_named = node.op in (ops.ATTR, ops.PARAM, ops.NAME, ops.PHI)
    return str(node.data) if is_named and node.data else ""


def elements(graph: Graph, number: int) -> tuple[int, ...] | None:
    """The elements of a list, a tuple or a set that is written out; None of anything else."""
    node = graph.nodes[number]
    return node.operands if node.op in DISPLAYS else None


# ------------------------------------------------------------------------------ calls


def method_called(graph: Graph, node: Node) -> tuple[str, int]:
    """The name of the method that a node calls, and the node of what it is called on; "" and -1
    where it calls none. Ex) "mean" and loss, of loss.mean()"""
    callee = graph.nodes[node.operands[0]] if node.op == ops.CALL else node
    is_method = callee is not node and callee.op == ops.ATTR
    return (callee.data, callee.operands[0]) if is_method else ("", -1)


# ------------------------------------------------------------------------------ tests


def terms(graph: Graph, test: int) -> list[int]:
    """The nodes that a test asks about, and the constants in it.

    Ex) args.fp16, n and 2, of `args.fp16 and n > 2`
    """

    def parts(number: int) -> Iterable[int]:
        node = graph.nodes[number]
        return node.operands if node.op in TESTS else alternatives(graph, number)

    parted = TESTS | JOINS
    return [each for each in reachable([test], parts) if graph.nodes[each].op not in parted]


def names_in_test(graph: Graph, test: int) -> Iterator[str]:
    """Ex) args.fp16 and n, of `args.fp16 and n > 2`"""
    paths = (path_of(graph, each) for each in terms(graph, test))
    return (path for path in paths if path is not None)
