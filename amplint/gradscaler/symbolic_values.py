"""Symbolic values: where a value comes from, without computing it.

A symbolic value is the number of a term. Equal terms have equal numbers, so that two reads of
`self.scaler` are one value, and so are two evaluations of `self.fp16 and step > 0`; what one
iteration draws from a loader and what the next one draws are two.

Terms, by their first element:
    result (key, node, iterations): anything, known by the place and the iteration it comes from.
    choice (key, node, iterations, guards, *values): one of these, each with the outcomes of tests
        under which it is that one, as far as they are known.
    const (type, value), param (function, name), name (name), free (scope, name), import, def (id).
    attr (object, name), unpack (sequence, index), enter (context), each (iterable).
    op (operation, data, *operands): an operator, or a tuple or list.
    call (keywords, iterations, callee, *arguments): the result of an unknown function.
    scaled (scaler, loss): the result of `scaler.scale(loss)`.
    function, called: what stands for a running function, by which `result` terms differ.
"""

from __future__ import annotations

from typing import Any

Symbolic = int
Term = tuple[Any, ...]

NOTHING: Symbolic = -1
DEEPEST = 100  # terms within terms
SKIPPED = {"op": 3, "call": 3, "scaled": 1, "choice": 5}  # elements of a term before its operands
# Functions and methods that keep of a norm whether it is finite, or ask for that.
ASKED_OF_NORMS = frozenset(
    {"isfinite", "isinf", "isnan"} | {"item", "detach", "float", "cpu", "mean", "sum"}
)
UNARY = frozenset({"attr", "unpack", "enter", "each"})


class SymbolicValues:
    """The table of all terms, with what is known of each when it is made."""

    def __init__(self) -> None:
        self._numbers: dict[Term, Symbolic] = {}
        self._terms: list[Term] = []
        self._varying: list[bool] = []
        self._periodic: list[bool] = []
        self._depths: list[int] = []
        self._objects: set[Symbolic] = set()

    def __getitem__(self, value: Symbolic) -> Term:
        return self._terms[value]

    def of(self, *term: Any) -> Symbolic:
        """The value of a term."""
        number = self._numbers.get(term)
        if number is None:
            number = self._numbers[term] = len(self._terms)
            self._terms.append(term)
            operands = operands_of(term)
            self._depths.append(1 + max((self._depths[each] for each in operands), default=0))
            self._varying.append(self._varies(term, operands))
            self._periodic.append(self._depends_on_remainder(term, operands))
        return number

    def constant(self, value: object) -> Symbolic:
        return self.of("const", type(value).__name__, value)

    def is_deep(self, value: Symbolic) -> bool:
        """Whether its term is too deep to become part of another one."""
        return self._depths[value] >= DEEPEST

    def varies(self, value: Symbolic) -> bool:
        """Whether it may be something else in the next iteration."""
        return self._varying[value]

    def is_periodic(self, value: Symbolic) -> bool:
        """Whether it depends on a remainder, as `(step + 1) % n == 0` does, or `is_last(step)`; or
        on the norm of gradients, which is infinite until the scale has come down."""
        return self._periodic[value]

    def note_periodic(self, value: Symbolic) -> None:
        """Note that a call will have either outcome, as a remainder has."""
        self._periodic[value] = True

    def note_object(self, value: Symbolic) -> None:
        """Note that a value is an object, which is true."""
        self._objects.add(value)

    def truth(self, value: Symbolic) -> bool | None:
        """Whether a value is true; None if it may be either."""
        term = self._terms[value]
        return bool(term[2]) if term[0] == "const" else True if value in self._objects else None

    def is_false(self, value: Symbolic) -> bool:
        return value >= 0 and self._terms[value] == ("const", "bool", False)

    def is_handed_out(self, value: Symbolic) -> bool:
        """Whether a function returned it among others, or may have: `prepare(model, optimizer)`
        may wrap an optimizer in another one, which knows the scaler."""
        term = self._terms[value]
        while term[0] == "attr":
            term = self._terms[term[1]]
        return str(term[0]) == "unpack"

    def _depends_on_remainder(self, term: Term, operands: tuple[Symbolic, ...]) -> bool:
        if term[0] == "op" and term[2] == "Mod":
            return True
        passes_on = term[0] in ("op", "attr") or (
            term[0] == "call" and self._terms[term[3]][-1] in ASKED_OF_NORMS
        )
        return passes_on and any(self._periodic[each] for each in operands)

    def _varies(self, term: Term, operands: tuple[Symbolic, ...]) -> bool:
        match term[0]:
            case "result" | "choice":
                return any(iteration >= 0 for iteration in term[3])
            case "call":
                return any(iteration >= 0 for iteration in term[2])
            case "op" | "attr" | "unpack" | "enter":
                return any(self._varying[each] for each in operands)
            case _:
                return False


def operands_of(term: Term) -> tuple[Symbolic, ...]:
    """The values that a term is made of."""
    if term[0] in UNARY:
        return (term[1],)
    return term[SKIPPED[term[0]] :] if term[0] in SKIPPED else ()
