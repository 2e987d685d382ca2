"""How the rows of a text belong together, and the comments in it, by the tokens of Python."""

from __future__ import annotations

import contextlib
import io
import itertools
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from amplint.findings.finding import Finding
from amplint.util.text import LINE_END, Text

# Since Python 3.12 the parts of an f-string are tokens.
FSTRING_START = getattr(tokenize, "FSTRING_START", None)
FSTRING_END = getattr(tokenize, "FSTRING_END", None)
BETWEEN_STATEMENTS = frozenset(
    {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)
BEFORE_A_NEW_ROW = frozenset({tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT})


@dataclass(frozen=True)
class Rows:
    """How the rows of a text belong together, by its tokens.

    Text that Python cannot tokenize is read as far as it can be.
    """

    text: Text

    def about(self, finding: Finding) -> set[int]:
        """The rows where a comment about the finding may stand."""
        start, end = finding.span
        first, last = self.statement(start.row)
        return {start.row, min(end.row, last), first, last}

    def statement(self, row: int) -> tuple[int, int]:
        """First and last row of the logical line that the row belongs to."""
        return self._statements.get(row, (row, row))

    def noqa_row(self, row: int) -> int:
        """The row at whose end a comment about `row` can be written.

        That is the row itself, unless it ends inside a string or with a backslash.
        """
        return self.statement(row)[1] if row in self._closed_to_comments else row

    def comments(self, start: int, end: int) -> Iterator[str]:
        """The comments that begin within [start, end)."""
        for token in self.tokens:
            if token.type == tokenize.COMMENT:
                offset = self.text.start(token.start[0]) + token.start[1]
                if start <= offset < end:
                    yield token.string

    def row_for_line(self, row: int) -> int:
        """The row above which a line with a comment can be inserted: this one, unless it begins
        inside a string or behind a backslash; then the nearest above."""
        while row - 1 in self._closed_to_comments:
            row -= 1
        return row

    def following(self, row: int) -> int:
        """The next row that holds code; the row itself if there is none."""
        rows = (token.start[0] for token in self.tokens if token.type not in BETWEEN_STATEMENTS)
        return next((other for other in rows if other > row), row)

    @cached_property
    def tokens(self) -> tuple[tokenize.TokenInfo, ...]:
        # All line ends become \n, which changes no row and no column: `tokenize` knows no lone \r.
        source = io.StringIO(LINE_END.sub("\n", self.text.text), newline="\n")
        tokens: list[tokenize.TokenInfo] = []
        with contextlib.suppress(tokenize.TokenError, SyntaxError):
            tokens.extend(tokenize.generate_tokens(source.readline))  # keeps what came before
        return tuple(tokens)

    @cached_property
    def _statements(self) -> dict[int, tuple[int, int]]:
        statements: dict[int, tuple[int, int]] = {}
        first = None
        for token in self.tokens:
            if token.type == tokenize.NEWLINE and first is not None:
                last = token.start[0]
                statements.update((row, (first, last)) for row in range(first, last + 1))
                first = None
            elif first is None and token.type not in BETWEEN_STATEMENTS:
                first = token.start[0]
        return statements

    @cached_property
    def _closed_to_comments(self) -> frozenset[int]:
        rows: set[int] = set()
        for token, following in itertools.pairwise(self.tokens):
            rows.update(range(token.start[0], token.end[0]))  # a string that goes on
            if token.type not in BEFORE_A_NEW_ROW:
                rows.update(range(token.end[0], following.start[0]))  # a backslash
        rows.update(self._inside_f_strings())
        return frozenset(rows)

    def _inside_f_strings(self) -> Iterator[int]:
        """The rows that end inside an f-string: up to Python 3.11 none may hold a comment."""
        starts: list[int] = []
        for token in self.tokens:
            if token.type == FSTRING_START:
                starts.append(token.start[0])
            elif token.type == FSTRING_END and starts:
                yield from range(starts.pop(), token.end[0])
