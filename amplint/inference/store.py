"""The keys of the fixpoint: what functions write, and who is evaluated again when it changes.

Every site contributes its own part to a key; the key's value is the join of the parts.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from amplint.core.values import (
    BOTTOM,
    MAX_ALTERNATIVES,
    UNKNOWN,
    Region,
    Value,
    constant,
    join,
    shallow,
)
from amplint.inference.state import MAX_ROUNDS, NO_WHY, WHOLE, Dispatch, Key, SiteId, State
from amplint.ir.file_set import Files
from amplint.ir.model import ClassFacts, FileFacts, FunctionFacts

OF_CODE = frozenset({"param", "field"})  # keys that other files may write
# Keys of which one node alone makes something. What else is read may matter to the whole function,
# or is remembered for the next node that asks.
OF_NODES = frozenset({"param", "return", "yield", "field", "name"})
# Of these, a function of another part that asks for one learns nothing: see `Store.need`.
FOLLOWED_ONCE = frozenset({"return", "yield", "context", "field"})
TEST_PATH = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")


Facts = TypeVar("Facts", FunctionFacts, ClassFacts)


class Definitions(dict[str, Facts]):
    """The definitions of files, by id.

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
        found = self[identity] = self._defined(facts)[identity]
        return found


class Store(ABC):
    """The values that functions write for each other, by key."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.functions = Definitions(files, lambda facts: facts.functions)
        self.classes = Definitions(files, lambda facts: facts.classes)
        self.states: dict[str, State] = {}
        self.failures: dict[str, str] = {}
        self._parts: dict[Key, dict[SiteId, Value]] = {}
        self._joined: dict[Key, Value] = {}  # the join of the parts
        self._crowded: set[Key] = set()  # keys with too many alternatives, whatever else comes
        self._readers: dict[Key, set[SiteId]] = {}
        self._demanded: set[Key] = set()
        self._regions: dict[str, dict[SiteId, Region | None]] = {}
        self._dispatches: dict[str, dict[Dispatch, frozenset[str]]] = {}
        self._queue: dict[str, set[int]] = {}  # by function: the nodes that are to be evaluated
        self._current = ""
        self.outside = False  # whether that is a function of another part of the project
        self.node = WHOLE  # of the function that is evaluated now
        self._tests: dict[str, bool] = {}

    def own_functions(self) -> Iterator[FunctionFacts]:
        """The functions that the files define which are analysed."""
        for file in self.files.own.values():
            yield from file.facts.functions.values()

    def own_classes(self) -> Iterator[ClassFacts]:
        for file in self.files.own.values():
            yield from file.facts.classes.values()

    @abstractmethod
    def demand(self, key: Key) -> None:
        """Have whoever writes the key evaluated."""

    def _enqueue(self, function: str, node: int = WHOLE) -> None:
        state = self.states.get(function)
        if function not in self.failures and (state is None or state.rounds < MAX_ROUNDS):
            self._queue.setdefault(function, set()).add(node)

    def _tell_readers(self, key: Key) -> None:
        for function, node in sorted(self._readers.get(key, ())):
            self._enqueue(function, node)

    def read(self, key: Key) -> Value:
        """The value of a key; whoever is evaluated now is so again when it changes."""
        node = self.node if key[0] in OF_NODES else WHOLE
        self._readers.setdefault(key, set()).add((self._current, node))
        if key not in self._demanded:
            if not self.outside or key[0] not in FOLLOWED_ONCE:
                self._demanded.add(key)
            self.demand(key)
        known = self._joined.get(key)
        if known is None:
            return UNKNOWN if self.outside and key[0] in FOLLOWED_ONCE else BOTTOM
        return known

    def write(self, key: Key, site: SiteId, value: Value) -> None:
        """Contribute the part of one site to a key."""
        if key[0] in OF_CODE and self._from_test(key[1], site[0]):
            return
        parts = self._parts.setdefault(key, {})
        value = shallow(value)
        old = parts.get(site)
        if old == value:
            return
        parts[site] = value
        self._tell_readers(("parts", *key))
        before = self._joined.get(key, BOTTOM)
        # A part that adds nothing to the join is nearly all that there is: a function with a
        # thousand callers is not joined anew for each of them.
        grows = old is None or old <= value or join([old, value]) == value
        if key in self._crowded or (grows and (value <= before or join([before, value]) == before)):
            return
        after = join(parts.values())
        if key[0] == "param" and len(after) > MAX_ALTERNATIVES:
            after = UNKNOWN  # of a decorator, say: which function a wrapper calls is not known
        if after == UNKNOWN and any(part and part != UNKNOWN for part in parts.values()):
            self._crowded.add(key)
        if after != before:
            self._joined[key] = after
            self._tell_readers(key)

    def is_demanded(self, key: Key) -> bool:
        return key in self._demanded

    def parts(self, key: Key) -> frozenset[Value]:
        """The contributions to a key, one for each writer."""
        return frozenset(self._parts.get(key, {}).values())

    def _from_test(self, owner: str, writer: str) -> bool:
        """Whether a test says something of other code: with mocks, and tensors on the CPU."""
        return self._is_test(writer) and not self._is_test(owner)

    def _is_test(self, function: str) -> bool:
        path = function.partition("::")[0]
        if path not in self._tests:
            self._tests[path] = TEST_PATH.search(path) is not None
        return self._tests[path]

    def given_strings(self, function: str, parameter: str) -> list[str]:
        """The constant strings among what single calls give for a parameter."""
        key = ("param", function, parameter)
        self.read(key)
        # The join of several names is any name: what each call gives has to be seen.
        self._readers.setdefault(("parts", *key), set()).add((self._current, WHOLE))
        constants = {constant(value) for value in self._parts.get(key, {}).values()}
        return sorted(name for name in constants if isinstance(name, str))

    def need(self, function: str) -> None:
        """Have a function evaluated, if it was not.

        What another part of the project does is followed one call deep: what its functions call
        there in turn is not known, unless something of this part calls it too.
        """
        if function in self.states or function in self.failures:
            return
        facts = self.functions[function]
        inside = facts.path in self.files.own or facts.kind != "function"
        if inside or not self.outside:
            self._enqueue(function)

    def inherited_region(self, function: str) -> Region | None:
        """The region that every known caller opens around its call; None where they differ."""
        self.read(("region", function))
        return self._common_region(function)

    def _common_region(self, function: str) -> Region | None:
        regions = list(self._regions.get(function, {}).values())
        if not regions or any(region is None for region in regions):
            return None
        known = {region for region in regions if region is not None}
        first = min(known, key=lambda r: r.why or NO_WHY)
        if len({(r.device, r.dtype) for r in known}) > 1:
            first = replace(
                first, dtype="half" if len({r.dtype for r in known}) > 1 else first.dtype
            )
        enabled = {region.enabled for region in known}
        return replace(first, inherited=True, enabled=enabled.pop() if len(enabled) == 1 else None)

    def is_outside(self, function: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether no known chain of callers opens a region around the function."""
        sites = self._regions.get(function, {})
        return function in seen or all(
            region is None and self.is_outside(caller, seen | {function})
            for (caller, _), region in sites.items()
        )

    def write_region(self, function: str, site: SiteId, region: Region | None) -> None:
        parts = self._regions.setdefault(function, {})
        if site in parts and parts[site] == region:
            return
        before = self._common_region(function)
        parts[site] = region
        after = self._common_region(function)
        if after != before or (after and after.why) != (before and before.why):
            self._tell_readers(("region", function))

    def dispatches(self, function: str) -> Mapping[Dispatch, frozenset[str]]:
        """The methods that a function finds by the name in a parameter, for each name given."""
        self._readers.setdefault(("dispatch", function), set()).add((self._current, WHOLE))
        return self._dispatches.get(function, {})

    def write_dispatch(self, function: str, case: Dispatch, methods: frozenset[str]) -> None:
        known = self._dispatches.setdefault(function, {})
        if known.get(case) == methods:
            return
        known[case] = methods
        self._tell_readers(("dispatch", function))
