"""The nodes that are to be evaluated, by function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from amplint.inference.key_slots import KeySlot
from amplint.inference.state import MAX_ROUNDS, WHOLE, SiteId, State
from amplint.values.atoms import Value


class Turn(ABC):
    """The evaluation of some nodes from nothing, while all else stays as it is: it is asked first
    about each node that has to be evaluated, and hears of each key that changes."""

    @abstractmethod
    def takes(self, function: str, node: int) -> bool:
        """Whether the turn sees to a node that is to be evaluated: now, or when it is done."""

    @abstractmethod
    def changed(self, slot: KeySlot, before: Value | None) -> None:
        """Note that a key has another value."""

    @abstractmethod
    def part_changed(self, slot: KeySlot) -> None:
        """Note that a key is the join of other parts."""


class Queue:
    """The nodes that are to be evaluated.

    Args:
        states: of the functions that were evaluated.
        failures: the functions that are evaluated no more.

    Attributes:
        turn: the component that is evaluated now.
    """

    def __init__(self, states: Mapping[str, State], failures: Container[str]) -> None:
        self._states = states
        self._failures = failures
        self._waiting: dict[str, set[int]] = {}  # by function
        self._late: dict[str, set[int]] = {}  # the same, once components are dealt with
        self.turn: Turn | None = None

    def later(self, function: str, node: int = WHOLE) -> None:
        """Have a node evaluated, in its turn."""
        if self.turn is not None and self.turn.takes(function, node):
            return
        state = self._states.get(function)
        if function not in self._failures:
            late = state is not None and state.rounds >= MAX_ROUNDS
            queue = self._late if late else self._waiting
            queue.setdefault(function, set()).add(node)

    def leave(self, function: str, nodes: Iterable[int]) -> None:
        """Have nodes evaluated when components are known."""
        self._late.setdefault(function, set()).update(nodes)

    def tell(self, readers: Collection[SiteId]) -> None:
        """Have those evaluated who read something that has changed."""
        for function, node in sorted(readers):
            self.later(function, node)

    def drain(self) -> Iterator[tuple[str, set[int]]]:
        """Take functions from the queue, with the nodes that are to be evaluated."""
        while self._waiting:
            function = self._next()
            yield function, self._waiting.pop(function)

    def _next(self) -> str:
        """The function to be evaluated next: any will do."""
        return next(iter(self._waiting))

    def has_any(self) -> bool:
        return bool(self._waiting or self._late)

    def take_late(self) -> None:
        """Queue what was left for later, because the function was evaluated too often."""
        for state in self._states.values():
            state.rounds = 0
        late, self._late = self._late, {}
        for function, nodes in late.items():
            for node in nodes:
                self.later(function, node)

    def discard(self, function: str) -> None:
        """Leave out a function that is evaluated as a whole anyway."""
        self._waiting.pop(function, None)
