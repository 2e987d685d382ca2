"""Values of inference as plain data, and back.

What is decoded equals what was encoded. Evidence is left out: no value of the fixpoint has any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

from amplint.ir.codec import packed, unpacked
from amplint.values.atoms import COMPARED, KINDS, Atom, Region, Value

_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
Row = list[Any]


class Encoder:
    """A table of values, and of the alternatives in them, each once, behind those inside of it.

    Attributes:
        values: by number, the alternatives of each value, as numbers.
        atoms: by number, what kind of alternative it is, and what is in it.
    """

    def __init__(self) -> None:
        self.values: list[list[int]] = []
        self.atoms: list[Row] = []
        self._values: dict[Value, int] = {}
        self._atoms: dict[Atom, int] = {}

    def value(self, value: Value) -> int:
        """The number of a value."""
        number = self._values.get(value)
        if number is None:
            # In whatever order: what is decoded is a set again.
            row = [self.atom(atom) for atom in value]
            number = self._values[value] = len(self.values)
            self.values.append(row)
        return number

    def atom(self, atom: Atom) -> int:
        """The number of an alternative."""
        number = self._atoms.get(atom)
        if number is None:
            kind = type(atom)
            row = [_NUMBERS[kind], *(self._part(getattr(atom, name)) for name in COMPARED[kind])]
            number = self._atoms[atom] = len(self.atoms)
            self.atoms.append(row)
        return number

    def _part(self, part: object) -> object:
        """A field; a list begins with what it stands for."""
        if part is None or isinstance(part, bool | int | float | str):
            return packed(part)
        if isinstance(part, frozenset):
            texts = part and isinstance(next(iter(part)), str)
            return ["texts", *sorted(part)] if texts else ["value", self.value(part)]
        if type(part) is tuple:
            return ["items", *map(self._part, part)]
        return ["atom", self.atom(part)]  # type: ignore[arg-type]  # there is nothing else


class Decoder:
    """The values of a table.

    Args:
        values, atoms: as `Encoder` has made them.

    Raises IndexError, KeyError, TypeError or ValueError where it has not.
    """

    def __init__(self, values: Sequence[Sequence[int]], atoms: Iterable[Row]) -> None:
        self._rows = values
        self._values: list[Value | None] = [None] * len(values)
        self.atoms: list[Atom] = []
        for row in atoms:
            self.atoms.append(_MAKERS[row[0]](*map(self._part, row[1:])))
        self.values = [self._value(number) for number in range(len(values))]

    def _value(self, number: int) -> Value:
        value = self._values[number]
        if value is None:
            row = self._rows[number]
            value = self._values[number] = frozenset([self.atoms[each] for each in row])
        return value

    def _part(self, part: Any) -> object:
        if type(part) is not list:
            return part
        kind = part[0]
        if kind == "atom":
            return self.atoms[part[1]]
        if kind == "value":
            return self._value(part[1])
        if kind == "items":
            return tuple(map(self._part, part[1:]))
        if kind == "texts":
            return frozenset(part[1:])
        return unpacked(part)


def _maker(kind: Any) -> Callable[..., Atom]:
    """The constructor of a kind, for the fields that are compared."""
    names = COMPARED[kind]
    if [field.name for field in fields(kind)][: len(names)] == names:
        constructor: Callable[..., Atom] = kind
        return constructor
    return lambda *parts: kind(**dict(zip(names, parts, strict=True)))


_MAKERS = [_maker(kind) for kind in KINDS]

# A region as a row: its device, its dtype, whether it is enabled, inherited, presumed,
# wrapped.
RegionRow = tuple[str | None, str | None, bool | None, bool, bool, bool]


def region_row(region: Region | None) -> RegionRow | None:
    if region is None:
        return None
    flags = region.inherited, region.presumed, region.wrapped
    return region.device, region.dtype, region.enabled, *flags


def region_of(row: RegionRow | None) -> Region | None:
    if row is None:
        return None
    device, dtype, enabled, *flags = row
    return Region(device, dtype, enabled, None, *flags)
