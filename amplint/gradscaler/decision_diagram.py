"""Boolean functions of tests, as reduced ordered decision diagrams: equal functions are one node.

A node is a number; 0 and 1 are the constants. Tests come in the order of their numbers.
"""

from __future__ import annotations

FALSE, TRUE = 0, 1
Function = int


class DecisionDiagrams:
    """The table of all nodes, and the operations on them."""

    def __init__(self) -> None:
        self._nodes: list[tuple[int, Function, Function]] = [(-1, FALSE, FALSE), (-1, TRUE, TRUE)]
        self._numbers: dict[tuple[int, Function, Function], Function] = {}
        self._known: dict[tuple[Function, Function, Function], Function] = {}

    def literal(self, test: int, outcome: bool) -> Function:
        """That a test has this outcome."""
        return self._node(test, TRUE, FALSE) if outcome else self._node(test, FALSE, TRUE)

    def both(self, one: Function, other: Function) -> Function:
        return self._choose(one, other, FALSE)

    def either(self, one: Function, other: Function) -> Function:
        return self._choose(one, TRUE, other)

    def implies(self, one: Function, other: Function) -> bool:
        """Whether the other holds wherever the one does."""
        return self._choose(one, other, TRUE) == TRUE

    def _node(self, test: int, high: Function, low: Function) -> Function:
        if high == low:
            return high
        key = (test, high, low)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._nodes)
            self._nodes.append(key)
        return found

    def _choose(self, test: Function, high: Function, low: Function) -> Function:
        """`high` where `test` holds, else `low`."""
        if test == TRUE or high == low:
            return high
        if test == FALSE:
            return low
        if high == TRUE and low == FALSE:
            return test
        key = (test, high, low)
        found = self._known.get(key)
        if found is None:
            top = min(self._nodes[each][0] for each in key if each > TRUE)
            found = self._known[key] = self._node(
                top,
                self._choose(*(self._outcome(each, top, True) for each in key)),
                self._choose(*(self._outcome(each, top, False) for each in key)),
            )
        return found

    def _outcome(self, function: Function, test: int, outcome: bool) -> Function:
        """The function where a test that comes first has this outcome."""
        first, high, low = self._nodes[function]
        if first != test:
            return function
        return high if outcome else low
