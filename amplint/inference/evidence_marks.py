"""Marks in the places of a value where evidence stands: each says from where it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from amplint.inference.state import Key, SiteId
from amplint.util.positions import Place
from amplint.values.atoms import (
    BOTTOM,
    Atom,
    Autocast,
    Device,
    Evidence,
    Function,
    Instance,
    Method,
    Object,
    Reason,
    Shows,
    Tensor,
    TensorTree,
    Value,
    ordered,
)
from amplint.values.atoms import Mapping as MappingValue
from amplint.values.atoms import Sequence as SequenceValue

Path = tuple[object, ...]  # to a place for evidence within a value
DEVICE, DTYPE, CONTEXT = "device", "dtype", "context"
# A marked value: of an operand, what a site has written, or None for the region around.
Source = int | tuple[Key, SiteId] | None


class EvidenceMarks:
    """The marks of one evaluation.

    Args:
        left_out: sources that get none.
    """

    def __init__(self, left_out: Sequence[Source]) -> None:
        self._left_out = left_out
        self._marks: list[tuple[Source, Path]] = []

    def on(self, value: Value, source: Source) -> Value:
        """A value with a mark in each place for evidence."""
        if source in self._left_out:
            return value
        return marked(value, (), lambda path, _: self.mark(source, path))

    def mark(self, source: Source, path: Path) -> Evidence | None:
        """A new mark. Those that are given first come first."""
        if source in self._left_out:
            return None
        self._marks.append((source, path))
        return Evidence(Place("", len(self._marks), 0, 0, 0), "", Shows.OPERATION)

    def source_of(self, evidence: Evidence) -> tuple[Source, Path] | None:
        """The source of a mark, and the path in it; None for evidence that is no mark."""
        return self._marks[evidence.place.row - 1] if evidence.place.path == "" else None


# Returns the evidence for a place, from the path to it and what stands there.
Make = Callable[[Path, Reason | None], Reason | None]


def marked(value: Value, path: Path, make: Make) -> Value:
    """A value with what `make` returns in each place for evidence."""
    return _marked(value, path, make) if has_places(value) else value


def _marked(value: Value, path: Path, make: Make) -> Value:
    return frozenset(marked_atom(atom, (*path, name_of(atom)), make) for atom in ordered(value))


@lru_cache(maxsize=10_000)  # most values have none: functions, names, numbers, what is unknown
def has_places(value: Value) -> bool:
    """Whether there is a place for evidence in a value."""
    paths: list[Path] = []
    _marked(value, (), lambda path, _: paths.append(path))
    return bool(paths)


def name_of(atom: Atom) -> tuple[str, ...]:
    """The words that distinguish an alternative from the others of a value."""
    kind = type(atom).__name__
    if isinstance(atom, SequenceValue) and atom.items is not None:
        return (kind, str(len(atom.items)))
    if isinstance(atom, Tensor | TensorTree | SequenceValue | MappingValue):
        return (kind,)
    if isinstance(atom, Autocast):
        return (kind, str(atom.device), str(atom.dtype), str(atom.enabled))
    parts = (getattr(atom, part, "") for part in ("kind", "type", "cls", "id", "name"))
    return (kind, *(part for part in parts if isinstance(part, str)))


def marked_device(device: Device, path: Path, make: Make) -> Device:
    if device.kind is None:
        return device
    return replace(device, evidence=make((*path, DEVICE), device.evidence))


def marked_atom(atom: Atom, path: Path, make: Make) -> Atom:
    """An alternative with what `make` returns in each place for evidence."""
    if isinstance(atom, Device):
        return marked_device(atom, path, make)
    if isinstance(atom, Tensor):
        has_dtype = atom.dtype is not None or atom.half is not None
        evidence = make((*path, DTYPE), atom.dtype_evidence) if has_dtype else None
        device = marked_device(atom.device, path, make)
        return replace(atom, device=device, dtype_evidence=evidence)
    if isinstance(atom, TensorTree):
        return replace(atom, device=marked_device(atom.device, path, make))
    if isinstance(atom, Instance):
        pairs = tuple((name, marked(each, (*path, name), make)) for name, each in atom.inputs)
        return replace(atom, device=marked_device(atom.device, path, make), inputs=pairs)
    if isinstance(atom, Object):
        holds = marked(atom.holds, (*path, "holds"), make) if atom.holds else BOTTOM
        return replace(atom, device=marked_device(atom.device, path, make), holds=holds)
    if isinstance(atom, SequenceValue):
        element = marked(atom.element, (*path, "element"), make)
        items = atom.items and tuple(
            marked(item, (*path, index), make) for index, item in enumerate(atom.items)
        )
        return replace(atom, items=items, element=element)
    if isinstance(atom, MappingValue):
        pairs = tuple((key, marked(each, (*path, key), make)) for key, each in atom.items)
        return replace(atom, items=pairs, rest=marked(atom.rest, (*path, "rest"), make))
    if isinstance(atom, Method):
        return replace(atom, of=marked_atom(atom.of, (*path, "of"), make))
    if isinstance(atom, Function) and atom.bound is not None:
        return replace(atom, bound=marked_atom(atom.bound, (*path, "bound"), make))
    if isinstance(atom, Autocast):
        return replace(atom, evidence=make((*path, CONTEXT), atom.evidence))
    return atom


def places(value: Value) -> dict[Path, Reason | None]:
    """The evidence in a value, by the path to it; None where there is none yet."""
    reasons: dict[Path, Reason | None] = {}

    def note(path: Path, evidence: Reason | None) -> Reason | None:
        reasons[path] = evidence
        return evidence

    marked(value, (), note)
    return reasons


def at_path(value: Value, path: Path) -> Reason | None:
    """The evidence at a path. Where a join has changed the shape of the value, so that nothing
    stands there, the first of that kind."""
    reasons = places(value)
    if path in reasons:
        return reasons[path]
    return next((e for p, e in reasons.items() if e is not None and p[-1] == path[-1]), None)
