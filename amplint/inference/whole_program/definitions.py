"""The definitions of a project: its functions and its classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from amplint.ir.file_set import Files
from amplint.ir.model import ClassFacts, FileFacts, FunctionFacts

Facts = TypeVar("Facts", FunctionFacts, ClassFacts)


class DefinitionsOfKind(dict[str, Facts]):
    """The definitions of one kind in files, by id.

    Those of another file are added on their first use, and so is a lambda: its file knows it once
    the graph around it is built.
    """

    def __init__(self, files: Files, defined: Callable[[FileFacts], Mapping[str, Facts]]) -> None:
        super().__init__()
        self._files = files
        self._defined: Callable[[FileFacts], Mapping[str, Facts]] = defined
        for path in sorted(files.own):
            self.update(defined(files[path].facts))

    def __missing__(self, identity: str) -> Facts:
        facts = self._files[identity.partition("::")[0]].facts
        definition = self[identity] = self._defined(facts)[identity]
        return definition


class Definitions:
    """The functions and classes of files, each by its id."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.functions = DefinitionsOfKind(files, lambda facts: facts.functions)
        self.classes = DefinitionsOfKind(files, lambda facts: facts.classes)

    def own_functions(self) -> Iterator[FunctionFacts]:
        """The functions that the files define which are analysed."""
        for file in self.files.own.values():
            yield from file.facts.functions.values()

    def own_classes(self) -> Iterator[ClassFacts]:
        """The classes that these define."""
        for file in self.files.own.values():
            yield from file.facts.classes.values()
