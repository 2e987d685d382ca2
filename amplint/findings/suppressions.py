"""Suppression comments: `# amplint: ignore[AMP101] reason`, `# noqa: AMP101`.

- `# amplint: ignore[AMP101, data-parallel] why` holds for the line it stands on; at the first or
  the last line of a statement, for all of the statement's lines; on a line of its own, for the
  line that follows. Without brackets it holds for every rule.
- `# amplint: ignore-file[AMP101] why` holds for the whole file.
- `# noqa: AMP101` and a bare `# noqa` hold for the line they stand on, or all of the statement.

A statement here is a logical line: the header of a `with` or a `for`, not its body.
"""

from __future__ import annotations

import itertools
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from amplint.findings.finding import Finding
from amplint.findings.rows import Rows
from amplint.util.lazy import lazy_pattern
from amplint.util.text import Text

MAY_SUPPRESS = lazy_pattern(r"amplint:|noqa", re.IGNORECASE)
# One comment may hold several remarks, each behind a "#" of its own.
NEXT_REMARK = lazy_pattern(r"\s#\s*(?=noqa\b|[a-z][\w-]*:)", re.IGNORECASE)
AMPLINT = lazy_pattern(
    r"#\s*amplint:\s*(?P<verb>[\w-]*)\s*(?:\[(?P<words>[^\]]*)\])?(?P<reason>.*)", re.IGNORECASE
)
NOQA = lazy_pattern(
    r"#\s*noqa(?:\s*:\s*(?P<words>[A-Z]+\d+\b(?:[\s,]+[A-Z]+\d+\b)*)|(?!\s*:)\b)", re.IGNORECASE
)
WORD = lazy_pattern(r"[^\s,]+")
OUR_CODE = lazy_pattern(r"AMP\d+", re.IGNORECASE)
VERBS = ("ignore", "ignore-file")


@dataclass(frozen=True)
class Word:
    """A code or a rule's name in a comment, and the offsets where it stands."""

    text: str
    start: int
    end: int

    def means(self, finding: Finding) -> bool:
        word = self.text.lower()
        return any(word in (each.code.lower(), each.name) for each in finding.names)


@dataclass(frozen=True)
class Suppression:
    """One remark in a comment.

    Args:
        kind: "ignore", "ignore-file" or "noqa"; "" for one to amplint that is not understood.
        start: the offset of its `#`.
        end: the offset of its end, the reason included.
        words: the codes or names in it; None for every rule.
        rows: the rows it stands at; None for the whole file.
    """

    kind: str
    start: int
    end: int
    words: tuple[Word, ...] | None = None
    rows: frozenset[int] | None = frozenset()


@dataclass(frozen=True)
class Suppressions:
    """All suppression comments of a text.

    Args:
        text: what they stand in.
        others: the codes of rules that other packages bring. (All that begin with AMP are
            amplint's.)
    """

    text: Text
    others: frozenset[str] = frozenset()

    def suppresses(self, finding: Finding) -> bool:
        """Whether a comment suppresses the finding."""
        return any(self.hides(one, finding) for one in self.all)

    def covers(self, one: Suppression, finding: Finding) -> bool:
        """Whether the comment holds for the place of the finding, whatever its words are."""
        return one.rows is None or not one.rows.isdisjoint(self.rows.about(finding))

    def hides(self, one: Suppression, finding: Finding) -> bool:
        """Whether this comment suppresses the finding."""
        if not one.kind or not self.covers(one, finding):
            return False
        return one.words is None or any(word.means(finding) for word in one.words)

    def is_code(self, word: str) -> bool:
        """Whether a word in `# noqa` can only be meant for amplint."""
        return bool(OUR_CODE.fullmatch(word)) or word.upper() in self.others

    @cached_property
    def all(self) -> tuple[Suppression, ...]:
        lowered = self.text.text.lower()  # to search in any case takes ten times that
        if "amplint:" not in lowered and "noqa" not in lowered:
            return ()  # spares most files the tokenizer
        return tuple(self._read())

    @cached_property
    def rows(self) -> Rows:
        return Rows(self.text)

    def _read(self) -> Iterator[Suppression]:
        for token in self.rows.tokens:
            if token.type != tokenize.COMMENT or not MAY_SUPPRESS.search(token.string):
                continue
            row, column = token.start
            offset = self.text.start(row) + column
            ends = [match.start() for match in NEXT_REMARK.finditer(token.string)]
            for begin, end in itertools.pairwise([0, *ends, len(token.string)]):
                remark = token.string[begin:end]
                lead = len(remark) - len(remark.lstrip())
                suppression = self._parse(remark[lead:], offset + begin + lead, row)
                if suppression is not None:
                    yield suppression

    def _parse(self, remark: str, offset: int, row: int) -> Suppression | None:
        end = offset + len(remark)
        if match := NOQA.match(remark):
            return Suppression("noqa", offset, end, words_of(match, offset), frozenset({row}))
        if match := AMPLINT.match(remark):
            kind = match["verb"].lower()
            words = words_of(match, offset)
            reason = match["reason"].strip()
            if kind not in VERBS or words == () or reason.startswith("["):
                return Suppression("", offset, end)
            if words is None and self._begins_with_code(reason):
                return Suppression("", offset, end)
            if kind == "ignore-file":
                return Suppression(kind, offset, end, words, None)
            if not self.text.text[self.text.start(row) : offset].strip():
                row = self.rows.following(row)
            return Suppression(kind, offset, end, words, frozenset({row}))
        return None

    def _begins_with_code(self, reason: str) -> bool:
        """Whether `ignore AMP101` stands there, which means `ignore[AMP101]`."""
        word = WORD.match(reason)
        return bool(OUR_CODE.match(reason)) or bool(word and word[0].upper() in self.others)


def words_of(match: re.Match[str], offset: int) -> tuple[Word, ...] | None:
    """The words in the group `words` of a match that begins at `offset` of the text."""
    if match["words"] is None:
        return None
    start = offset + match.start("words")
    return tuple(
        Word(word.group(), start + word.start(), start + word.end())
        for word in WORD.finditer(match["words"])
    )
