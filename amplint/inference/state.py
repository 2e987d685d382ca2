"""The state of one evaluated function, and the keys that functions read and write."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from amplint.ir import ops
from amplint.ir.flow import SCOPES
from amplint.ir.model import Graph
from amplint.values.atoms import Region, Value

SiteId = tuple[str, int]  # a function's id and a node's number
Sites = tuple[SiteId, ...]  # nodes, in order
Dispatch = tuple[int, str, str]  # where a name is looked up, in which parameter it comes, the name

KeyKind = Literal[
    "param", "return", "yield", "context", "region", "dispatch",  # of a function
    "default",  # of a parameter, where it is no constant
    "name", "decorators",  # of a scope; of a definition
    "field", "kept", "bases",  # of a class; `kept`: the parameter that a field holds
    "option",  # of the command line
    "precision",  # of a framework
    "runner",  # of the `forward` of a module: the framework that is given it
    "trainer",  # of a function that a framework runs: the precision of who is given its module
    "hook",  # of a function that is registered as one
]  # fmt: skip


class Key(NamedTuple):
    """A value that functions write and read of each other.

    Args:
        owner: the id of the function or class.
        name: that of the parameter, the variable or the field.
    """

    kind: KeyKind
    owner: str
    name: str = ""


WHOLE = -1  # in the place of a node: all of a function
GLOBALS = -2  # what it binds of its module's names
MAX_TURNS = 40  # of the functions in a component, before its values may only grow
MAX_ROUNDS = 12  # evaluations of one function before the rest waits until components are known


@dataclass
class State:
    """The graph, values and regions of one evaluated function.

    `local`: it is a function, whose names nobody reads but the scopes in it.
    """

    graph: Graph
    values: list[Value]
    local: bool = False
    rounds: int = 0
    regions: dict[int, Region | None] = field(default_factory=dict)  # by block, as they are asked
    around: Region | None = None  # the region that is inherited, or that decorators open
    passed_over: set[int] = field(default_factory=set)  # imports that nobody has asked for

    @cached_property
    def names(self) -> Mapping[int, str]:
        """By node: the name that it was bound to."""
        return {n: name for name, nodes in self.graph.bindings.items() for n in nodes}

    @cached_property
    def published(self) -> Mapping[str, Sequence[int]]:
        """By name that scopes within it may read: the nodes that are bound to it."""
        if self.local and not self.nests:
            return {}
        return {name: nodes for name, nodes in self.graph.bindings.items() if name != "*"}

    @cached_property
    def nests(self) -> bool:
        """Whether a scope stands in it, from which its names can be read."""
        return any(node.op in SCOPES for node in self.graph.nodes)

    @cached_property
    def dependents(self) -> Sequence[Sequence[int]]:
        """By node: those that are evaluated again when its value changes.

        They are its users, and those that look behind an operand: a call at the object whose method
        it calls, or at the start of a text that it is given; a subscript at what its tuple holds.
        """
        further: dict[int, list[int]] = {}
        for number, node in enumerate(self.graph.nodes):
            if node.op in (ops.CALL, ops.SUBSCRIPT):
                for operand in node.operands:
                    behind = self.graph.nodes[operand] if operand >= 0 else None
                    if behind is not None and behind.op in (ops.ATTR, ops.TUPLE, ops.BINOP):
                        for each in behind.operands:
                            further.setdefault(each, []).append(number)
        dependents = list(self.users)
        for number, more in further.items():
            dependents[number] = (*dependents[number], *more)
        return dependents

    @cached_property
    def contexts(self) -> Mapping[int, Collection[int]]:
        """By node of a `with` statement's context: the nodes in its block, and in those within."""
        blocks = self.graph.blocks
        if not any(block.kind == "with" and block.node >= 0 for block in blocks):
            return {}
        around: list[tuple[int, ...]] = []  # by block: the contexts, the innermost first
        for block in blocks:
            outer = around[block.parent] if block.parent >= 0 else ()
            opens = block.kind == "with" and block.node >= 0
            around.append((block.node, *outer) if opens else outer)
        inside: dict[int, list[int]] = {}
        for number, node in enumerate(self.graph.nodes):
            for context in around[node.block] if node.block >= 0 else ():
                inside.setdefault(context, []).append(number)
        return inside

    @cached_property
    def users(self) -> Sequence[Sequence[int]]:
        """By node: those that are computed from it, themselves alone."""
        users: dict[int, list[int]] = {}
        for number, node in enumerate(self.graph.nodes):
            for operand in node.operands:
                if operand >= 0:
                    users.setdefault(operand, []).append(number)
        # Tuples stay: many nodes have no user, and most others one.
        return [tuple(users.get(number, ())) for number in range(len(self.graph.nodes))]
