"""Results of transfer functions that were computed before: most operands come again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from amplint.values.atoms import BOTTOM, Atom, Value
from amplint.values.lattice import inner, shallow, with_inside

GROWTH, LEAST = 1.25, 2_000  # times the entries of the last look, and more, that are worth another


class Memo:
    """The values of one fixpoint, each as one object, and the results of its transfer functions.

    What is equal is one object, a value and an alternative in it, so that it is compared by
    identity. Nothing here carries evidence: values that differ in it alone are one value.
    """

    def __init__(self) -> None:
        self._values: dict[Value, Value] = {BOTTOM: BOTTOM}
        self._atoms: dict[Atom, Atom] = {}
        self._results: dict[Hashable, Value] = {}
        self._room: int | None = None  # how many entries there may be before a look at them

    def has_grown(self) -> bool:
        """Whether there are a quarter more entries than when this was first asked, or at `keep`."""
        if self._room is None:
            self._make_room()
        assert self._room is not None
        return self._size > self._room

    def keep(self, values: Iterable[Value]) -> None:
        """Forget all values but these and what lies in them, and all results."""
        waiting = [*values]
        by_value, atoms = {BOTTOM: self._values[BOTTOM]}, {}
        while waiting:
            value = waiting.pop()
            if value not in by_value:
                by_value[value] = self._values.get(value, value)
                for atom in value:
                    if atom not in atoms:
                        atoms[atom] = self._atoms.get(atom, atom)
                        waiting.extend(inner(atom))
        self._values, self._atoms, self._results = by_value, atoms, {}
        self._make_room()

    @property
    def _size(self) -> int:
        return len(self._values) + len(self._atoms) + len(self._results)

    def _make_room(self) -> None:
        self._room = int(GROWTH * self._size) + LEAST

    def interned(self, value: Value) -> Value:
        """The one object that is this value, or what is left of it where it nests too deep."""
        cached = self._values.get(value)
        if cached is None:
            atoms = frozenset(map(self._interned_atom, shallow(value)))
            cached = self._values[value] = self._values.setdefault(atoms, atoms)
        return cached

    def _interned_atom(self, atom: Atom) -> Atom:
        cached = self._atoms.get(atom)
        if cached is None:
            cached = with_inside(atom, self.interned)
            self._atoms[cached] = cached
        return cached

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
        cached = self._results.get(key)
        if cached is None:
            cached = self._results[key] = self.interned(compute())
        return cached
