"""Edits that only move code: comments, docstrings and empty lines, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from amplint.ir.file_index import File
from amplint.util.positions import Place
from amplint.util.text import LINE_END, parse, without_comments
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
        edited: by file as it was, the same one now.
    """
    rows: dict[str, Rows] = {}
    for old, new in edited.items():
        file_rows = rows_moved(old.text, new.text)
        if file_rows is None:
            return None
        rows[new.path] = file_rows
    return Moves(rows, tuple(edited.items()))


def rows_moved(old: str, new: str) -> Rows | None:
    """The rows of code in a text, and where they stand now; None where anything but comments,
    docstrings and empty lines has changed."""
    try:
        before, now = CodeRows(old), CodeRows(new)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if [*before.rows.values()] != [*now.rows.values()]:
        return None
    rows = dict(zip(before.rows, now.rows, strict=True))
    # A text is split by a pattern, and not by a parser. Where that goes wrong, it shows here.
    pairs = zip_longest(before.nodes(), now.nodes())
    return rows if all(one and other and one.moved(rows) == other for one, other in pairs) else None


@dataclass(frozen=True)
class WrittenNode:
    """A node of a tree, without its children.

    Args:
        parts: its type, its fields that are no nodes, and how many nodes each of the others has.
        place: its rows and columns; none of a node that has none.
    """

    parts: tuple[object, ...]
    place: tuple[int, ...]

    def moved(self, rows: Rows) -> WrittenNode | None:
        """The node where its rows stand now; None for one that begins or ends where no code is."""
        if not self.place:
            return self
        row, column, end_row, end_column = self.place
        if row not in rows or end_row not in rows:
            return None
        return WrittenNode(self.parts, (rows[row], column, rows[end_row], end_column))


class CodeRows:
    """The rows and nodes of a text, without its docstrings. Raises as `parse` does.

    Attributes:
        rows: those that hold code, each with what it holds.
    """

    def __init__(self, text: str) -> None:
        self._tree = parse(text)
        docstrings = [*docstrings_in(self._tree)]
        self._docstrings = {id(node) for each in docstrings for node in (each, each.value)}
        prose = {
            row for each in docstrings for row in range(each.lineno, (each.end_lineno or 0) + 1)
        }
        lines = enumerate(LINE_END.split(without_comments(text)), start=1)
        self.rows = {
            row: line.rstrip() for row, line in lines if row not in prose and not is_blank(line)
        }

    def nodes(self) -> Iterator[WrittenNode]:
        """Its nodes, in an order that their kinds alone decide about."""
        for node in ast.walk(self._tree):
            if id(node) in self._docstrings:
                yield WrittenNode((type(node),), ())
            else:
                place = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
                end = getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
                parts = type(node), *map(written, map(node.__getattribute__, node._fields))
                yield WrittenNode(parts, (*place, *end) if place[0] else ())


def is_blank(line: str) -> bool:
    return not line or line.isspace()


def docstrings_in(tree: ast.Module) -> Iterator[ast.Expr]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            yield first


def written(part: object) -> object:
    """A field of a node, without the nodes in it; a constant by its text, for 1 == True."""
    if isinstance(part, list):
        return [ast.AST if isinstance(each, ast.AST) else repr(each) for each in part]
    return ast.AST if isinstance(part, ast.AST) else repr(part)
