"""Boolean functions of tests, as reduced ordered decision diagrams: equal functions are one node.

A node is a number; 0 and 1 are the constants. The last test comes first, so that it is cheap to add
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from amplint.util.walks import reachable

Condition = int
FALSE: Condition = 0
TRUE: Condition = 1
MOST = 200_000  # nodes


class DecisionDiagrams:
    """The table of all nodes, and the operations on them."""

    def __init__(self) -> None:
        self._nodes: list[tuple[int, Condition, Condition]] = [(-1, FALSE, FALSE), (-1, TRUE, TRUE)]
        self._numbers: dict[tuple[int, Condition, Condition], Condition] = {}
        self._chosen: dict[tuple[Condition, Condition, Condition], Condition] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def is_large(self) -> bool:
        """Whether there are more nodes than are worth the work."""
        return len(self) > MOST

    def literal(self, test: int, outcome: bool) -> Condition:
        """That a test has this outcome."""
        return self._node(test, TRUE, FALSE) if outcome else self._node(test, FALSE, TRUE)

    def both(self, one: Condition, other: Condition) -> Condition:
        return self._choose(one, other, FALSE)

    def either(self, one: Condition, other: Condition) -> Condition:
        return self._choose(one, TRUE, other)

    def any(self, conditions: Iterable[Condition]) -> Condition:
        found = FALSE
        for each in conditions:
            found = self.either(found, each)
        return found

    def all(self, conditions: Iterable[Condition]) -> Condition:
        found = TRUE
        for each in conditions:
            found = self.both(found, each)
        return found

    def implies(self, one: Condition, other: Condition) -> bool:
        """Whether the other holds wherever the one does."""
        return self._choose(one, other, TRUE) == TRUE

    def negation(self, condition: Condition) -> Condition:
        return self._choose(condition, FALSE, TRUE)

    def tests(self, condition: Condition) -> frozenset[int]:
        """The tests that a condition depends on."""
        return frozenset(self._nodes[each][0] for each in self._inner(condition))

    def _inner(self, condition: Condition) -> Iterator[Condition]:
        """The nodes of a condition."""
        return (
            each
            for each in reachable([condition], lambda each: self._nodes[each][1:])
            if each > TRUE
        )

    def where(self, condition: Condition, matters: Callable[[int], bool]) -> Condition:
        """The condition that it holds for some outcomes of the tests that do not matter."""
        inner = sorted(self._inner(condition))  # a node is made after those that it leads to
        forgotten = {test for test in {self._nodes[each][0] for each in inner} if not matters(test)}
        if not forgotten:
            return condition
        found = {FALSE: FALSE, TRUE: TRUE}
        for each in inner:
            test, high, low = self._nodes[each]
            if test in forgotten:
                found[each] = self.either(found[high], found[low])
            else:
                found[each] = self._choose(self.literal(test, True), found[high], found[low])
        return found[condition]

    def _node(self, test: int, high: Condition, low: Condition) -> Condition:
        if high == low:
            return high
        key = (test, high, low)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._nodes)
            self._nodes.append(key)
        return found

    def _choose(self, test: Condition, high: Condition, low: Condition) -> Condition:
        """`high` where `test` holds, else `low`."""
        if test == TRUE or high == low:
            return high
        if test == FALSE:
            return low
        if high == TRUE and low == FALSE:
            return test
        key = (test, high, low)
        found = self._chosen.get(key)
        if found is None:
            top = max(self._nodes[each][0] for each in key)
            found = self._chosen[key] = self._node(
                top,
                self._choose(*(self._where(each, top, True) for each in key)),
                self._choose(*(self._where(each, top, False) for each in key)),
            )
        return found

    def _where(self, condition: Condition, test: int, outcome: bool) -> Condition:
        """The condition where a test that comes first in it, or before it, has this outcome."""
        first, high, low = self._nodes[condition]
        if first != test:
            return condition
        return high if outcome else low
