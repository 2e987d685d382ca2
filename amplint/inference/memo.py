"""Results of transfer functions that were computed before: most operands come again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from amplint.core.lattice import shallow, with_inside
from amplint.core.values import BOTTOM, Atom, Value


class Memo:
    """The values of one fixpoint, each as one object, and the results of its transfer functions.

    What is equal is one object, a value and an alternative in it, so that it is compared by
    identity. Nothing here carries evidence: values that differ in it alone are one value.
    """

    def __init__(self) -> None:
        self._values: dict[Value, Value] = {BOTTOM: BOTTOM}
        self._atoms: dict[Atom, Atom] = {}
        self._results: dict[Hashable, Value] = {}

    def interned(self, value: Value) -> Value:
        """The one object that is this value, or what is left of it where it nests too deep."""
        known = self._values.get(value)
        if known is None:
            left = frozenset(map(self._interned_atom, shallow(value)))
            known = self._values[value] = self._values.setdefault(left, left)
        return known

    def _interned_atom(self, atom: Atom) -> Atom:
        known = self._atoms.get(atom)
        if known is None:
            known = with_inside(atom, self.interned)
            self._atoms[known] = known
        return known

    def adopt(self, atoms: Iterable[Atom], values: Iterable[Value]) -> None:
        """Take these objects for what they are equal to.

        Args:
            atoms: all alternatives in the values, and in what is inside of them.
            values: all values, those inside of others as well.
        """
        self._atoms.update((atom, atom) for atom in atoms)
        self._values.update((value, value) for value in values)

    def result(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """The result of a pure function.

        Args:
            key: the function and all that its result depends on.
            compute: is called the first time.
        """
        known = self._results.get(key)
        if known is None:
            known = self._results[key] = self.interned(compute())
        return known
