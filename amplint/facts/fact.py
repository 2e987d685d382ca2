"""The frame of facts: a fact says what it requires, and is built once, when it is first asked for.

A fact is one class, in this package or, for one rule, beside that rule. Rules ask for it by that
class: `at.ask(Hotness)` for a fact about nodes, `at.fact(ProjectText)` for any other.
"""

from __future__ import annotations

import ast
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from amplint.inference import Inference
from amplint.inference.incremental.continuation import FixpointEdit
from amplint.ir.ast_cache import NodePlace
from amplint.values.atoms import Evidence, Shows


class Fact:
    """Knowledge about a linked project.

    `about`: the kind of `ast` node that it has answers about; None of the project as a whole.
    `requires`: the facts that it is built from, by the names under which it has them: see
    `Required`.
    `sentence`: of a fact of one rule, its sentence for `amplint.output.question_text`.
    """

    about: ClassVar[type[ast.AST] | None] = None
    requires: ClassVar[Mapping[str, type[Fact]]] = {}
    sentence: ClassVar[str] = ""

    def __init__(self, inference: Inference, **required: Fact) -> None:
        self.inference = inference
        vars(self).update(required)

    def why(self, function: str, number: int, text: str, kind: Shows) -> Evidence:
        """The evidence that a node is."""
        return Evidence(self.inference.place(function, number), text, kind)

    def follow(self, inference: Inference, _: FixpointEdit) -> bool:
        """Update after an edit; False, or an exception: rebuild.

        The facts that it requires have been updated before.
        """
        self.inference = inference
        return False


Answer_co = TypeVar("Answer_co", covariant=True)
Known = TypeVar("Known", bound=Fact)
Result = TypeVar("Result")


class Required(Generic[Known]):
    """A fact that another one is built from, and has under this name.

    Ex) _hotness = Required(Hotness)
    """

    def __init__(self, kind: type[Known]) -> None:
        self.kind = kind

    def __set_name__(self, owner: type[Fact], name: str) -> None:
        owner.requires = {**owner.requires, name: self.kind}

    def __get__(self, fact: Fact, _: type[Fact]) -> Known:
        raise AttributeError(f"it was built without {self.kind.__name__}")


class NodeFact(Fact, ABC, Generic[Answer_co]):
    """A fact about the nodes of value graphs."""

    about: ClassVar[type[ast.AST]] = ast.expr

    @abstractmethod
    def of(self, at: NodePlace) -> Answer_co | None:
        """The answer about a node of an evaluated function; None where nothing is known."""


class CallFact(NodeFact[Answer_co]):
    """A fact about what a call does."""

    about = ast.Call


class PlaceFact(NodeFact[Answer_co]):
    """A fact about where a node stands. A node that stands in no graph has the answer of the
    innermost one around it that does."""

    about = ast.AST


class Facts:
    """The facts of a project that were asked for.

    A function that a fact fails on is given up: then all facts are built anew, without it.
    """

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self._built: dict[type[Fact], Any] = {}  # one of that class, or what building it raised
        self._given_up = 0

    def after(self, inference: Inference, edit: FixpointEdit) -> Facts:
        """The facts after an edit: those that can go on are built already. These here must not be
        used afterwards."""
        facts = Facts(inference)
        for kind, built in self._built.items():  # after what it requires
            if isinstance(built, Fact) and facts._built.keys() >= {*kind.requires.values()}:
                with contextlib.suppress(Exception):  # it is reported when the fact is built anew
                    if built.follow(inference, edit):
                        facts._built[kind] = built
        return facts

    @property
    def built(self) -> Collection[type[Fact]]:
        """The facts that are built already."""
        return self._built.keys()

    def __getitem__(self, kind: type[Known]) -> Known:
        """The fact of a class. Raises what its constructor has raised, each time."""
        if len(self.inference.failures) > self._given_up:
            self._forget()
        fact: Known | Exception | None = self._built.get(kind)
        if fact is None:
            fact = self._first(kind)
        if isinstance(fact, Exception):
            raise fact.with_traceback(None)
        return fact

    def _first(self, kind: type[Known]) -> Known | Exception:
        """The fact of a class, built and kept, or what its constructor has raised."""
        built: Known | Exception
        try:
            built = self.surviving(kind, lambda: self._build(kind))
        except Exception as error:
            built = error
        if len(self.inference.failures) > self._given_up:
            self._forget()
        self._built[kind] = built
        return built

    def surviving(self, kind: type[Fact], work: Callable[[], Result]) -> Result:
        """The result of work that a fact does on all functions, except for those it fails on. (One
        of another package fails with the rule that asks for it: that is no fault of amplint.)"""
        if not kind.__module__.startswith("amplint."):
            return work()
        return self.inference.surviving(f"the analysis {kind.__name__}", work)

    def _build(self, kind: type[Known]) -> Known:
        while True:
            failures = len(self.inference.failures)
            required = {name: self[each] for name, each in kind.requires.items()}
            if len(self.inference.failures) == failures:  # else some are of before
                return kind(self.inference, **required)

    def _forget(self) -> None:
        """Forget what was built when fewer functions had been given up."""
        self._given_up = len(self.inference.failures)
        self._built.clear()
