"""All that is known of a project, by its parts: values, call edges, autocast regions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from amplint.inference.memo import Memo
from amplint.inference.queue import Queue
from amplint.inference.state import Key, SiteId, Sites, State
from amplint.inference.store import Store
from amplint.inference.whole_program.bindings import Bindings
from amplint.inference.whole_program.class_hierarchy import ClassHierarchy
from amplint.inference.whole_program.definitions import Definitions
from amplint.inference.whole_program.text_questions import ProjectTexts
from amplint.inference.whole_program.unseen_callers import UnseenCallers
from amplint.inference.whole_program.uses import UsesInProject
from amplint.inference.whole_program.writers import Writers
from amplint.ir.file_set import Files
from amplint.util.errors import describe, function_at_fault
from amplint.util.positions import Place
from amplint.values.atoms import Region, Value

MAX_GIVEN_UP = 20  # functions that an analysis is repeated without
Result = TypeVar("Result")


class Inference:
    """All that is known of a project. `fixpoint.py` computes it, and `components.complete` ends
    that.

    Args:
        files: of the project.
        before: one that is not used any more, whose values are taken over.

    Attributes:
        functions, classes: by id.
        states: the values of the functions that were evaluated.
        failures: by function: why nothing is known of it.
        unsettled: functions whose values were cut off.
        queue: the nodes that are to be evaluated.
        store: the values that functions write for each other.
        calls: which functions each call may run.
        regions: the regions in which functions are called.
        names, hierarchy, uses, texts, unseen: questions about the project.
        components: as they were found last.
        searched: the functions among which they were.
        rewired: nodes that depend on others since then.
        is_unique: whether the values depend on nothing but the files.
        will_change: is told of each function of which something else may be known soon.
    """

    def __init__(self, files: Files, before: Inference | None = None) -> None:
        self.files = files
        self.definitions = Definitions(files)
        self.functions = self.definitions.functions
        self.classes = self.definitions.classes
        self.states: dict[str, State] = before.states if before else {}
        self.failures: dict[str, str] = {}
        self.unsettled: set[str] = set()
        self.memo: Memo = before.memo if before else Memo()
        self.queue = Queue(self.states, self.failures)
        self.store: Store = Store(
            self.definitions,
            self.states,
            self.failures,
            self.memo,
            self.queue,
            self._demand,
            self._region_in,
            self._take_bases,
            before.store if before else None,
        )
        self.calls = self.store.calls
        self.regions = self.store.regions
        self.names = Bindings(self.definitions, self.store)
        self.hierarchy = ClassHierarchy(self.definitions, self.names, self.store)
        self.uses = UsesInProject(self.definitions, self.hierarchy)
        self.texts = ProjectTexts(self.definitions)
        self.unseen = UnseenCallers(self.definitions, self.hierarchy, self.store)
        self._writers = Writers(
            self.definitions, self.states, self.queue, self.store, self.hierarchy, self.texts
        )
        self.components: Sequence[Sites] = ()
        self.searched: Collection[str] = frozenset()
        self.rewired: set[SiteId] = set()
        self.is_unique = False
        self.will_change: Callable[[str], None] = lambda _: None

    # The store exists before the parts that answer it, which read keys themselves.

    def _demand(self, key: Key) -> None:
        """Queue the writers of a key."""
        self._writers.demand(key)

    def _region_in(self, function: str, joined: Region | None, is_ended: bool) -> Region | None:
        """The region that a function inherits, from that of its calls."""
        return self.unseen.region_in(function, joined, is_ended)

    def _take_bases(self, cls: str, bases: tuple[Value, ...]) -> None:
        """Take what a class derives from, unless it is known."""
        if self.hierarchy.own_bases.get(cls) != bases:
            self.hierarchy.own_bases[cls] = bases
            self.hierarchy.forget_bases()
            self.uses.forget_bases()

    def place(self, function: str, number: int) -> Place:
        """The place of a node of a function that was evaluated."""
        location = self.states[function].graph.nodes[number].location
        return Place(self.functions[function].path, *location)

    def decorators(self, function: str) -> Value:
        """The decorators of a function."""
        return self.store.joined(Key("decorators", function))

    def sort(self) -> None:
        """Have a walk over all functions, or all calls, go in the same order, whatever the order of
        evaluation was."""
        states = sorted(self.states.items())
        self.states.clear()
        self.states.update(states)
        self.calls.sort()

    def give_up(self, function: str, fault: str) -> None:
        """Leave unknown what a function says that amplint fails on; the rest goes on."""
        self.failures.setdefault(function, fault)
        self.states.pop(function, None)
        self.calls.forget_all_of(function)

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
