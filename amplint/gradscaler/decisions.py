"""Tests on a path: their possible outcomes, and what follows from each.

The same test is decided the same way again on one path, `if scaler is not None` as well as
`if (i + 1) % n == 0`, the latter within one iteration.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.gradscaler.decision_diagram import FALSE, TRUE, Condition, DecisionDiagrams
from amplint.gradscaler.paths import Activation, Decision, Knowledge, PathState, PathStep, PathSteps
from amplint.gradscaler.symbolic_values import Symbolic, SymbolicValues
from amplint.inference import SiteId
from amplint.ir import ops

OPPOSITES = {"NotEq": "Eq", "IsNot": "Is", "NotIn": "In"}


class Decisions:
    """Decides tests on paths.

    Attributes:
        places: by symbolic value, the tests (their places) whose outcome depends on it.
    """

    def __init__(
        self, symbols: SymbolicValues, diagrams: DecisionDiagrams, knowledge: Knowledge
    ) -> None:
        self.symbols = symbols
        self.diagrams = diagrams
        self.knowledge = knowledge
        self.places: dict[Symbolic, set[SiteId]] = {}

    def outcomes(
        self, frame: Activation, path: PathState, test: Symbolic, number: int, steps: PathSteps
    ) -> Iterator[tuple[PathState, bool, frozenset[Decision]]]:
        """The paths into which a test splits one, each with the outcome, and with those of the
        tests that it is made of."""
        condition = self._condition(test, {})
        before = (
            self.diagrams.tests(path.condition) if self._is_made_of_tests(test) else frozenset()
        )
        for atom in self.diagrams.tests(condition):
            self.places.setdefault(atom, set()).add((frame.function, number))
            self.knowledge.ask(atom, frame.time)
        for outcome in (True, False):
            needed = condition if outcome else self.diagrams.negation(condition)
            both = self.diagrams.both(path.condition, needed)
            if both == FALSE:
                continue
            asked = self._asked(test, outcome, {})
            if len(asked) > 1 and not before.isdisjoint(each for each, _ in asked):
                asked = frozenset(
                    each
                    for each in asked
                    if self.diagrams.both(both, self.diagrams.literal(*each)) != FALSE
                )
            if both == path.condition:
                yield path, outcome, asked
            else:
                split = path.copy()
                split.condition = both
                split.step = steps.add(PathStep((path.step,), decision=needed))
                yield split, outcome, asked

    def _asked(
        self, test: Symbolic, outcome: bool, known: dict[Decision, frozenset[Decision]]
    ) -> frozenset[Decision]:
        """The outcomes of the tests that are asked for one after the other until a test has this
        outcome, in all ways to get there."""
        if (test, outcome) not in known:
            known[test, outcome] = self._find_asked(test, outcome, known)
        return known[test, outcome]

    def _find_asked(
        self, test: Symbolic, outcome: bool, known: dict[Decision, frozenset[Decision]]
    ) -> frozenset[Decision]:
        term = self.symbols[test]
        if term[:3] == ("op", ops.UNARY, "Not"):
            return self._asked(term[3], not outcome, known)
        if term[:2] == ("op", ops.BOOL):
            stops = term[2] == "Or"
            asked = [self._asked(part, outcome, known) for part in term[3:]]
            if outcome is stops:  # the last one that is asked has it, those before it have not
                asked += [self._asked(part, not stops, known) for part in term[3:-1]]
            return frozenset[Decision]().union(*asked)
        atom, negated = self._atom(test)
        if self.symbols[atom][0] == "const":
            return frozenset()
        return frozenset({(atom, outcome is not negated)})

    def assume(
        self, frame: Activation, path: PathState, test: Symbolic, outcome: bool, steps: PathSteps
    ) -> bool:
        """Decide that a test has this outcome on a path; False if it cannot have."""
        condition = self._condition(test, {})
        if condition in (TRUE, FALSE):
            return True
        for atom in self.diagrams.tests(condition):
            self.knowledge.ask(atom, frame.time)
        needed = condition if outcome else self.diagrams.negation(condition)
        both = self.diagrams.both(path.condition, needed)
        if both != path.condition:
            path.condition = both
            path.step = steps.add(PathStep((path.step,), decision=needed))
        return both != FALSE

    def assume_object(self, path: PathState, made: Symbolic) -> None:
        """A new object is true."""
        path.condition = self.diagrams.both(path.condition, self.diagrams.literal(made, True))

    def _condition(self, test: Symbolic, known: dict[Symbolic, Condition]) -> Condition:
        """The condition under which a test holds.

        Args:
            known: those of other tests; what is found is added.
        """
        if test not in known:
            known[test] = self._find_condition(test, known)
        return known[test]

    def _find_condition(self, test: Symbolic, known: dict[Symbolic, Condition]) -> Condition:
        term = self.symbols[test]
        if term[0] == "const":
            return TRUE if term[2] else FALSE
        if term[:3] == ("op", ops.UNARY, "Not"):
            return self.diagrams.negation(self._condition(term[3], known))
        if term[:2] == ("op", ops.BOOL):
            parts = [self._condition(part, known) for part in term[3:]]
            return self.diagrams.any(parts) if term[2] == "Or" else self.diagrams.all(parts)
        atom, negated = self._atom(test)
        if self.symbols[atom][0] == "const":
            return TRUE if bool(self.symbols[atom][2]) is not negated else FALSE
        return self.diagrams.literal(atom, not negated)

    def _is_made_of_tests(self, test: Symbolic) -> bool:
        return self.symbols[test][:2] in (("op", ops.BOOL), ("op", ops.UNARY))

    def _atom(self, test: Symbolic) -> tuple[Symbolic, bool]:
        """The test that a comparison amounts to, and whether it is the opposite of that."""
        term = self.symbols[test]
        if term[:2] != ("op", ops.COMPARE) or len(term) != 5 or len(term[2]) != 1:
            return test, False
        (operator,), left, right = term[2], term[3], term[4]
        negated = operator in OPPOSITES
        operator = OPPOSITES.get(operator, operator)
        one, other = self.symbols[left], self.symbols[right]
        if operator in ("Is", "Eq") and other[0] == "const":
            if one[0] == "const":
                return self.symbols.constant(one[2] == other[2]), negated
            if other[2] is None:
                return left, not negated  # `x is None`: what is there, is true
            if isinstance(other[2], bool):
                return left, negated is other[2]
        return self.symbols.of("op", ops.COMPARE, (operator,), left, right), negated
