"""The files that one analysis sees: its own, and those that they lead to.

An analysis links its own files. What they import is indexed when somebody asks for it; of all
other files only the text is looked at, where a rule asks whether something is written anywhere.
What was asked of those texts is kept: the analysis holds for as long as the answers do.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from amplint.frameworks.configuration import StatedPrecision
from amplint.frameworks.models import Models, models_with
from amplint.ir.file_index import File, words_of
from amplint.ir.module_names import ProjectModules
from amplint.project.modes import Assumption
from amplint.project.observations import ObservedFunction
from amplint.util.text import code_of, has_line

STAR = re.compile(r"import(?<=\bimport)[ \t]*\(?[ \t]*\*")  # a letter first, to search for
# What assigns an attribute, as text: other parts of a project are not indexed to be asked this.
STORE = r"(?<!\bself)\.{0}\b(?:[^=\n()]*[^=\n!<>()])?=(?!=)"


class Files(Mapping[str, File]):
    """The files of a project by root-relative path, indexed on demand.

    Args:
        own: the files that are analysed, indexed.
        others: the texts of the files of the project that are not.
        index: returns one of these, indexed; raises as `File` does.
        presumes: what is presumed of callers out of sight: an assumption of the settings, True to
            go by what the files show, False for nothing.
        models: the texts of the project's own models of frameworks.
        precisions: what configuration files ask of frameworks.
        observed: what runs have shown of functions, by id.
    """

    def __init__(
        self,
        own: Mapping[str, File],
        others: Mapping[str, str] | None = None,
        index: Callable[[str, str], File] = File,
        presumes: Assumption | bool = True,
        models: Sequence[str] = (),
        precisions: Sequence[StatedPrecision] = (),
        observed: Mapping[str, ObservedFunction] = MappingProxyType({}),
    ) -> None:
        self.own = dict(own)
        self.presumes = presumes
        self.own_models = tuple(models)
        self.precisions = tuple(precisions)
        self.observed = observed
        self.answers: dict[tuple[str, str], dict[str, bool]] = {}
        self._others = dict(others or {})
        self._indexed: dict[str, File] = {}
        self._index = index
        self._by_word: dict[str, Sequence[str]] = {}

    def with_own(self, own: Mapping[str, File]) -> Files:
        """A project that has these files of its own, and none besides."""
        context = self.presumes, self.own_models, self.precisions, self.observed
        return Files(own, {}, self._index, *context)

    def __getitem__(self, path: str) -> File:
        if path in self.own:
            return self.own[path]
        if path not in self._indexed:
            try:
                self._indexed[path] = self._index(path, self._others[path])
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                # Where it is analysed itself, this is reported; here it has no names.
                self._indexed[path] = File(path, "")
        return self._indexed[path]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self._others

    def __len__(self) -> int:
        return len(self.own) + len(self._others)

    @cached_property
    def models(self) -> Models:
        """The models of the frameworks that call these files."""
        return models_with(self.own_models)

    @property
    def asked_by_files(self) -> tuple[str, ...]:
        """The precisions that configuration files ask for, whatever stands around these in them."""
        return tuple(sorted({f"{each.framework}={each.dtype}" for each in self.precisions}))

    @cached_property
    def modules(self) -> ProjectModules:
        """The meaning of imports among these files."""
        return ProjectModules(self)

    @property
    def used(self) -> frozenset[str]:
        """The files of others of which more was asked than `answers` says."""
        return frozenset(self._indexed)

    # -- what is asked of texts

    def ask(self, question: str, about: str, path: str) -> bool:
        """The answer to one of `QUESTIONS` about the text of another file."""
        answers = self.answers.setdefault((question, about), {})
        if path not in answers:
            answers[path] = QUESTIONS[question](self._others[path], about)
        return answers[path]

    def may_bind(self, path: str, name: str) -> bool:
        """Whether a module may have a name."""
        if path in self.own or path in self._indexed:
            return True
        return self.ask("has star", "", path) or self.ask("binds", name, path)

    def another_stores(self, attribute: str) -> bool:
        """Whether a file that is not its own assigns the attribute of something but `self`."""
        return any(self.ask("stores", attribute, path) for path in self._others)

    def own_holding(self, word: str) -> Sequence[str]:
        """Its own files whose code holds an identifier."""
        if word not in self._by_word:
            self._by_word[word] = [p for p, file in self.own.items() if word in file.facts.words]
        return self._by_word[word]

    def holding(self, *words: str) -> Iterator[str]:
        """The files whose code holds all these identifiers."""
        first, *more = words
        yield from (
            path for path in self.own_holding(first) if self.own[path].facts.words.issuperset(more)
        )
        about = " ".join(words)
        yield from (path for path in self._others if self.ask("holds", about, path))

    def matching(self, pattern: str, words: Iterable[str] = ()) -> Iterator[str]:
        """The files of which a line matches the regular expression; see `text.has_line`."""
        own = self.own.items()
        yield from (path for path, file in own if has_line(file.text, pattern, words))
        about = "\n".join((pattern, *words))
        yield from (path for path in self._others if self.ask("has line", about, path))


def binds(text: str, name: str) -> bool:
    """Whether a module may have a name: its text defines it, or names it without using it."""
    if name not in text:
        return False
    if hasattr(builtins, name):  # such as "set", a word of every comment
        bound = rf"^(?:def|class)[ \t]+{name}\b|^{name}[ \t]*=|^from\b.*\b{name}\b"
    else:
        bound = rf"\b(?:def|class)[ \t]+{name}\b|\b{name}\b(?![ \t]*[.(\[])"
    return re.search(bound, text, re.MULTILINE) is not None


def holds(text: str, words: str) -> bool:
    """Whether the code holds all of the words."""
    parts = words.split()
    return all(word in text for word in parts) and words_of(code_of(text)).issuperset(parts)


def has_star(text: str, _: str) -> bool:
    """Whether a module may have names that others bind."""
    return STAR.search(text) is not None


def has_line_of(text: str, about: str) -> bool:
    pattern, *words = about.split("\n")
    return has_line(text, pattern, words)


def stores(text: str, attribute: str) -> bool:
    # (The pattern begins with no letter that could be searched for: that took a tenth of a part.)
    return f".{attribute}" in text and re.search(STORE.format(attribute), text) is not None


# What may be asked of a text, by the name under which the question is kept.
QUESTIONS: Mapping[str, Callable[[str, str], bool]] = {
    "binds": binds,
    "has star": has_star,
    "holds": holds,
    "has line": has_line_of,
    "stores": stores,
}
