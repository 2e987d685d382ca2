"""A text with newer syntax, written as the running Python reads it; `newer_syntax` says why.

Where that can be done, each character stays in its place, and so does all that a rule goes by: what
`ast` says of the older text then holds of the newer one, and the file is analysed. Else a text of
any length shows that nothing but the version is wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import libcst as cst

from amplint.cst.newer_syntax import encoded
from amplint.cst.pairing import walk
from amplint.cst.segments import LONE_CR, Spans, parse_module
from amplint.ir.model import Newer
from amplint.util.text import why_python_refuses

RUNNING = sys.version_info[:2]
NOTHING = '""'
VISIBLE = re.compile(r"[^\r\n]")
LAST_BLANK = re.compile(r" (?=[\r\n])")
OTHER_QUOTE = {"'": '"', '"': "'"}
# What the braces of an f-string may hold in no string before Python 3.12, beside its own quotes.
BARRED = re.compile(r"[\\#]")
NAMED = "\\N"  # and what follows in braces is no value
BLANK = cst.Module([])

Node = TypeVar("Node", bound=cst.CSTNode)


class Rewriting(NamedTuple):
    """Newer syntax at [start, end) of a text, and what to write for it.

    Args:
        since: the first Python that reads it.
        what: what it is called.
        loose: what means something else, perhaps.
        exact: what means the same for all rules, with each character in its place, if there is
            such a thing.
    """

    start: int
    end: int
    since: tuple[int, int]
    what: str
    loose: str
    exact: str | None = None


def main() -> None:
    """Answers for the text on standard input."""
    newer = found(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
    if newer is not None:
        sys.stdout.write(encoded(newer))


def found(text: str, running: tuple[int, int] = RUNNING) -> Newer | None:
    """The newest syntax for which alone `ast` refuses a text, or None.

    Args:
        running: the Python that is to read it.
    """
    module = parse_module(LONE_CR.sub("\n", text))
    if module is None:
        return None
    try:
        every = [each for each in Reader(text, module).rewritings() if each.since > running]
    except Exception:  # nested too deeply
        return None
    if not every:
        return None
    newest = max(every, key=lambda each: each.since)
    outer = list(_outermost(every))
    exact = _written(text, outer, [each.exact for each in outer])
    if exact is not None and _places_stay(text, exact) and why_python_refuses(exact) is None:
        return Newer(newest.since, newest.what, exact)
    loose = _written(text, outer, [each.loose for each in outer])
    if loose is not None and why_python_refuses(loose) is None:
        return Newer(newest.since, newest.what)
    return None


def _outermost(rewritings: Iterable[Rewriting]) -> Iterator[Rewriting]:
    """The rewritings that are not within another, in order."""
    end = -1
    for each in sorted(rewritings, key=lambda each: (each.start, -each.end)):
        if each.end > end:
            yield each
            end = each.end


def _written(text: str, rewritings: Sequence[Rewriting], parts: Sequence[str | None]) -> str | None:
    """The text with parts of it in the place of others, or None if one is."""
    pieces, end = [], 0
    for rewriting, part in zip(rewritings, parts, strict=True):
        if part is None:
            return None
        pieces += [text[end : rewriting.start], part]
        end = rewriting.end
    return "".join((*pieces, text[end:]))


def _places_stay(text: str, other: str) -> bool:
    """Whether all places are the same in two texts, in characters as in UTF-8 bytes."""
    return len(text) == len(other) and all(
        one == another or (one.isascii() and another.isascii() and one not in "\r\n")
        for one, another in zip(text, other, strict=True)
    )


class Reader:
    """The parts of a text that are newer than some Python, and how to write them.

    Args:
        text: the text.
        module: the same as LibCST reads it.
    """

    def __init__(self, text: str, module: cst.Module) -> None:
        self._text = text
        self._nodes, _ = walk(module.body)
        self._spans = Spans(module, LONE_CR.sub("\n", text), 0)

    def rewritings(self) -> Iterator[Rewriting]:
        """Those of all syntax since Python 3.11. Raises where LibCST does not have the places."""
        for node in self._nodes:
            read = READERS.get(type(node).__name__)
            if read is not None:
                yield from read(self, node)

    def _place(self, node: cst.CSTNode) -> tuple[int, int]:
        place = self._spans.of(node)
        if place is None:
            raise ValueError("LibCST does not give back what it has read")
        return place

    def _code(self, node: cst.CSTNode) -> str:
        start, end = self._place(node)
        return self._text[start:end]

    # -- Python 3.11

    def except_star(self, node: cst.TryStar) -> Iterator[Rewriting]:
        for handler in node.handlers:
            star = self._text.index("*", self._place(handler)[0])
            yield Rewriting(star, star + 1, (3, 11), "`except*`", " ", " ")

    def index(self, node: cst.Index) -> Iterator[Rewriting]:
        if node.star is not None:
            start, _ = self._place(node)
            yield Rewriting(start, start + 1, (3, 11), "a `*` in brackets of an index", " ")

    def annotation(self, node: cst.Annotation) -> Iterator[Rewriting]:
        """`*args: *Ts` -> `*args: ...`: what `args` holds then is not known."""
        if isinstance(node.annotation, cst.StarredElement):
            start, end = self._place(node.annotation)
            exact = "..." + blanks(self._text[start + 3 : end]) if end - start >= 3 else "0 "
            yield Rewriting(start, end, (3, 11), "a `*` in an annotation", "0", exact)

    # -- Python 3.12, and 3.13 for defaults

    def type_parameters(self, node: cst.TypeParameters) -> Iterator[Rewriting]:
        start, end = self._place(node)
        what = "type parameters in brackets behind a name"
        # No brackets are left in which a line could end.
        exact = LAST_BLANK.sub(r"\\", blanks(self._text[start:end]))
        yield Rewriting(start, end, (3, 12), what, "", exact)

    def type_alias(self, node: cst.TypeAlias) -> Iterator[Rewriting]:
        start, end = self._place(node)
        if isinstance(node.semicolon, cst.Semicolon):
            end, _ = self._place(node.semicolon)
        exact = "pass" + blanks(self._text[start + 4 : end])
        yield Rewriting(start, end, (3, 12), "the `type` statement", "pass", exact)

    def type_parameter(self, node: cst.TypeParam) -> Iterator[Rewriting]:
        if node.default is not None:  # written with the brackets around it
            yield Rewriting(*self._place(node), (3, 13), "the default of a type parameter", "")

    def f_string(self, node: cst.FormattedString) -> Iterator[Rewriting]:
        within = [*walk([node])[0]]
        if any(isinstance(each, cst.FormattedString) and _is_of_312(each) for each in within):
            exact = self._older_f_string(node, within[1:])
            what = "what the braces of an f-string hold"
            yield Rewriting(*self._place(node), (3, 12), what, NOTHING, exact)

    def _older_f_string(
        self, node: cst.FormattedString, within: Iterable[cst.CSTNode]
    ) -> str | None:
        """The f-string with other quotes in its braces than around them, and without backslashes
        there; None where it is nested more deeply."""
        start, _ = self._place(node)
        written = list(self._code(node))
        for each in within:
            if isinstance(each, cst.SimpleString):
                older = _older_string(self._code(each), each.prefix, each.quote, node.quote)
            elif isinstance(each, cst.FormattedString):
                inner = walk([each])[0][1:]
                if NAMED in self._code(each) or any(isinstance(one, STRINGS) for one in inner):
                    return None
                older = _older_string(self._code(each), each.prefix, each.quote, node.quote)
            else:
                continue
            at = self._place(each)[0] - start
            written[at : at + len(older)] = older
        return "".join(written)

    # -- Python 3.14

    def handler(self, node: cst.ExceptHandler | cst.ExceptStarHandler) -> Iterator[Rewriting]:
        """`except A, B:` -> `except A| B:`, for rules look for names alone in it."""
        types = node.type
        if not isinstance(types, cst.Tuple) or types.lpar or node.name is not None:
            return
        for number, element in enumerate(types.elements, 1):
            if isinstance(element.comma, cst.Comma):
                start, end = self._place(element.comma)
                joint = "|" if number < len(types.elements) else " "
                what = "`except` with several types and no parentheses"
                yield Rewriting(start, end, (3, 14), what, joint, joint)

    def t_string(self, node: cst.CSTNode) -> Iterator[Rewriting]:
        yield Rewriting(*self._place(node), (3, 14), "a t-string", NOTHING)

    # -- Python 3.15

    def lazy_import(self, node: cst.CSTNode) -> Iterator[Rewriting]:
        """`lazy import a` -> `pass;import a`"""
        start, _ = self._place(node)
        from_ = "from ... " * (type(node).__name__ == "LazyImportFrom")
        what = f"`lazy {from_}import`"
        yield Rewriting(start, start + 5, (3, 15), what, "pass;", "pass;")

    def comprehension(
        self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp
    ) -> Iterator[Rewriting]:
        if isinstance(node.elt, cst.StarredElement):
            start, _ = self._place(node.elt)
            yield Rewriting(start, start + 1, (3, 15), "a `*` in a comprehension", " ")

    def starred_dict(self, node: cst.CSTNode) -> Iterator[Rewriting]:
        start = self._text.index("**", self._place(node)[0])
        yield Rewriting(start, start + 2, (3, 15), "a `**` in a comprehension", "  ")


# By name, for LibCST did not always have them all.
READERS: Mapping[str, Callable[[Reader, Any], Iterator[Rewriting]]] = {
    "Annotation": Reader.annotation,
    "ExceptHandler": Reader.handler,
    "ExceptStarHandler": Reader.handler,
    "FormattedString": Reader.f_string,
    "GeneratorExp": Reader.comprehension,
    "Index": Reader.index,
    "LazyImport": Reader.lazy_import,
    "LazyImportFrom": Reader.lazy_import,
    "ListComp": Reader.comprehension,
    "SetComp": Reader.comprehension,
    "StarredDictComp": Reader.starred_dict,
    "TemplatedString": Reader.t_string,
    "TryStar": Reader.except_star,
    "TypeAlias": Reader.type_alias,
    "TypeParam": Reader.type_parameter,
    "TypeParameters": Reader.type_parameters,
}
STRINGS = (cst.SimpleString, cst.FormattedString)


def blanks(text: str) -> str:
    """A text with blanks for all but the ends of lines."""
    return VISIBLE.sub(" ", text)


def _older_string(code: str, prefix: str, quote: str, around: str) -> str:
    """A string in the braces of an f-string, as long as before, with `_` for what may not be there.

    Args:
        quote: its own quotes.
        around: those of the f-string.
    """
    begin, end = len(prefix) + len(quote), len(code) - len(quote)
    barred, held = around[0], BARRED.sub("_", code[begin:end])
    if quote[0] == barred:
        quote = OTHER_QUOTE[barred] * len(quote)
        held = held.replace(quote[0], "_")
    return f"{prefix}{quote}{held.replace(barred, '_')}{quote}"


def _is_of_312(node: cst.FormattedString) -> bool:
    """Whether Python reads an f-string from 3.12 on for what its braces hold."""
    marks = (node.quote, "\\", "\n", "\r", "#")
    held = [part for part in node.parts if isinstance(part, cst.FormattedStringExpression)]
    codes = map(BLANK.code_for_node, held)
    return any(mark in code for code in codes for mark in marks) or any(map(_is_deep, held))


def _is_deep(held: cst.FormattedStringExpression) -> bool:
    """Whether the format of a value holds a value that has a format with one in it, too."""
    return any(
        isinstance(part, cst.FormattedStringExpression) and bool(part.format_spec)
        for part in held.format_spec or ()
    )
