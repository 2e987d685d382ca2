"""Edits of suppression comments: codes and comments to add, and unused ones to remove."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from amplint.findings.finding import Edit
from amplint.findings.rows import Rows
from amplint.findings.suppressions import Suppression, Word
from amplint.util.text import Text

TAB = 4  # columns, as ruff counts them


def with_codes(text: Text, one: Suppression, codes: Iterable[str], reason: str) -> Iterator[Edit]:
    """The edits that add codes to a comment, and the reason if it does not give it already."""
    words = one.words or ()
    last = words[-1].end
    yield Edit(last, last, "".join(f", {code}" for code in sorted(codes)))
    bracket = text.text.index("]", last) + 1
    old_reason = text.text[bracket : one.end].strip()
    end = bracket + len(text.text[bracket : one.end].rstrip())
    if reason not in old_reason:
        yield Edit(end, end, f"; {reason}" if old_reason else f" {reason}")


def new_comments(
    rows: Rows, at_end: Mapping[int, Iterable[str]], reason: str, width: int
) -> Iterator[Edit]:
    """The edits for new comments: at the ends of rows, else before their statements."""
    text = rows.text
    before: dict[int, set[str]] = defaultdict(set)
    for row, codes in at_end.items():
        line = text.line(row).rstrip()
        comment = f"  {_comment(codes, reason)}"
        if len(line.expandtabs(TAB)) + len(comment) <= width:
            start = text.start(row)
            yield Edit(start + len(line), start + len(text.line(row)), comment)
        else:
            before[rows.statement(row)[0]].update(codes)
    for row, codes in before.items():
        line = text.line(row)
        indent = line[: len(line) - len(line.lstrip())]
        start = text.start(row)
        yield Edit(start, start, f"{indent}{_comment(codes, reason)}{text.newline}")


def _comment(codes: Iterable[str], reason: str) -> str:
    return f"# amplint: ignore[{', '.join(sorted(codes))}] {reason}"


def removal(text: Text, one: Suppression, unused: Sequence[Word] = ()) -> Iterator[Edit]:
    """The edits that take the unused words out, or all of the remark if none is left."""
    remaining = [word for word in one.words or () if word not in unused]
    if not remaining:
        yield _whole(text, one)
        return
    words = one.words or ()
    for word, following in itertools.pairwise(words):
        if word in unused and word.end < remaining[-1].start:
            yield Edit(word.start, following.start, "")
    if remaining[-1].end < words[-1].end:
        yield Edit(remaining[-1].end, words[-1].end, "")


def _whole(text: Text, one: Suppression) -> Edit:
    """The edit that takes a remark out."""
    row = text.position(one.start).row
    line_start, line_end = text.start(row), text.start(row) + len(text.line(row))
    if one.kind == "noqa" and one.words and text.text[one.words[-1].end : one.end].strip():
        return Edit(one.start + 1, one.words[-1].end, "")  # other tools' readers keep the rest
    before, after = text.text[line_start : one.start], text.text[one.end : line_end]
    if not before.strip() and not after.strip():
        return Edit(line_start, text.start(row + 1), "")
    if after.strip():
        return Edit(one.start, line_end - len(after.lstrip()), "")
    return Edit(line_start + len(before.rstrip()), line_end, "")
