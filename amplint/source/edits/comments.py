"""Keep the comments that stand in what a fix replaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from amplint.findings.finding import Edit
from amplint.findings.rows import Rows
from amplint.util.text import LINE_END, Text

# Comments for a tool about their line: mypy, pyright and pylint, coverage, flake8 and ruff,
# bandit, PyCharm, and what formatters read. By their manuals.
TO_TOOLS = re.compile(
    r"#\s*((type|mypy|pyright|pylint|pragma|fmt|yapf|isort|ruff|amplint)\s*:"
    r"|(noqa|nosec|noinspection)\b)",
    re.IGNORECASE,
)


class Comments:
    """The comments of a file, and where they go when the code around them is replaced."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def preserve(self, edits: Sequence[Edit]) -> tuple[Edit, ...]:
        """The edits, with the comments that they would lose on lines above what they write.

        What a comment says to a tool about its line goes where the line goes.
        """
        if not any(map(self._comments, edits)):
            return tuple(edits)
        written = [line for edit in edits for line in LINE_END.split(edit.text)]
        above: list[Edit] = []
        replacements: list[Edit] = []
        for edit in sorted(edits, key=lambda edit: edit.start):
            lost = [each for each in self._comments(edit) if not _taken_from(written, each)]
            if lost and self._removes_rows_below(edit):
                row = self._text.position(edit.start).row + 1
                between = self._text.newline + _indentation(self._text.line(row))
                replacements.append(replace(edit, text="".join(between + each for each in lost)))
                continue
            replacements.append(edit)
            if lost:
                row = self._row_for_line(edit.start, edits)
                start, indentation = self._text.start(row), _indentation(self._text.line(row))
                lines = (f"{indentation}{each}{self._text.newline}" for each in lost)
                above.append(Edit(start, start, "".join(lines)))
        return (*above, *replacements)

    def _row_for_line(self, offset: int, edits: Sequence[Edit]) -> int:
        """The nearest row above which a line can be inserted, beside other edits."""
        while True:
            row = self._rows.row_for_line(self._text.position(offset).row)
            start = self._text.start(row)
            around = next((edit for edit in edits if edit.start < start <= edit.end), None)
            if around is None:
                return row
            offset = around.start  # further up

    def _comments(self, edit: Edit) -> list[str]:
        """The comments in what an edit replaces, except for those that are of no use without it."""
        if "#" not in self._text.text[edit.start : edit.end]:
            return []
        comments = self._rows.comments(edit.start, edit.end)
        whole = self._removes_rows(edit) or self._removes_rows_below(edit)
        return [each for each in comments if not (whole and TO_TOOLS.match(each))]

    def _removes_rows(self, edit: Edit) -> bool:
        """Whether an edit removes whole rows, with their ends."""
        places = (self._text.position(offset) for offset in (edit.start, edit.end))
        return not edit.text and all(place.column == 1 for place in places)

    def _removes_rows_below(self, edit: Edit) -> bool:
        """Whether an edit removes whole rows, with the end of the row above them."""
        ends = (self._text.text[offset : offset + 1] for offset in (edit.start, edit.end))
        return not edit.text and all(end in ("\r", "\n", "") for end in ends)

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self._text)


def _taken_from(lines: list[str], comment: str) -> bool:
    """Whether a line ends with a comment, which is then taken away: it is the place of one only."""
    line = next((line for line in lines if line.endswith(comment)), None)
    if line is not None:
        lines.remove(line)
    return line is not None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
