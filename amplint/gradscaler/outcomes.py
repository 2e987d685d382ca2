"""The outcomes of tests, as far as they are decided, with what follows from each.

The same test has one outcome: `if scaler is not None` as well as `if (i + 1) % n == 0`, the latter
within one iteration.
"""

from __future__ import annotations

from collections.abc import Iterable

from amplint.gradscaler.symbolic_values import Symbolic, SymbolicValues, operands_of
from amplint.ir import ops
from amplint.util.walks import reachable

Decision = tuple[Symbolic, bool]  # a test and its outcome
OPPOSITES = {"NotEq": "Eq", "IsNot": "Is", "NotIn": "In"}


class Outcomes:
    """Decides tests by those that are decided already.

    Attributes:
        decided: by test, its outcome.
        is_possible: whether no two decisions contradict each other.
    """

    def __init__(self, symbols: SymbolicValues, decisions: Iterable[Decision] = ()) -> None:
        self._symbols = symbols
        self.decided: dict[Symbolic, bool] = {}
        self.is_possible = True
        for decision in decisions:
            self.decide(*decision)

    def decide(self, test: Symbolic, outcome: bool) -> None:
        """Note the outcome of a test, and of its parts where it follows from that."""
        waiting = [(test, outcome)]
        while waiting:
            test, outcome = waiting.pop()
            if test in self.decided:
                self.is_possible = self.is_possible and self.decided[test] is outcome
                continue
            self.decided[test] = outcome
            term = self._symbols[test]
            if term[:3] == ("op", ops.UNARY, "Not"):
                waiting.append((term[3], not outcome))
            elif term[:2] == ("op", ops.BOOL):
                if outcome is not (term[2] == "Or"):
                    waiting += [(part, outcome) for part in term[3:]]
            elif term[0] == "choice":
                # It is one of those values that have this outcome.
                alternatives = [
                    guards
                    for guards, value in zip(term[4], operands_of(term), strict=True)
                    if self.of(value) is not (not outcome)
                ]
                waiting += frozenset.intersection(*alternatives) if alternatives else ()
            else:
                atom, negated = self.atom(test)
                waiting.append((atom, outcome is not negated))

    def forget(self, count: int) -> None:
        """Forget all but the first decisions."""
        while len(self.decided) > count:
            self.decided.popitem()

    def allow(self, decisions: Iterable[Decision]) -> bool:
        """Whether tests may have these outcomes."""
        return all(self.of(test) is not (not outcome) for test, outcome in decisions)

    def of(self, test: Symbolic) -> bool | None:
        """The outcome of a test; None if it may have either."""
        by_test: dict[Symbolic, bool | None] = {}
        for each in sorted(reachable([test], self._dependencies)):  # a term comes after its parts
            by_test[each] = self._outcome(each, by_test)
        return by_test[test]

    def parts(self, test: Symbolic) -> tuple[Symbolic, ...]:
        """The tests that a test is made of."""
        term = self._symbols[test]
        return term[3:] if term[:2] in (("op", ops.BOOL), ("op", ops.UNARY)) else ()

    def atoms(self, tests: Iterable[Symbolic]) -> frozenset[Symbolic]:
        """The tests that some tests are made of, and that are made of no others."""
        parts = reachable(tests, self.parts)
        return frozenset(self.atom(each)[0] for each in parts if not self.parts(each))

    def _dependencies(self, test: Symbolic) -> tuple[Symbolic, ...]:
        """The tests on which the outcome of a test depends."""
        term = self._symbols[test]
        if term[0] == "choice":
            return (*operands_of(term), *(each for guards in term[4] for each, _ in guards))
        atom, _ = self.atom(test)
        return (atom,) if atom < test else self.parts(test)

    def _outcome(self, test: Symbolic, by_test: dict[Symbolic, bool | None]) -> bool | None:
        """The outcome of a test by those that it depends on; None if it may have either.

        Args:
            by_test: the outcomes of the tests that it depends on.
        """
        symbols, term = self._symbols, self._symbols[test]
        if term[0] == "choice":
            values = {
                by_test[value]
                for guards, value in zip(term[4], operands_of(term), strict=True)
                if all(by_test[each] is not (not outcome) for each, outcome in guards)
            }
            if len(values) == 1 and None not in values:
                return values.pop()
        if test in self.decided:
            return self.decided[test]
        if term[:3] == ("op", ops.UNARY, "Not"):
            part = by_test[term[3]]
            return None if part is None else not part
        if term[:2] == ("op", ops.BOOL):
            stops = term[2] == "Or"
            outcomes = {by_test[each] for each in term[3:]}
            return stops if stops in outcomes else None if None in outcomes else not stops
        atom, negated = self.atom(test)
        truth = by_test[atom] if atom < test else self.decided.get(atom, symbols.truth(atom))
        return None if truth is None else truth is not negated

    def atom(self, test: Symbolic) -> tuple[Symbolic, bool]:
        """The test that a comparison amounts to, and whether it is the opposite of that."""
        symbols, term = self._symbols, self._symbols[test]
        if term[:3] == ("op", ops.BINOP, "Mod"):
            return symbols.of("op", ops.COMPARE, ("Eq",), test, symbols.constant(0)), True
        if term[:2] != ("op", ops.COMPARE) or len(term) != 5 or len(term[2]) != 1:
            return test, False
        (operator,), left, right = term[2], term[3], term[4]
        negated = operator in OPPOSITES
        operator = OPPOSITES.get(operator, operator)
        one, other = symbols[left], symbols[right]
        if operator in ("Is", "Eq") and other[0] == "const":
            if one[0] == "const":
                return symbols.constant(one[2] == other[2]), negated
            if other[2] is None:
                return left, not negated  # `x is None`: what is there, is true
            if isinstance(other[2], bool):
                return left, negated is other[2]
        return symbols.of("op", ops.COMPARE, (operator,), left, right), negated
