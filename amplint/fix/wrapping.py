"""Wrap the lines that fixes have made longer than the project's formatter, or the file, allows.

As ruff and black do it: the content of a bracket goes to a line of its own, or, where that is still
too long, each of its elements does, with a comma behind the last one. A tuple that is assigned or
returned gets parentheses, and each element a line. A line that fits in no such way stays long, and
so does one with a comment, which may be about the line that it stands on. What is kept from
formatters, between `# fmt: off` and `# fmt: on` or by `# fmt: skip`, stays as it is.
"""

from __future__ import annotations

import ast
import io
import itertools
import keyword
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from tokenize import TokenInfo

from amplint.claim.finding import Edit, edited
from amplint.project.line_length import DEFAULT
from amplint.util.line_diff import changes
from amplint.util.text import Text

OPENING, CLOSING = "([{", ")]}"
STARTS, ENDS = {"FSTRING_START", "TSTRING_START"}, {"FSTRING_END", "TSTRING_END"}
NOT_SPLIT = {"for", "lambda", "async"}  # a comma of theirs is none between elements
NOT_IN_TUPLE = {"lambda", "yield", ";", ":"}  # their commas may be no tuple's
STEP = "    "
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE}  # the two last end behind a comment
FMT_OFF = re.compile(r"#\s*(fmt:\s*off|yapf:\s*disable)\s*")
FMT_ON = re.compile(r"#\s*(fmt:\s*on|yapf:\s*enable)\s*")
FMT_SKIP = re.compile(r"#\s*fmt:\s*skip\b")


@dataclass(frozen=True)
class Bracket:
    """A pair of brackets on one line, by the columns where they stand.

    Args:
        commas: the columns of those between its elements.
        splits: whether each element may have a line.
        ends_with_comma: whether a comma behind the last element changes nothing.
    """

    start: int
    end: int
    commas: tuple[int, ...]
    splits: bool
    ends_with_comma: bool


def own_width(text: Text) -> int:
    """How long a file lets its lines be, where no settings say so: as its longest line of code is,
    and at least as formatters do by themselves. They split no string: a line with one says nothing.
    """
    if all(len(line) <= DEFAULT for line in _lines(text)):
        return DEFAULT
    tokens = _tokens(text)
    strings = {row for t in tokens if _is_string(t) for row in range(t.start[0], t.end[0] + 1)}
    ends = (t.end[1] for t in tokens if t.type not in NO_CODE and t.end[0] not in strings)
    return max((DEFAULT, *ends))


def wrapped(before: Text, after: str, chosen: int | None) -> str:
    """The text `after`, with those lines wrapped that are not so long in `before`.

    Args:
        chosen: how long lines may be; None where no settings say so.
    """
    text = Text(after)
    both = _lines(before), _lines(text)
    if not _has_longer(*both, chosen or DEFAULT):
        return after
    width = chosen or own_width(before)
    rows = list(_rows(*both, width))
    tokens = _tokens(text) if rows else []
    by_row = _by_row(tokens)
    kept = set(_kept_as_it_is(tokens))
    step = _step(by_row)
    edits = []
    for row in itertools.filterfalse(kept.__contains__, rows):
        lines = _wrapped(text.line(row), by_row.get(row, ()), step, width)
        if lines:
            start = text.start(row)
            edits.append(Edit(start, start + len(text.line(row)), before.newline.join(lines)))
    new = edited(after, edits)
    return new if edits and _means_the_same(after, new) else after


def _lines(text: Text) -> list[str]:
    return [text.line(row) for row in range(1, text.rows + 1)]


def _has_longer(before: Sequence[str], after: Sequence[str], width: int) -> bool:
    """Whether there is a line that is too long and was not there before."""
    known = set(before)
    return any(len(line) > width and line not in known for line in after)


def _rows(before: Sequence[str], after: Sequence[str], width: int) -> Iterator[int]:
    """The rows that are too long, and not longer than allowed before."""
    if not _has_longer(before, after, width):
        return
    for i, j, start, end in changes(before, after):
        if all(len(line) <= width for line in before[i:j]):
            yield from (row + 1 for row in range(start, end) if len(after[row]) > width)


def _tokens(text: Text) -> Sequence[TokenInfo]:
    """The tokens of a text; none of what is no Python."""
    found: list[TokenInfo] = []
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text.text, newline="").readline):
            kind = tokenize.tok_name[token.type]
            within, depth = depth, depth + (kind in STARTS) - (kind in ENDS)
            if within and depth and not kind.endswith("STRING_MIDDLE"):
                continue  # code within an f-string, which only Python 3.12 splits
            found.append(token)
    except (tokenize.TokenError, SyntaxError):
        return []
    return found


def _is_string(token: TokenInfo) -> bool:
    return token.type == tokenize.STRING or tokenize.tok_name[token.type].endswith("STRING_MIDDLE")


def _by_row(tokens: Iterable[TokenInfo]) -> Mapping[int, Sequence[TokenInfo]]:
    """The tokens that begin or end in each row."""
    found: dict[int, list[TokenInfo]] = defaultdict(list)
    for token in tokens:
        for row in {token.start[0], token.end[0]}:
            found[row].append(token)
    return found


def _kept_as_it_is(tokens: Iterable[TokenInfo]) -> Iterator[int]:
    """The rows that no formatter may touch, as black and ruff understand comments. Where a block
    ends before `# fmt: on`, they go on, and more is kept here."""
    off, skipped, first = False, False, 0
    for token in tokens:
        row = token.start[0]
        if token.type == tokenize.COMMENT:
            is_alone = token.line.lstrip().startswith("#")
            skipped |= FMT_SKIP.search(token.string) is not None
            if is_alone and FMT_OFF.fullmatch(token.string):
                off = True
            elif is_alone and FMT_ON.fullmatch(token.string):
                off = False
        elif token.type == tokenize.NEWLINE:
            if skipped or off:
                yield from range(first or row, row + 1)
            skipped, first = False, 0
        elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            first = first or row


def _step(by_row: Mapping[int, Sequence[TokenInfo]]) -> str:
    """By how much a file indents: as its first block does."""
    tokens = (token for row in sorted(by_row) for token in by_row[row])
    return next((token.string for token in tokens if token.type == tokenize.INDENT), STEP)


def _wrapped(line: str, tokens: Sequence[TokenInfo], step: str, width: int) -> list[str]:
    """The lines to put in the place of one; none if there is no way."""
    indent = line[: len(line) - len(line.lstrip())]
    start, commas = _bare_tuple(tokens)
    if commas:
        places = [start, *commas, len(line)]
        elements = [line[i:j].strip(" ,") for i, j in itertools.pairwise(places)]
        lines = [f"{line[:start]} (", *(f"{indent}{step}{each}," for each in elements if each)]
        if all(len(each) <= width for each in lines):
            return [*lines, f"{indent})"]
    for one in sorted(_brackets(tokens), key=lambda one: one.start - one.end):
        head, body, tail = line[: one.start + 1], line[one.start + 1 : one.end], line[one.end :]
        inner, last = indent + step, indent + tail
        ways = [[head, inner + body.strip(), last]]
        if one.splits:
            places = [one.start, *one.commas, one.end]
            elements = [line[start + 1 : end].strip() for start, end in itertools.pairwise(places)]
            elements = [each for each in elements if each]
            comma = "," if one.ends_with_comma else ""
            each_one = [f"{inner}{each}," for each in elements[:-1]]
            ways.append([head, *each_one, f"{inner}{elements[-1]}{comma}", last])
        for lines in ways:
            if all(len(each) <= width for each in lines):
                return lines
    return []


def _brackets(tokens: Sequence[TokenInfo]) -> list[Bracket]:
    """The outermost pairs of brackets that hold something; none if the line cannot be split."""
    if not tokens or any(
        token.type == tokenize.COMMENT or token.start[0] != token.end[0]
        for token in tokens
        if token.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    ):
        return []
    found: list[Bracket] = []
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.type != tokenize.OP:
            continue
        if token.string in OPENING:
            opened.append(index)
        elif token.string in CLOSING and opened:
            start = opened.pop()
            if not opened and start + 1 < index:
                found.append(_bracket(tokens, start, index))
    return found


def _bare_tuple(tokens: Sequence[TokenInfo]) -> tuple[int, list[int]]:
    """A tuple without parentheses that a line assigns or returns: the column where it begins, and
    those of its commas."""
    start, commas, depth = 0, list[int](), 0
    if not _brackets(tokens) or tokens[-1].type != tokenize.NEWLINE:
        return 0, []
    for token in tokens:
        if token.type == tokenize.OP:
            depth += (token.string in OPENING) - (token.string in CLOSING)
        if depth < 0:  # the statement begins above
            return 0, []
        if depth == 0 and token.string in ("=", "return"):
            start, commas = token.end[1], []
        elif depth == 0 and token.string == ",":
            commas.append(token.start[1])
        elif depth == 0 and token.string in NOT_IN_TUPLE:
            return 0, []
    return start, commas if start else []


def _bracket(tokens: Sequence[TokenInfo], start: int, end: int) -> Bracket:
    depth = 0
    commas: list[int] = []
    splits = True
    for token in tokens[start + 1 : end]:
        if token.type == tokenize.OP:
            depth += (token.string in OPENING) - (token.string in CLOSING)
        if depth == 0 and token.string == ",":
            commas.append(token.start[1])
        splits &= depth > 0 or token.string not in NOT_SPLIT
    return Bracket(
        tokens[start].start[1],
        tokens[end].start[1],
        tuple(commas),
        splits,
        bool(commas) or _is_call(tokens, start),
    )


def _is_call(tokens: Sequence[TokenInfo], start: int) -> bool:
    """Whether an opening bracket is one of arguments."""
    before = tokens[start - 1] if start else None
    if before is None or tokens[start].string != "(":
        return False
    named = before.type == tokenize.NAME and not keyword.iskeyword(before.string)
    return named or before.string in CLOSING


def _means_the_same(one: str, other: str) -> bool:
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
