"""The state of one evaluated function, and the keys that functions read and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from amplint.core.values import Evidence, Place, Region, Shows, Value
from amplint.ir import ops
from amplint.ir.model import Graph

SiteId = tuple[str, int]  # a function's id and a node's number
Dispatch = tuple[int, str, str]  # where a name is looked up, in which parameter it comes, the name

KeyKind = Literal[
    "param", "return", "yield", "context", "region", "dispatch",  # of a function
    "name", "decorators",  # of a scope; of a definition
    "field", "bases",  # of a class
    "operator", "role",  # of an operator of `torch.library`; of a function that serves one
]  # fmt: skip


class Key(NamedTuple):
    """A value that functions write and read of each other.

    Args:
        owner: the id of the function or class, or the name of the operator.
        name: that of the parameter, the variable or the field, or the role.
    """

    kind: KeyKind
    owner: str
    name: str = ""


WHOLE = -1  # in the place of a node: all of a function
MAX_ROUNDS = 12  # evaluations of one function before its answers are taken as they are
NO_WHY = Evidence(
    Place("\U0010ffff", 0, 0, 0, 0), "", Shows.OPERATION
)  # after all reasons, in their order


@dataclass
class State:
    """The graph, values and regions of one evaluated function."""

    graph: Graph
    values: list[Value]
    rounds: int = 0
    regions: dict[int, Region | None] = field(default_factory=dict)
    passed_over: set[int] = field(default_factory=set)  # imports that nobody has asked for

    @cached_property
    def names(self) -> Mapping[int, str]:
        """By node: the name that it was bound to."""
        return {n: name for name, nodes in self.graph.bindings.items() for n in nodes}

    @cached_property
    def nests(self) -> bool:
        """Whether a scope stands in it, from which its names can be read."""
        return any(node.op in (ops.DEF, ops.CLASS, ops.LAMBDA) for node in self.graph.nodes)

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
