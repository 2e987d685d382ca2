"""Build edits of the text from LibCST nodes.

An edit is a stretch of the file's text and what to put there; everything around it stays as it is,
to the byte. Where an edit cannot be made, builders return `None` or no edits if that depends on how
the code is written, and `REFUSED` if only because LibCST misreports offsets: `Source.finding` drops
a fix that holds it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import libcst as cst

from amplint.findings.finding import Edit
from amplint.source.navigation import Layout
from amplint.source.pairing import walk

REFUSED = Edit(-1, -1, "")
QUOTES = ("'", '"')
WIDTH = 88  # of the lines that black and ruff write where nothing else is set
KEYWORD = re.compile(r"^(\w+)=(?!=)")
ATOMS = (
    cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Set, cst.Dict, cst.ListComp,
    cst.SetComp, cst.DictComp, cst.SimpleString, cst.FormattedString, cst.ConcatenatedString,
)  # fmt: skip


class Edits:
    """The edits that can be made in a file. A fix with one that cannot be made is not offered."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._content = layout.content

    # ---------------------------------------------------------------------------- expressions

    def replace(self, node: cst.CSTNode, text: str, parentheses: bool = False) -> Edit:
        """Put other text in the place of a node; with `parentheses`, its own ones go too."""
        return self._edit(self._layout.offsets(node, parentheses), text)

    def insert_before(self, node: cst.CSTNode, text: str) -> Edit:
        """Insert text before a node and its own parentheses."""
        span = self._layout.offsets(node, parentheses=True)
        return self._edit(span and (span[0], span[0]), text)

    def insert_after(self, node: cst.CSTNode, text: str) -> Edit:
        """Insert text after a node and its own parentheses."""
        span = self._layout.offsets(node, parentheses=True)
        return self._edit(span and (span[1], span[1]), text)

    def remove_between(self, inner: cst.CSTNode, outer: cst.CSTNode) -> Edit:
        """Leave of `outer` only the node `inner` that it begins with: `x.to(d)` -> `x`."""
        part, whole = self._layout.offsets(inner, parentheses=True), self._layout.offsets(outer)
        if part is None or whole is None or part[0] != whole[0]:
            return REFUSED
        return Edit(part[1], whole[1], "")

    def append_call(self, node: cst.BaseExpression, call: str) -> Edit:
        """`node` -> `node.call`, with parentheses around the node where it needs some."""
        if node.lpar or isinstance(node, ATOMS):
            # `"a" "b".upper()` is right too: literals are joined first.
            return self.insert_after(node, f".{call}")
        return self.replace(node, f"({self._layout.text(node)}).{call}")

    def as_receiver(self, node: cst.BaseExpression) -> str:
        """A node as it is written, in parentheses where `.name` could not follow it otherwise."""
        text = self._layout.text(node)
        bare = not node.lpar and (not isinstance(node, ATOMS) or "\n" in text or "\r" in text)
        return f"({text})" if bare else text

    # ---------------------------------------------------------------------------- arguments

    def add_argument(self, call: cst.Call, *texts: str) -> Edit:
        """Add arguments at the end of a call, in its layout.

        Refused after `**kwargs`, which may hold the argument already.
        """
        if any(arg.star == "**" for arg in call.args):
            return REFUSED
        if not call.args:
            return self.insert_argument(call, *texts)
        texts = _spaced(call, texts)
        last = call.args[-1]
        span, whole = self._layout.offsets(last), self._layout.offsets(call)
        if span is None or whole is None:
            return REFUSED
        start, end = span
        if _is_bare_generator(last):
            return Edit(start, end, f"({self._content.text[start:end]}), {', '.join(texts)}")
        alone = len(call.args) == 1 and not isinstance(last.comma, cst.Comma)
        if not self._one_per_line(call) or (alone and self._has_room(start, end, texts)):
            return Edit(end, end, f", {', '.join(texts)}")
        # A comment behind the last argument stays there: the new one goes to the line below.
        between = self._line_break(start)
        text = f",{between}".join(texts)
        position = self._content.position(end)
        line_end = self._content.start(position.row) + len(self._content.line(position.row))
        tail = self._content.text[end:line_end]
        trailing = isinstance(last.comma, cst.Comma)
        if line_end >= whole[1] or (trailing and "," not in tail):
            return Edit(end, end, f",{between}{text}")
        if not trailing:
            return Edit(end, line_end, f",{tail}{between}{text}{',' if alone else ''}")
        return Edit(line_end, line_end, f"{between}{text},")

    def insert_argument(self, call: cst.Call, *texts: str) -> Edit:
        """Insert arguments before all others, in the layout of the call; refused where the first
        one is a bare generator."""
        if not call.args:
            opening = self._layout.offsets(call.whitespace_before_args)
            return self._edit(opening and (opening[0], opening[0]), ", ".join(texts))
        first = call.args[0]
        span = self._layout.offsets(first)
        if span is None or _is_bare_generator(first):
            return REFUSED
        texts = _spaced(call, texts)
        start = span[0]
        between = self._line_break(start) if self._one_per_line(call) else " "
        return Edit(start, start, "".join(f"{text},{between}" for text in texts))

    def name_argument(self, arg: cst.Arg, name: str) -> Edit:
        """Give an argument by keyword, or by another one; refused for `*args` and `**kwargs`."""
        if arg.star:
            return REFUSED
        if arg.keyword is not None:
            return self.replace(arg.keyword, name)
        if isinstance(arg.value, (cst.GeneratorExp, cst.NamedExpr)) and not arg.value.lpar:
            return self.replace(arg.value, f"{name}=({self._layout.text(arg.value)})")
        return self.insert_before(arg.value, f"{name}=")

    def remove_argument(self, call: cst.Call, arg: cst.Arg) -> Edit:
        """Remove an argument and the comma that goes with it."""
        (edit,) = self.remove_arguments(call, [arg])
        return edit

    def remove_arguments(self, call: cst.Call, args: Sequence[cst.Arg]) -> tuple[Edit, ...]:
        """Remove several arguments of a call, and the commas that go with them."""
        spans = [self._layout.offsets(arg) for arg in call.args]
        whole, opening = (
            self._layout.offsets(call),
            self._layout.offsets(call.whitespace_before_args),
        )
        places = [span for span in spans if span is not None]
        if whole is None or opening is None or len(places) != len(spans):
            return (REFUSED,) * len(args)
        cuts = [any(arg is other for other in args) for arg in call.args]
        if all(cuts):
            return (Edit(opening[0], whole[1] - 1, ""),)
        last = max(index for index, removed in enumerate(cuts) if not removed)
        edits = [
            Edit(places[index][0], places[index + 1][0], "") for index in range(last) if cuts[index]
        ]
        if last + 1 < len(cuts):
            edits.append(
                self._remove_tail(call, places[last][1], places[last + 1][0], places[-1][1])
            )
        return tuple(edits)

    def _remove_tail(self, call: cst.Call, previous_end: int, start: int, end: int) -> Edit:
        """Remove the last arguments, [start, end), after the one that ends at `previous_end`."""
        text = self._content.text
        comma = call.args[-1].comma
        trailing = self._layout.offsets(comma) if isinstance(comma, cst.Comma) else None
        if trailing is not None:
            end = trailing[0] + text[trailing[0] :].index(",") + 1
        row = self._content.position(start).row
        if self._content.position(previous_end).row == row:
            if trailing is None:
                return Edit(previous_end, end, "")
            return Edit(previous_end + text[previous_end:start].index(",") + 1, end, "")
        # On lines of their own. What stands behind the argument on its last line goes with it.
        before = self._content.start(row - 1) + len(self._content.line(row - 1))
        last = self._content.position(end).row
        line_end = self._content.start(last) + len(self._content.line(last))
        tail = text[end:line_end].lstrip()
        if not tail or tail.startswith("#"):
            return Edit(before, line_end, "")
        # What closes the call must not get behind a comment.
        return Edit(start if "#" in self._content.line(row - 1) else before, end, "")

    def _one_per_line(self, call: cst.Call) -> bool:
        """Whether each argument begins a line."""
        for arg in call.args:
            span = self._layout.offsets(arg)
            if span is None or self._before(span[0]).strip():
                return False
        return True

    def _has_room(self, start: int, end: int, texts: Sequence[str]) -> bool:
        """Whether others fit behind an argument that has a line to itself, as formatters see it."""
        row = self._content.position(start).row
        line = self._content.line(row)
        one_row = self._content.position(end).row == row
        return one_row and "#" not in line and len(", ".join((line, *texts))) <= WIDTH

    def _line_break(self, offset: int) -> str:
        """A line end, and the indentation of the line at an offset."""
        return self._content.newline + _indentation(self._before(offset))

    def _before(self, offset: int) -> str:
        """The beginning of a line up to an offset."""
        return self._content.text[self._content.start(self._content.position(offset).row) : offset]

    # ---------------------------------------------------------------------------- statements

    def insert_statement_before(self, statement: cst.CSTNode, text: str, header: str = "") -> Edit:
        """Insert a line above the statement that holds a node, with its indentation; with a header,
        in a block that this line opens."""
        rows = self._rows(self._layout.statement(statement))
        if rows is None:
            return REFUSED
        start, newline = self._content.start(rows[0]), self._content.newline
        indentation = self._indent(rows[0])
        if header:
            text = f"{header}{newline}{indentation}{_unit(indentation)}{text}"
        return Edit(start, start, f"{indentation}{text}{newline}")

    def insert_statement_after(self, statement: cst.CSTNode, text: str) -> Edit:
        """Insert a line below the statement that holds a node, with its indentation."""
        rows = self._rows(self._layout.statement(statement))
        if rows is None:
            return REFUSED
        first, last = rows
        line = f"{self._indent(first)}{text}{self._content.newline}"
        if last == self._content.rows:  # the file ends without a line end
            end = len(self._content.text)
            return Edit(end, end, f"{self._content.newline}{self._indent(first)}{text}")
        start = self._content.start(last + 1)
        return Edit(start, start, line)

    def branch(
        self, line: cst.CSTNode, test: str, branches: tuple[Sequence[str], Sequence[str]]
    ) -> Edit:
        """Put an `if` with two branches in the place of what is all of a line.

        Args:
            branches: the lines of its body, and of its `else`.
        """
        rows = self._rows(line)
        if rows is None:
            return REFUSED
        indentation, newline = self._indent(rows[0]), self._content.newline
        inside = f"{newline}{indentation}{_unit(indentation)}"
        body, other = (inside.join(("", *lines)) for lines in branches)
        text = f"if {test}:{body}{newline}{indentation}else:{other}"
        return self._edit(self._layout.offsets(line), text)

    def remove_statement(self, statement: cst.BaseStatement | cst.BaseSmallStatement) -> Edit:
        """Remove a statement with its line; where it is the only one of its block, it is replaced
        by `pass`. A comment on its line goes with it."""
        line: cst.CSTNode | None = statement
        if isinstance(statement, cst.BaseSmallStatement):
            line = self._layout.parent(statement)
            if not isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
                return REFUSED
            if len(line.body) > 1:
                return self._remove_from_line(statement, line.body)
        if line is None or self._is_all_of_its_block(line):
            return self._edit(self._decorated(statement), "pass")
        rows = self._rows(line)
        if rows is None:
            return REFUSED
        return Edit(self._content.start(rows[0]), self._content.start(rows[1] + 1), "")

    def _is_all_of_its_block(self, line: cst.CSTNode) -> bool:
        block = self._layout.parent(line)
        if isinstance(line, cst.SimpleStatementSuite):
            return True
        if isinstance(block, cst.IndentedBlock):
            return len(block.body) == 1
        unit = self._layout.unit(line)
        return unit is not None and any(
            isinstance(each, ast.ClassDef) and each.body == [*unit.statements]
            for each in self._layout.module.body
        )

    def _remove_from_line(
        self, statement: cst.BaseSmallStatement, line: Sequence[cst.BaseSmallStatement]
    ) -> Edit:
        index = next(i for i, each in enumerate(line) if each is statement)
        span = self._layout.offsets(statement)
        last = index == len(line) - 1
        other = self._layout.offsets(line[index - 1] if last else line[index + 1])
        if span is None or other is None:
            return REFUSED
        return Edit(other[1], span[1], "") if last else Edit(span[0], other[0], "")

    def dedent(
        self, statements: Sequence[cst.BaseStatement | cst.BaseSmallStatement]
    ) -> tuple[Edit, ...]:
        """Move the statements that end the block of a `with` out of it.

        Refused where nothing would stay in the block, or the statements do not end it.
        """
        block = self._layout.parent(statements[0]) if statements else None
        if isinstance(block, cst.SimpleStatementLine):
            return self._dedent_from_within_line(statements, block)
        if isinstance(block, cst.SimpleStatementSuite):
            region = self._layout.parent(block)
            return self._split_line(statements, block.body, region)
        region = self._layout.parent(block)
        if not isinstance(block, cst.IndentedBlock) or not isinstance(region, cst.With):
            return (REFUSED,)
        if not _ends(statements, block.body):
            return (REFUSED,)
        return self._dedent_lines(statements, region)

    def indent(self, statements: Sequence[cst.BaseStatement], header: str) -> tuple[Edit, ...]:
        """Put whole lines into a block of their own, below a line that opens it."""
        first, last = self._rows(statements[0]), self._rows(statements[-1])
        if first is None or last is None:
            return (REFUSED,)
        indentation = self._indent(first[0])
        unit = _unit(indentation)
        strings = set(self._rows_within_strings(statements))
        start = self._content.start(first[0])
        opening = Edit(start, start, f"{indentation}{header}{self._content.newline}{unit}")
        inside = (
            Edit(self._content.start(row), self._content.start(row), unit)
            for row in range(first[0] + 1, last[1] + 1)
            if row not in strings and self._content.line(row).strip()
        )
        return (opening, *inside)

    def _dedent_from_within_line(
        self,
        statements: Sequence[cst.BaseStatement | cst.BaseSmallStatement],
        line: cst.SimpleStatementLine,
    ) -> tuple[Edit, ...]:
        """Ex) `y = model(x); y.sum().backward()`, and whole lines after it"""
        block = self._layout.parent(line)
        region = self._layout.parent(block)
        if not isinstance(block, cst.IndentedBlock) or not isinstance(region, cst.With):
            return (REFUSED,)
        small = [each for each in statements if isinstance(each, cst.BaseSmallStatement)]
        lines = [each for each in statements if isinstance(each, cst.BaseStatement)]
        if [*small, *lines] != list(statements) or not _ends(
            [line, *lines], block.body, whole_may_go=True
        ):
            return (REFUSED,)
        split = self._split_line(small, line.body, region)
        moved = self._dedent_lines(lines, region) if lines else ()
        return (*split, *moved)

    def _split_line(
        self,
        statements: Sequence[cst.CSTNode],
        line: Sequence[cst.BaseSmallStatement],
        region: cst.CSTNode | None,
    ) -> tuple[Edit, ...]:
        """Put the statements that end a line on the next one, indented as the `with` is."""
        rows = self._rows(region) if isinstance(region, cst.With) else None
        if rows is None or not _ends(statements, line):
            return (REFUSED,)
        stays, first = (
            self._layout.offsets(line[-len(statements) - 1]),
            self._layout.offsets(line[-len(statements)]),
        )
        if stays is None or first is None:
            return (REFUSED,)
        return (Edit(stays[1], first[0], self._content.newline + self._indent(rows[0])),)

    def _dedent_lines(
        self, statements: Sequence[cst.CSTNode], region: cst.With
    ) -> tuple[Edit, ...]:
        first, last = self._rows(statements[0]), self._rows(statements[-1])
        outside = self._rows(region)
        if first is None or last is None or outside is None:
            return (REFUSED,)
        outer, inner = self._indent(outside[0]), self._indent(first[0])
        if not inner.startswith(outer) or len(inner) == len(outer):
            return (REFUSED,)
        strings = set(self._rows_within_strings(statements))
        rows = range(self._first_comment_row(first[0], inner), last[1] + 1)
        return tuple(
            Edit(self._content.start(row) + len(outer), self._content.start(row) + len(inner), "")
            for row in rows
            if row not in strings and self._content.line(row).startswith(inner)
        )

    def _first_comment_row(self, row: int, indentation: str) -> int:
        """The first of the comment lines that stand right above a row, with its indentation."""
        while row > 1 and re.match(re.escape(indentation) + "#", self._content.line(row - 1)):
            row -= 1
        return row

    def _rows_within_strings(self, statements: Sequence[cst.CSTNode]) -> Iterator[int]:
        """The rows that begin inside of a string."""
        nodes, _ = walk(statements)
        for node in nodes:
            if isinstance(node, (cst.SimpleString, cst.FormattedString)):
                rows = self._rows(node)
                if rows is not None:
                    yield from range(rows[0] + 1, rows[1] + 1)

    def _rows(self, node: cst.CSTNode | None) -> tuple[int, int] | None:
        """The first and the last row of a node, decorators included."""
        span = None if node is None else self._decorated(node)
        if span is None:
            return None
        return self._content.position(span[0]).row, self._content.position(span[1]).row

    def _decorated(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """The offsets of a node with its decorators, which LibCST counts as what is above it."""
        span = self._layout.offsets(node)
        decorators: Sequence[cst.Decorator] = getattr(node, "decorators", ())
        first = self._layout.offsets(decorators[0]) if decorators else span
        return (first[0], span[1]) if first is not None and span is not None else None

    def _indent(self, row: int) -> str:
        return _indentation(self._content.line(row))

    def _edit(self, span: tuple[int, int] | None, text: str) -> Edit:
        return REFUSED if span is None else Edit(*span, text)


def within_f_strings(
    layout: Layout, edits: Iterable[Edit], around: Sequence[cst.FormattedString]
) -> tuple[Edit, ...] | None:
    """Edits with quotes that do not end the f-strings around them, which is how Python read
    them before 3.12; None where all quotes are taken.

    Args:
        around: the f-strings around a node, from the innermost on.
    """
    outer_quotes = [each.end for each in around if len(each.end) == 1]
    outermost = layout.offsets(around[-1]) if outer_quotes else None
    if outermost is None:
        return tuple(edits)
    requoted: list[Edit] = []
    for edit in edits:
        is_inside = outermost[0] < edit.start and edit.end < outermost[1]
        ends = [quote for quote in outer_quotes if is_inside and quote in edit.text]
        free = [quote for quote in QUOTES if quote not in outer_quotes and quote not in edit.text]
        if ends and not free:
            return None
        text = edit.text
        for quote in ends:
            text = text.replace(quote, free[0])
        requoted.append(replace(edit, text=text))
    return tuple(requoted)


def _unit(indentation: str) -> str:
    """By how much a block is indented that stands in one with this indentation."""
    return "\t" if "\t" in indentation else "    "


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _is_bare_generator(arg: cst.Arg) -> bool:
    """Ex) the argument of `f(x for x in y)`, which must be the only one"""
    return isinstance(arg.value, cst.GeneratorExp) and not arg.value.lpar


def _spaced(call: cst.Call, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments with spaces around their `=`, where all keywords of the call have them."""
    equals = [arg.equal for arg in call.args if isinstance(arg.equal, cst.AssignEqual)]
    spaced = all(not each.whitespace_before.empty for each in equals)
    if not equals or not spaced:
        return texts
    return tuple(KEYWORD.sub(r"\1 = ", text) for text in texts)


def _ends(
    part: Sequence[cst.CSTNode], whole: Sequence[cst.CSTNode], *, whole_may_go: bool = False
) -> bool:
    """Whether `part` is the end of `whole`, and something is left before it."""
    if not part or len(part) > len(whole) or (len(part) == len(whole) and not whole_may_go):
        return False
    return all(a is b for a, b in zip(part, whole[-len(part) :], strict=True))
