"""The writers of a key: the functions that are evaluated when somebody reads it."""

from __future__ import annotations

from collections.abc import Mapping

from amplint.inference.queue import Queue
from amplint.inference.state import Key, State
from amplint.inference.store import Store
from amplint.inference.whole_program.class_hierarchy import ClassHierarchy
from amplint.inference.whole_program.definitions import Definitions
from amplint.inference.whole_program.text_questions import ProjectTexts


class Writers:
    """The writers of keys, found by the text of the project."""

    def __init__(
        self,
        definitions: Definitions,
        states: Mapping[str, State],
        queue: Queue,
        store: Store,
        hierarchy: ClassHierarchy,
        texts: ProjectTexts,
    ) -> None:
        self._functions = definitions.functions
        self._classes = definitions.classes
        self._states = states
        self._queue = queue
        self._store = store
        self._hierarchy = hierarchy
        self._texts = texts
        self._called: set[str] = set()  # names whose callers have been asked for

    def demand(self, key: Key) -> None:
        """Queue the writers of a key."""
        kind, owner, name = key
        if kind == "name" and owner in self._states:
            self._follow(owner, name)
        elif kind in ("return", "yield", "context", "name"):
            self._store.need(owner)
        elif kind in ("param", "region"):
            for called in self._names_called(owner):
                if called not in self._called:
                    self._called.add(called)
                    for caller in sorted(self._texts.mentioning(called)):
                        self._store.need(caller)
            parent = self._functions[owner].parent
            if self._functions[owner].kind == "lambda" and parent is not None:
                self._store.need(parent)
        elif kind == "field":
            for method in self._hierarchy.writers_of_field(owner, name):
                self._store.need(method)
        elif kind in ("bases", "decorators", "default"):
            parent = (
                self._classes[owner].parent if kind == "bases" else self._functions[owner].parent
            )
            if parent is not None:
                self._store.need(parent)

    def _follow(self, module: str, name: str) -> None:
        """Evaluate the import of a name that nobody had asked a module of another part for."""
        state = self._states[module]
        for number in state.passed_over.intersection(state.graph.bindings.get(name, ())):
            state.passed_over.discard(number)
            state.rounds -= 1  # it is not for want of an end that the module is evaluated again
            self._queue.later(module, number)

    def _names_called(self, function: str) -> list[str]:
        """The names that possible callers of a function mention: its own, or its class's."""
        facts = self._functions[function]
        if facts.kind != "function":
            return []
        if facts.cls is not None and facts.name in ("__init__", "__call__", "forward", "__enter__"):
            return [
                self._classes[c].name for c in (facts.cls, *self._hierarchy.subclasses(facts.cls))
            ]
        return [facts.name]
