"""Edits that only move code: comments and empty lines that come and go, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from amplint.ir.file_index import File
from amplint.ir.model import Location
from amplint.util.positions import Place
from amplint.util.text import LINE_END, long_strings, without_comments
from amplint.values.atoms import Evidence

Rows = Mapping[int, int]  # by a row that holds code: where it stands now


@dataclass(frozen=True)
class Moves:
    """The places of code in edited files, before and now.

    Args:
        rows: by path, of the edited files alone.
        edited: the same files, before and now.
    """

    rows: Mapping[str, Rows]
    edited: tuple[tuple[File, File], ...]

    def place(self, before: Place) -> Place:
        """Where something stands now."""
        rows = self.rows.get(before.path)
        if rows is None:
            return before
        return before._replace(row=rows[before.row], end_row=rows[before.end_row])

    def chain(self, before: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
        """A chain of evidence with its places as they are now."""
        if not any(each.place.path in self.rows for each in before):
            return before
        return tuple(each._replace(place=self.place(each.place)) for each in before)


def moves(edited: Mapping[File, File]) -> Moves | None:
    """The moves of edits; None where they did more than that.

    Args:
        edited: by file as it was, the same one now. Their value graphs are equal, except places.
    """
    rows: dict[str, Rows] = {}
    for old, new in edited.items():
        file_rows = rows_moved(old, new)
        if file_rows is None:
            return None
        rows[new.path] = file_rows
    return Moves(rows, tuple(edited.items()))


def rows_moved(old: File, new: File) -> Rows | None:
    """The rows of a file, and where they stand now; None where they hold something else now."""
    before, now = dict(code_rows(old.text)), dict(code_rows(new.text))
    if [*before.values()] != [*now.values()] or long_strings(old.text) != long_strings(new.text):
        return None
    rows = dict(zip(before, now, strict=True))
    # A place is moved row by row. Where a string passes for a comment, it shows here.
    places = zip(places_of(old), places_of(new), strict=True)
    return rows if all(moved(one, rows) == other for one, other in places) else None


def code_rows(text: str) -> Iterator[tuple[int, str]]:
    """The rows that hold more than a comment, and what each holds without it."""
    for row, line in enumerate(LINE_END.split(without_comments(text)), start=1):
        if line and not line.isspace():
            yield row, line.rstrip()


def places_of(file: File) -> Iterator[Location]:
    """All places in the value graphs, in an order that does not depend on them."""
    for function, facts in sorted(file.facts.functions.items()):
        if facts.kind != "module":  # a module is all of its file
            yield facts.location
        graph = file.graph(function)
        yield from (node.location for node in graph.nodes)
        yield from (block.location for block in graph.blocks[1:])


def moved(place: Location, rows: Rows) -> Location | None:
    """A place, moved; None for one that begins or ends where no code is."""
    row, column, end_row, end_column = place
    if row not in rows or end_row not in rows:
        return None
    return rows[row], column, rows[end_row], end_column
