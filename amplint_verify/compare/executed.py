"""Which parts of a text an edit touches, and whether these ran.

An edit ran if something of the smallest part of the program ran that holds it and runs as one: a
statement, or what an expression leaves out under a condition, as `f(x)` in `f(x) if mask else x`.
Of a definition, that is its body: its first lines run when the file is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from amplint.findings.finding import Edit
from amplint.util.line_diff import changes
from amplint.util.text import LINE_END, Text
from amplint_verify.recording.tracing import NO_COLUMN


def rows_after(old: str, new: str, edits: Iterable[Edit]) -> set[int]:
    """The rows of a new text that some edits of the old one have changed or added.

    The new text may hold other edits too.
    """
    before, gaps = rows_of_edits(Text(old), edits)
    after: set[int] = set()
    for i, j, k, m in changes(lines_of(old), lines_of(new)):
        # An edit that keeps its row and adds another one shows as an insertion next to it.
        ours = set(range(i + 1, j + 1)) if i < j else {i, i + 1}
        if before & ours or any(i + 1 <= gap <= j + 1 for gap in gaps):
            after |= set(range(k + 1, m + 1))
    return after


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


# ------------------------------------------------------------------------------- what ran


@dataclass(frozen=True, order=True)
class SourcePoint:
    """A row from 1 and a column in bytes, as `ast` has them."""

    row: int
    column: int


@dataclass(frozen=True)
class SourceSpan:
    """A stretch of a text, for the place of an instruction too."""

    start: SourcePoint
    end: SourcePoint

    def holds(self, other: SourceSpan) -> bool:
        return self.start <= other.start and other.end <= self.end

    def meets(self, other: SourceSpan) -> bool:
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True)
class ProgramPart:
    """A part of a program that runs as one, if it runs.

    Args:
        span: in which its instructions lie.
        before: and before which they begin; the body of a block begins there.
    """

    span: SourceSpan
    before: SourcePoint

    def ran(self, places: Iterable[Sequence[int]]) -> bool:
        """Whether an instruction of it is among these places, as the tracer writes them down."""
        return any(self.has(*place) for place in places)

    def has(self, row: int, column: int, end_row: int, end_column: int) -> bool:
        if column == NO_COLUMN:
            return self.span.start.row <= row <= min(self.before.row, self.span.end.row)
        place = SourceSpan(SourcePoint(row, column), SourcePoint(end_row, end_column))
        return self.span.holds(place) and place.start < self.before


def edited(text: Text, edits: Iterable[Edit]) -> list[SourceSpan]:
    """The stretches of the rows that edits change or remove; a whole row where only blanks of it
    change."""
    lines, spans = lines_of(text.text), []
    for edit in edits:
        start, end = text.position(edit.start), text.position(edit.end)
        for row in sorted(rows_of_edits(text, [edit])[0]):
            line = lines[row - 1]
            whole = stretch(line)
            first = max(start.column - 1, whole.start) if row == start.row else whole.start
            last = min(end.column - 1, whole.stop) if row == end.row else whole.stop
            some = first < last or (first == last and edit.start == edit.end)
            spans.append(span_in(line, row, range(first, last) if some else whole))
    return spans


def whole_rows(text: str, rows: Iterable[int]) -> list[SourceSpan]:
    lines = lines_of(text)
    return [span_in(lines[row - 1], row, stretch(lines[row - 1])) for row in sorted(rows)]


def stretch(line: str) -> range:
    """The columns of a line without the blanks around it."""
    return range(len(line) - len(line.lstrip()), len(line.rstrip()))


def span_in(line: str, row: int, columns: range) -> SourceSpan:
    """Some columns of a row, in bytes."""
    start, end = (len(line[:column].encode()) for column in (columns.start, columns.stop))
    return SourceSpan(SourcePoint(row, start), SourcePoint(row, end))


def unrun(text: str, spans: Iterable[SourceSpan], ran: Iterable[Sequence[int]]) -> list[int]:
    """The rows of those spans that did not run. Blank rows and comments count not, nor do imports
    that nothing mentions any more."""
    tree, lines, places = ast.parse(text), lines_of(text), tuple(ran)
    rows = []
    for span in spans:
        row = span.start.row
        line = lines[row - 1].strip()
        part = part_of(tree, span) if line and not line.startswith("#") else None
        if part is not None and not part.ran(places):
            rows.append(row)
    return rows


def part_of(tree: ast.Module, span: SourceSpan) -> ProgramPart | None:
    """The smallest part that runs as one and holds a span of one row; None where nothing runs."""
    statement = innermost(tree, span)
    if statement is None or not runs(tree, statement):
        return None
    part = own_part(statement, span)
    for node in ast.walk(statement):  # from the outside in
        for child in left_out(node):
            if span_of(child).holds(span):
                part = ProgramPart(span_of(child), span_of(child).end)
    return part


def innermost(tree: ast.AST, span: SourceSpan) -> ast.stmt | None:
    """The smallest statement on the row of a span, and not beside it."""
    statement: ast.stmt | None = None
    row = span.start.row
    for node in ast.walk(tree):  # from the outside in
        if isinstance(node, ast.stmt):
            own = span_of(node)
            if own.start.row <= row <= own.end.row and own.meets(span):
                statement = node
    return statement


def runs(tree: ast.Module, statement: ast.stmt) -> bool:
    """Whether anything is there to run: not of declarations and docstrings."""
    if isinstance(statement, (ast.Global, ast.Nonlocal)):
        return False
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    return not is_unused_import(tree, statement)


def own_part(statement: ast.stmt, span: SourceSpan) -> ProgramPart:
    """Of a statement with others in it, the part around a span that lies in none of them."""
    own = span_of(statement)
    inside = sorted(
        (span_of(node) for node in ast.walk(statement) if isinstance(node, ast.stmt)),
        key=lambda each: each.start,
    )[1:]
    if not inside:
        return ProgramPart(own, own.end)
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ProgramPart(SourceSpan(inside[0].start, own.end), own.end)
    after = [each for each in inside if each.start > span.start]
    if after and after[0] == inside[0]:
        return ProgramPart(own, inside[0].start)
    # `else`, `except`, `finally`: they run if what they begin runs.
    until = after[0].end if after else own.end
    return ProgramPart(SourceSpan(span.start, until), until)


def left_out(node: ast.AST) -> Sequence[ast.expr]:
    """The expressions in a node that may not run although it does."""
    if isinstance(node, ast.IfExp):
        return node.body, node.orelse
    if isinstance(node, ast.BoolOp):
        return node.values[1:]
    if isinstance(node, ast.Lambda):
        return (node.body,)
    if isinstance(node, ast.DictComp):
        return node.key, node.value
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return (node.elt,)
    if isinstance(node, ast.comprehension):
        return node.ifs
    return ()


def span_of(node: ast.stmt | ast.expr) -> SourceSpan:
    """The text of a node, with its decorators."""
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    starts = [SourcePoint(each.lineno, each.col_offset) for each in (*decorators, node)]
    end = SourcePoint(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return SourceSpan(min(starts), end)


def is_unused_import(tree: ast.AST, statement: ast.stmt) -> bool:
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return False
    names = {each.asname or each.name.partition(".")[0] for each in statement.names}
    return not any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(tree))
