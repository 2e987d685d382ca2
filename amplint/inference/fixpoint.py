"""The fixpoint: values of all nodes of the functions that matter, across functions and files.

A function is evaluated when somebody needs it. What it needs of others (a parameter's values, what
a function returns, a field of a class, a name of a module) are *keys*: reading one queues its
writers, and has the reader evaluated again when the key changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from amplint.inference.evaluation import EVERYWHERE, Evaluation
from amplint.inference.project import ProjectFacts
from amplint.inference.state import WHOLE, Key, SiteId, Sites, State
from amplint.ir.file_set import Files
from amplint.util.errors import describe, function_at_fault
from amplint.values.atoms import BOTTOM

MAX_GIVEN_UP = 20  # functions that an analysis is repeated without
Result = TypeVar("Result")


class Inference(ProjectFacts):
    """Values, call edges and autocast regions of a project."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._called: set[str] = set()  # names whose callers have been asked for
        self.components: Sequence[Sites] = ()  # as they were found last
        self.searched: Collection[str] = frozenset()  # the functions among which they were
        self.rewired: set[SiteId] = set()  # nodes that depend on others since then
        self.is_unique = False  # whether the values depend on nothing but the files

    def solve(self, roots: Iterable[str]) -> None:
        """Evaluate the given functions, those that were not, and all that they need, until nothing
        changes."""
        for root in sorted(roots):
            if root not in self.states:
                self.later(root)
        self.settle()

    def note_regions(self) -> None:
        """Note the regions of all blocks of all functions."""
        for function, state in self.states.items():
            if len(state.regions) < len(state.graph.blocks):
                Evaluation(self, self.functions[function], state).complete()

    def sort(self) -> None:
        """Have a walk over all functions, or all calls, go in the same order, whatever the order of
        evaluation was."""
        self.states = {function: self.states[function] for function in sorted(self.states)}
        self.edges = {site: self.edges[site] for site in sorted(self.edges)}

    def settle(self) -> None:
        """Evaluate what waits to be, until nothing changes."""
        for function, nodes in self.queued():
            self.evaluate(function, nodes)

    def queued(self) -> Iterator[tuple[str, set[int]]]:
        """Take functions from the queue, with the nodes that are to be evaluated."""
        while self._queue:
            function = self._next()
            yield function, self._queue.pop(function)

    def has_queued(self) -> bool:
        return bool(self._queue or self._late)

    def take_late(self) -> None:
        """Queue what was left for later, because the function was evaluated too often."""
        for state in self.states.values():
            state.rounds = 0
        late, self._late = self._late, {}
        for function, nodes in late.items():
            for node in nodes:
                self.later(function, node)

    def _next(self) -> str:
        """The function to be evaluated next: any will do."""
        return next(iter(self._queue))

    def give_up(self, function: str, fault: str) -> None:
        """Leave unknown what a function says that amplint fails on; the rest goes on."""
        self.failures.setdefault(function, fault)
        self.states.pop(function, None)
        by_site: tuple[dict[SiteId, Any], ...]
        by_site = (self.edges, self.drawn, self.threads, self.off_flags)
        for sites in by_site:
            for site in [site for site in sites if site[0] == function]:
                del sites[site]

    def surviving(self, task: str, work: Callable[[], Result]) -> Result:
        """The result of work on all functions, except for those that it fails on: it is repeated
        without them. Raises what the work raises where that is about no function.

        Args:
            task: what the work is, as the subject of a sentence.
            work: may be repeated.
        """
        for _ in range(MAX_GIVEN_UP):
            try:
                return work()
            except Exception as error:
                function = function_at_fault(error, self.states)
                if function is None:
                    raise
                self.give_up(function, f"{task} failed: {describe(error)}")
        return work()

    def demand(self, key: Key) -> None:
        """Queue the writers of a key."""
        kind, owner, name = key
        if kind == "name" and owner in self.states:
            self._follow(owner, name)
        elif kind in ("return", "yield", "context", "name"):
            self.need(owner)
        elif kind in ("param", "region"):
            for called in self.names_called(owner):
                if called not in self._called:
                    self._called.add(called)
                    for caller in sorted(self.mentioning(called)):
                        self.need(caller)
            parent = self.functions[owner].parent
            if self.functions[owner].kind == "lambda" and parent is not None:
                self.need(parent)
        elif kind == "field":
            for method in self.writers_of_field(owner, name):
                self.need(method)
        elif kind in ("bases", "decorators", "default"):
            parent = self.classes[owner].parent if kind == "bases" else self.functions[owner].parent
            if parent is not None:
                self.need(parent)

    def _follow(self, module: str, name: str) -> None:
        """Evaluate the import of a name that nobody had asked a module of another part for."""
        state = self.states[module]
        for number in state.passed_over.intersection(state.graph.bindings.get(name, ())):
            state.passed_over.discard(number)
            state.rounds -= 1  # it is not for want of an end that the module is evaluated again
            self.later(module, number)

    def will_change(self, function: str) -> None:
        """Note that what is known of a function may be something else soon. Nobody needs that but a
        fixpoint that goes on after an edit: `continuation.py`."""

    def forget(self, function: str, nodes: Iterable[int]) -> None:
        """Take the values of nodes for nothing: they are going to be evaluated."""
        self.will_change(function)
        values = self.states[function].values
        for node in nodes:
            values[node] = BOTTOM

    def evaluate(
        self,
        function: str,
        nodes: set[int],
        scope: Container[int] = EVERYWHERE,
        component: Container[int] | None = None,
        turn: int = 0,
    ) -> None:
        """Evaluate nodes of a function, and what depends on them there, within the scope."""
        self.will_change(function)
        try:
            self._evaluate(function, nodes, scope, component, turn)
        except Exception as error:
            self.give_up(function, f"inference failed: {describe(error)}")

    def _evaluate(
        self,
        function: str,
        nodes: set[int],
        scope: Container[int],
        component: Container[int] | None,
        turn: int,
    ) -> None:
        facts = self.functions[function]
        graph = self.files[facts.path].graph(function)
        state = self.states.get(function)
        if state is None:
            nothing = [BOTTOM] * len(graph.nodes)
            state = self.states[function] = State(graph, nothing, facts.kind == "function")
            nodes = {WHOLE}
        state.rounds += self.turn is None
        self._current = function
        self.outside = facts.path not in self.files.own
        Evaluation(self, facts, state).run(nodes, scope, component, turn)
        self.node = WHOLE
