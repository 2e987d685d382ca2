"""What is known of one evaluated function, and what is read and written across functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from amplint.facts import Graph
from amplint.values import Place, Region, Value, Why

Key = tuple[str, ...]
SiteId = tuple[str, int]  # a function's id and a node's number
Dispatch = tuple[int, str, str]  # where a name is looked up, in which parameter it comes, the name

MAX_ROUNDS = 12  # evaluations of one function before its answers are taken as they are
NO_WHY = Why(Place("\U0010ffff", 0, 0, 0, 0), "")  # after all reasons, in their order


@dataclass
class State:
    """What is known of one evaluated function."""

    graph: Graph
    values: list[Value]
    rounds: int = 0
    regions: dict[int, Region | None] = field(default_factory=dict)
