"""The fixpoint: values of all nodes of the functions that matter, across functions and files.

A function is evaluated when somebody needs it. What it needs of others (a parameter's values, what
a function returns, a field of a class, a name of a module) are *keys*: reading one asks for whoever
writes it to be evaluated, and to be evaluated again when it changes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from amplint import marks
from amplint.index import File
from amplint.infer.evaluation import Evaluation
from amplint.infer.hierarchy import Hierarchy
from amplint.infer.state import Key, SiteId, State
from amplint.infer.store import TEST_PATH
from amplint.values import BOTTOM, Value


class Inference(Hierarchy):
    """Values, call edges and autocast regions of a project."""

    def __init__(self, files: Mapping[str, File]) -> None:
        super().__init__(files)
        self.edges: dict[SiteId, set[str]] = {}
        self.drawn: dict[SiteId, set[str]] = {}  # callees, any one of which may be meant
        self.off_flags: set[str] = set()
        self._called: set[str] = set()  # names whose callers have been asked for
        self._mentions: dict[str, list[str]] | None = None
        self._calls: dict[frozenset[str], bool] = {}
        self._matches: dict[str, bool] = {}
        self._stored: dict[str, bool] = {}
        self._marks: dict[str, marks.Marks] = {}
        self._class_marks: dict[str, dict[str, str]] = {}

    def settle(self, roots: Iterable[str]) -> None:
        """Evaluate the given functions, and all that they need, until nothing changes."""
        for root in sorted(roots):
            self._enqueue(root)
        while self._queue:
            function = next(iter(self._queue))
            del self._queue[function]
            try:
                self._evaluate(function)
            except Exception as error:
                # A fault of amplint's own: what this function says stays unknown, the rest goes on.
                self.failures.setdefault(function, f"{type(error).__name__}: {error}")
                self.states.pop(function, None)

    def demand(self, key: Key) -> None:
        """Have whoever writes the key evaluated."""
        kind, owner = key[0], key[1]
        if kind in ("return", "yield", "context", "name"):
            self.need(owner)
        elif kind in ("param", "region"):
            for name in self.names_called(owner):
                if name not in self._called:
                    self._called.add(name)
                    for caller in sorted(self.mentioning(name)):
                        self.need(caller)
            parent = self.functions[owner].parent
            if self.functions[owner].kind == "lambda" and parent is not None:
                self.need(parent)
        elif kind == "field":
            for method in self.writers_of_field(owner, key[2]):
                self.need(method)
        elif kind in ("bases", "decorators"):
            parent = self.classes[owner].parent if kind == "bases" else self.functions[owner].parent
            if parent is not None:
                self.need(parent)

    def mentioning(self, word: str) -> list[str]:
        """The functions in whose text the identifier stands."""
        if self._mentions is None:
            self._mentions = {}
            for function in self.functions.values():
                if function.kind == "class":
                    continue
                for mentioned in function.words:
                    self._mentions.setdefault(mentioned, []).append(function.id)
        return self._mentions.get(word, [])

    def is_called(self, names: frozenset[str]) -> bool:
        """Whether code that is no test calls a function of one of these names."""
        if names not in self._calls:
            self._calls[names] = any(
                called_name(node) in names
                for path, file in self.files.items()
                if file.facts.words & names and not TEST_PATH.search(path)
                for node in ast.walk(file.tree)
                if isinstance(node, ast.Call)
            )
        return self._calls[names]

    def matches(self, pattern: str) -> bool:
        """Whether the regular expression matches a line of some file."""
        if pattern not in self._matches:
            expression = re.compile(pattern)
            self._matches[pattern] = any(
                expression.search(line) for file in self.files.values() for line in file.lines
            )
        return self._matches[pattern]

    def is_stored_from_outside(self, attribute: str) -> bool:
        """Whether some file assigns an attribute of that name to something other than `self`."""
        if attribute not in self._stored:
            self._stored[attribute] = any(
                attribute in file.stored_from_outside
                for file in self.files.values()
                if attribute in file.facts.words
            )
        return self._stored[attribute]

    def names_called(self, function: str) -> list[str]:
        """What those that may call a function mention: its name, or its class's."""
        facts = self.functions[function]
        if facts.kind != "function":
            return []
        if facts.cls is not None and facts.name in ("__init__", "__call__", "forward", "__enter__"):
            return [self.classes[c].name for c in (facts.cls, *self.subclasses(facts.cls))]
        return [facts.name]

    def _evaluate(self, function: str) -> None:
        facts = self.functions[function]
        graph = self.files[facts.path].graph(function)
        # Building a graph defines its lambdas.
        self.functions.update(self.files[facts.path].take_lambdas())
        state = self.states.get(function)
        if state is None:
            state = self.states[function] = State(graph, [BOTTOM] * len(graph.nodes))
        state.rounds += 1
        # From nothing each time: what a loop carried while less was known would carry itself on.
        state.values[:] = [BOTTOM] * len(state.values)
        self._current = function
        Evaluation(self, facts, state).run()

    def marks_of(self, function: str) -> marks.Marks:
        """What the uses in a function say about its nodes."""
        if function not in self._marks:
            facts = self.functions[function]
            graph = self.files[facts.path].graph(function)
            self._marks[function] = marks.read(graph, facts.name == "training_step")
        return self._marks[function]

    def marks_of_class(self, cls: str) -> dict[str, str]:
        """What the methods of a class say about `self.<field>`, by field."""
        if cls not in self._class_marks:
            found: dict[str, str] = {}
            for ids in self.classes[cls].methods.values():
                for method in ids:
                    if self.functions[method].words & marks.WORDS:
                        for path, kind in self.marks_of(method).paths.items():
                            if path.startswith("self."):
                                found[path[5:]] = kind
            self._class_marks[cls] = found
        return self._class_marks[cls]

    def decorators(self, function: str) -> Value:
        """What a function is decorated with."""
        return self._joined.get(("decorators", function), BOTTOM)


def called_name(call: ast.Call) -> str:
    """The last identifier of what is called: `f` of `f(x)` and of `module.f(x)`."""
    callee = call.func
    if isinstance(callee, ast.Attribute):
        return callee.attr
    return callee.id if isinstance(callee, ast.Name) else ""
