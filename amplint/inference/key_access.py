"""The access of an evaluation with other functions: what it reads, and what it writes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from amplint.inference.call_graph import CallGraph
from amplint.inference.state import Dispatch, Key, SiteId
from amplint.values.atoms import Region, Value


class KeyAccess(Protocol):
    """The access of values between functions.

    In the fixpoint it is the `Store`. Where a node is evaluated once more to explain its value,
    nothing may change by that: see `explanation.Onlooker`.

    Attributes:
        calls: the functions that each call may run.
        outside: whether the function that is evaluated is one of another part of the project.
    """

    calls: CallGraph
    outside: bool

    def begin(self, site: SiteId) -> None:
        """Note that a node of the function is evaluated next."""

    def end(self, site: SiteId) -> None:
        """Note that the site was evaluated: what it has read or written before, and has not now,
        has nothing to do with it any more."""

    def read(self, key: Key) -> Value:
        """The value of a key; what is evaluated now is so again when it changes."""

    def read_without(self, key: Key, sites: Container[SiteId]) -> Value:
        """The value of a key without what some sites contribute."""

    def sites_of(self, key: Key) -> Mapping[SiteId, Value]:
        """The contributions to a key, by their writers."""

    def given_strings(self, function: str, parameter: str) -> list[str]:
        """The constant strings among what single calls give for a parameter."""

    def dispatches(self, function: str) -> Mapping[Dispatch, frozenset[str]]:
        """The methods that a function finds by the name in a parameter, for each name given."""

    def inherited_region(self, function: str) -> Region | None:
        """The region that some known caller opens around its call; None where all are outside."""

    def is_demanded(self, key: Key) -> bool:
        """Whether anybody has read a key."""

    def write(self, key: Key, site: SiteId, value: Value) -> None:
        """Contribute the part of one site to a key."""

    def write_region(self, function: str, site: SiteId, region: Region | None) -> None:
        """Note that a call of a function stands in a region, or in none."""

    def write_dispatch(self, function: str, case: Dispatch, methods: frozenset[str]) -> None:
        """Note which methods a name means that a function is given."""

    def write_bases(self, cls: str, bases: tuple[Value, ...]) -> None:
        """Note what a class derives from."""

    def regions_may_change(self) -> None:
        """Have the regions that functions inherit solved again."""

    def need(self, function: str) -> None:
        """Have a function evaluated, if it was not."""

    def later(self, function: str, node: int) -> None:
        """Have a node evaluated, in its turn."""

    def leave(self, function: str, nodes: Iterable[int]) -> None:
        """Have nodes evaluated when components are known."""
