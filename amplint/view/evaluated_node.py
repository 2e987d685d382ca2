"""EvaluatedNodes: the nodes of the evaluated functions, as the conditions of rules ask about them.

Some nodes stand for what is no node of its own, under an operation of their own:

function: a function, method or lambda; its number is -1.
test: a value whose truth is asked for, by a statement, an expression or `and`, `or`, `not`.
context: what a `with` enters, or a decorator.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.analyses.hotness import Hotness
from amplint.facts.fact import Facts
from amplint.inference import State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.model import FunctionFacts, Graph, Location, Node
from amplint.values.atoms import (
    UNKNOWN,
    Host,
    Method,
    Object,
    Region,
    Symbol,
    Tensor,
    TensorTree,
    Value,
)

NOTHING = Node(ops.OPAQUE, (), None, -1, (0, 0, 0, 0))  # of a function, and of what is in no graph


class KnownProject:
    """The facts about a project that its nodes are asked for.

    Args:
        facts: of the project. Others, which note what they are asked, may take their place.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._every = facts
        self._temperatures: dict[tuple[str, int], str | None] = {}

    def temperature(self, function: str, block: int) -> str | None:
        """How often a block of a function runs: many of its nodes are asked about."""
        key = function, block
        if key not in self._temperatures:
            self._temperatures[key] = self._every[Hotness].temperature(function, block)
        return self._temperatures[key]


class EvaluatedNode:
    """A node of an evaluated function, as a condition asks about it.

    Args:
        project: what is known of the project.
        function: the id of the function.
        state: what is known of the function.
        number: of the node in its graph.
        block: where it is evaluated.
        location: where it is written: the node may have been made elsewhere.
    """

    __slots__ = ("block", "function", "location", "number", "project", "state")

    def __init__(
        self,
        project: KnownProject,
        function: str,
        state: State,
        number: int,
        block: int,
        location: Location,
    ) -> None:
        self.project = project
        self.function = function
        self.state = state
        self.number = number
        self.block = block
        self.location = location

    @property
    def node(self) -> Node:
        return self.state.graph.nodes[self.number] if self.number >= 0 else NOTHING

    @property
    def facts(self) -> FunctionFacts:
        """The facts of its function."""
        return self.project.facts.inference.functions[self.function]

    @property
    def names(self) -> Iterator[str]:
        """Of a call: the names of what is called: "torch.zeros", "Tensor.item", "torch.nn.Linear",
        ".item"; and "torch.FloatTensor" of a string that names it."""
        return names_of_callee(self.state.graph.nodes[self.node.operands[0]], self.callees)

    @property
    def callees(self) -> Value:
        """Of a call: what may be called."""
        return self.state.values[self.node.operands[0]] or UNKNOWN

    @property
    def enabled_region(self) -> Region | None:
        """The autocast region around it, unless it is certainly off."""
        region = self.state.regions.get(self.block)
        return region if region is not None and region.enabled is not False else None


def names_of_callee(callee: Node, value: Value) -> Iterator[str]:
    """The names of what is called, as `EvaluatedNode.names` has them."""
    if callee.op == ops.ATTR:
        yield f".{callee.data}"
    for atom in value:
        if isinstance(atom, Symbol):
            yield canonical(atom.name)
        elif isinstance(atom, Object):
            yield atom.type
        elif isinstance(atom, Host) and isinstance(atom.const, str):
            yield atom.const
        elif isinstance(atom, Method):
            yield f".{atom.name}"
            if isinstance(atom.of, Tensor | TensorTree):
                yield f"Tensor.{atom.name}"


def symbols(value: Value) -> Iterator[str]:
    """The dotted names of the library objects that a value may be."""
    return (canonical(atom.name) for atom in value if isinstance(atom, Symbol))


def symbol(value: Value) -> str | None:
    """The dotted name of the library object that a value certainly is."""
    if len(value) != 1:
        return None
    (atom,) = value
    return canonical(atom.name) if isinstance(atom, Symbol) else None


def tests(graph: Graph) -> Iterator[tuple[int, int, Location]]:
    """The nodes whose truth is asked for: in which block, and where."""
    for number, block in enumerate(graph.blocks):
        if block.kind in ("if", "else", "after", "handler") and block.node >= 0:
            yield block.node, block.parent, block.location
        elif block.kind == "while":
            yield block.node, number, block.location
    for node in graph.nodes:
        if node.op == ops.ASSERT or (node.op == ops.UNARY and node.data == "Not"):
            yield node.operands[0], node.block, node.location


def contexts(graph: Graph) -> Iterator[tuple[int, int, Location]]:
    """The contexts of `with` statements, and decorators: in which block, and where."""
    yield from entered(graph)
    for node in graph.nodes:
        if node.op == ops.DEF:
            for decorator in node.operands:
                yield decorator, node.block, node.location


def entered(graph: Graph) -> Iterator[tuple[int, int, Location]]:
    """The contexts that are entered, each once: by `with` statements, and by calls, whose context
    may have several blocks."""
    blocks = (block for block in graph.blocks if block.kind == "with")
    places = {(block.node, block.location): block.parent for block in blocks}
    yield from ((node, parent, place) for (node, place), parent in places.items())
