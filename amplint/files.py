"""The files that one analysis sees: its own, and those that they lead to.

An analysis links its own files. What they import is indexed when somebody asks for it; of all
other files only the text is looked at, where a rule asks whether something is written anywhere.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from amplint.index import File, aliases, words_of
from amplint.names import Modules
from amplint.text import LINE_END, code_of

# What is imported, read off the text: a word too many only has a file's text looked at.
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<dots>\.*)(?P<source>[\w.]*)[ \t]+import\b"
    r"|import[ \t]+(?P<names>[\w., \t]+))",
    re.MULTILINE,
)
STAR = re.compile(r"\bimport[ \t]*\(?[ \t]*\*")


class Files(Mapping[str, File]):
    """The files of a project by root-relative path, indexed on demand.

    Args:
        own: the files that are analysed, indexed.
        others: the texts of the files of the project that are not.
    """

    def __init__(self, own: Mapping[str, File], others: Mapping[str, str] | None = None) -> None:
        self.own = dict(own)
        self._others = dict(others or {})
        self._indexed: dict[str, File] = {}
        self._words: dict[str, frozenset[str]] = {}

    def __getitem__(self, path: str) -> File:
        if path in self.own:
            return self.own[path]
        if path not in self._indexed:
            self._indexed[path] = indexed_or_empty(path, self._others[path])
        return self._indexed[path]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self._others

    def __len__(self) -> int:
        return len(self.own) + len(self._others)

    @cached_property
    def modules(self) -> Modules:
        """What imports mean among these files."""
        return Modules(self)

    @property
    def used(self) -> frozenset[str]:
        """The files of others that were indexed because something led to them."""
        return frozenset(self._indexed)

    def may_bind(self, path: str, name: str) -> bool:
        """Whether a module may have a name: its text defines it, or names it without using it, or
        a star may bring it."""
        text = self._others.get(path)
        if text is None:
            return True
        if STAR.search(text) is not None:
            return True
        if hasattr(builtins, name):  # such as "set", a word of every comment
            bound = rf"^(?:def|class)[ \t]+{name}\b|^{name}[ \t]*=|^from\b.*\b{name}\b"
        else:
            bound = rf"\b(?:def|class)[ \t]+{name}\b|\b{name}\b(?![ \t]*[.(\[])"
        return re.search(bound, text, re.MULTILINE) is not None

    def may_match(self, path: str, pattern: str) -> bool:
        """Whether the text of a file that is not indexed yet matches; else it is worth a look."""
        text = self._others.get(path)
        return text is None or re.search(pattern, text) is not None

    def words(self, path: str) -> frozenset[str]:
        """The identifiers in the code of a file."""
        if path in self.own:
            return self.own[path].facts.words
        if path not in self._words:
            self._words[path] = words_of(code_of(self._others[path]))
        return self._words[path]

    def holding(self, *words: str) -> Iterator[str]:
        """The files whose code holds all these identifiers."""
        for path in self:
            text = self._others.get(path)
            if (text is None or all(word in text for word in words)) and self.words(
                path
            ).issuperset(words):
                yield path

    def matching(self, expression: re.Pattern[str]) -> Iterator[str]:
        """The files of which a line matches."""
        for path in self:
            lines = self.own[path].lines if path in self.own else LINE_END.split(self._others[path])
            if any(map(expression.search, lines)):
                yield path

    def with_aliases(self, words: Iterable[str]) -> frozenset[str]:
        """The words, and every name under which the files may mean one of them."""
        known = set(words)
        stack = list(known)
        while stack:
            more = self._aliases.get(stack.pop(), set()) - known
            known |= more
            stack.extend(more)
        return frozenset(known)

    @cached_property
    def _aliases(self) -> Mapping[str, set[str]]:
        """By name: the other names under which some file knows it."""
        names: dict[str, set[str]] = {}
        for pairs in self._pairs_of_names():
            for old, new in pairs:
                names.setdefault(old, set()).add(new)
        return names

    def _pairs_of_names(self) -> Iterator[Collection[tuple[str, str]]]:
        for file in self.own.values():
            yield file.facts.aliases
        imported = set(self._imported())
        for path, text in self._others.items():
            if path in imported:
                yield frozenset(aliases(code_of(text)))

    def _imported(self) -> Iterator[str | None]:
        """The files of the project that its own import."""
        for path, file in self.own.items() if self._others else ():
            for found in IMPORT.finditer("\n".join(file.lines)):
                if found["dots"]:
                    yield self.modules.relative(path, len(found["dots"]), found["source"])
                for dotted in re.findall(r"[\w.]+", found["names"] or found["source"]):
                    yield self.modules.absolute(dotted, path)


def indexed_or_empty(path: str, text: str) -> File:
    """The file; one that Python cannot read has no names. (That it cannot is reported where it is
    among the files of an analysis.)"""
    try:
        return File(path, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return File(path, "")
