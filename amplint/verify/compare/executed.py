"""Which lines an edit touches, and which operations show that they ran.

An operation is written down with one line, that of the call. What shows that an edit ran is an
operation anywhere in the statement that it touches; of a statement that only steers others, an
operation in what it steers: the body of a `with`, the lines that mention what is assigned.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from amplint.core.finding import Edit
from amplint.core.line_diff import changes
from amplint.core.text import LINE_END, Text

BLOCKS = (ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While, ast.If, ast.Try)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Touched:
    """The rows of a fix: before it in the old text, after it in the new one; from 1."""

    before: frozenset[int]
    after: frozenset[int]


def touched(old: str, new: str, edits: Iterable[Edit]) -> Touched:
    """The rows of some edits of the old text in it, and in a new text in which they are applied.

    The new text may hold other edits too.
    """
    before, gaps = rows_of_edits(Text(old), edits)
    after: set[int] = set()
    for i, j, k, m in changes(lines_of(old), lines_of(new)):
        # An edit that keeps its row and adds another one shows as an insertion next to it.
        ours = set(range(i + 1, j + 1)) if i < j else {i, i + 1}
        if before & ours or any(i + 1 <= gap <= j + 1 for gap in gaps):
            after |= set(range(k + 1, m + 1))
    return Touched(frozenset(before), frozenset(after))


def unedited(old: str, new: str) -> dict[int, int]:
    """The row in the old text of each row of the new one whose whole statement is unchanged."""
    same: dict[int, int] = {}
    lines, new_lines = lines_of(old), lines_of(new)
    at = 0  # rows of the old text that are done
    for i, j, k, _ in [*changes(lines, new_lines), (len(lines), 0, len(new_lines), 0)]:
        same |= {k - i + row: row for row in range(at + 1, i + 1)}
        at = j
    for statement in ast.walk(ast.parse(new)):
        if isinstance(statement, ast.stmt) and not hasattr(statement, "body"):
            rows = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
            if any(row not in same for row in rows):
                same = {row: was for row, was in same.items() if row not in rows}
    return same


def lines_of(text: str) -> list[str]:
    """The lines as Python counts them: a form feed ends none."""
    *ended, last = LINE_END.split(text)
    return ended + [last] * bool(last)


def rows_of_edits(text: Text, edits: Iterable[Edit]) -> tuple[set[int], set[int]]:
    """The rows that are changed or removed, and those before which whole lines are inserted."""
    changed: set[int] = set()
    gaps: set[int] = set()
    for edit in edits:
        start, end = text.position(edit.start), text.position(edit.end)
        whole = start.column == 1 and edit.text.endswith(("\n", "\r"))
        if edit.start == edit.end and whole:
            gaps.add(start.row)
        elif edit.end > edit.start and end.column == 1:  # up to the end of the line before
            changed |= set(range(start.row, end.row))
        else:
            changed |= set(range(start.row, end.row + 1))
    return changed, gaps


def unshown(text: str, rows: Iterable[int], recorded: Collection[int]) -> list[int]:
    """Those of the rows that no operation shows to have run. Blank rows and comments count not, nor
    do imports that nothing mentions any more."""
    tree, lines = ast.parse(text), lines_of(text)
    left = []
    for row in sorted(rows):
        if not lines[row - 1].strip() or lines[row - 1].lstrip().startswith("#"):
            continue
        statement = innermost(tree, row)
        if statement is None or is_unused_import(tree, statement):
            continue
        own = set(range(statement.lineno, (statement.end_lineno or row) + 1))
        if not (own & set(recorded) or steered(tree, statement) & set(recorded)):
            left.append(row)
    return left


def innermost(tree: ast.AST, row: int) -> ast.stmt | None:
    """The smallest statement that holds a row; of a compound one only where no part of it does."""
    found: ast.stmt | None = None
    for node in ast.walk(tree):  # from the outside in
        if isinstance(node, ast.stmt) and first_row(node) <= row <= (node.end_lineno or row):
            found = node
    return found


def first_row(statement: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(each.lineno for each in decorators)])


def steered(tree: ast.AST, statement: ast.stmt) -> set[int]:
    """The rows that run as they do because of a statement."""
    if isinstance(statement, (*BLOCKS, *DEFINITIONS)):
        return set(range(first_row(statement), (statement.end_lineno or 0) + 1))
    names = set(bound_names(statement))
    return {
        row
        for node in ast.walk(tree)
        if isinstance(node, (ast.Name, ast.Attribute)) and name_of(node) in names
        for row in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    } | {row for header in headers(tree, names) for row in header}


def headers(tree: ast.AST, names: set[str]) -> Iterator[range]:
    """The blocks of `with` and loops whose first lines mention one of the names."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.With, ast.For)):
            parts = node.items if isinstance(node, ast.With) else [node.iter]
            mentioned = {
                name_of(each)
                for part in parts
                for each in ast.walk(part)
                if isinstance(each, (ast.Name, ast.Attribute))
            }
            if mentioned & names:
                yield range(node.lineno, (node.end_lineno or node.lineno) + 1)


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """The names, of attributes too, that a simple statement binds."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
        return
    targets: Sequence[ast.expr] = ()
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        targets = [statement.target]
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                yield name_of(node)


def name_of(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def is_unused_import(tree: ast.AST, statement: ast.stmt) -> bool:
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return False
    names = set(bound_names(statement))
    return not any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(tree))
