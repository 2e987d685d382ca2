"""The keys of the fixpoint: what functions write, and who is evaluated again when it changes.

Every site contributes its own part to a key; the key's value is the join of the parts.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from amplint.core.lattice import few_functions, join
from amplint.core.values import BOTTOM, UNKNOWN, Region, Value, constant
from amplint.core.walks import reachable
from amplint.inference.memo import Memo
from amplint.inference.state import MAX_ROUNDS, WHOLE, Dispatch, Key, KeyKind, SiteId, State
from amplint.ir.file_set import Files
from amplint.ir.model import ClassFacts, FileFacts, FunctionFacts

OF_CODE: frozenset[KeyKind] = frozenset({"param", "field"})  # keys that other files may write
# Keys of which one node alone makes something. What else is read may matter to the whole function,
# or is remembered for the next node that asks.
OF_NODES: frozenset[KeyKind] = frozenset({"param", "return", "yield", "field", "name"})
# Of these, a function of another part that asks for one learns nothing: see `Store.need`.
FOLLOWED_ONCE: frozenset[KeyKind] = frozenset({"return", "yield", "context", "field"})
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


class RegionsOfCalls:
    """The regions in which a function is called, by the place of the call."""

    def __init__(self) -> None:
        self.sites: dict[SiteId, Region | None] = {}
        self._kinds: Counter[tuple[str | None, str | None, bool | None] | None] = Counter()

    def put(self, site: SiteId, region: Region | None) -> bool:
        """Note the region around a call; False if that is known."""
        if site in self.sites:
            if self.sites[site] == region:
                return False
            self._kinds[_kind(self.sites[site])] -= 1
        self.sites[site] = region
        self._kinds[_kind(region)] += 1
        return True

    def common(self) -> Region | None:
        """The region that all the calls are in, as far as they agree; None if one is in none."""
        if self._kinds[None] or not self.sites:
            return None
        kinds = [kind for kind, count in self._kinds.items() if count and kind is not None]
        devices, dtypes, enabled = (set(each) for each in zip(*kinds, strict=True))
        return Region(
            # Of several, the same one whatever the order in which they came.
            device=min(devices, key=lambda device: device or ""),
            dtype=dtypes.pop() if len(dtypes) == 1 else "half",
            enabled=enabled.pop() if len(enabled) == 1 else None,
            inherited=True,
        )


def _kind(region: Region | None) -> tuple[str | None, str | None, bool | None] | None:
    return (region.device, region.dtype, region.enabled) if region is not None else None


class Store(ABC):
    """The values that functions write for each other, by key."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.functions = Definitions(files, lambda facts: facts.functions)
        self.classes = Definitions(files, lambda facts: facts.classes)
        self.states: dict[str, State] = {}
        self.memo = Memo()
        self.failures: dict[str, str] = {}
        self._parts: dict[Key, dict[SiteId, Value]] = {}
        self._joined: dict[Key, Value] = {}  # the join of the parts
        self._readers: dict[Key, set[SiteId]] = {}
        self._part_readers: dict[Key, set[SiteId]] = {}  # of what single sites have written
        self._demanded: set[Key] = set()
        self._regions: dict[str, RegionsOfCalls] = {}
        self._counts: dict[Key, Counter[Value]] = {}  # of equal parts
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

    def _tell(self, readers: Collection[SiteId]) -> None:
        for function, node in sorted(readers):
            self._enqueue(function, node)

    def read(self, key: Key) -> Value:
        """The value of a key; whoever is evaluated now is so again when it changes."""
        node = self.node if key.kind in OF_NODES else WHOLE
        self._readers.setdefault(key, set()).add((self._current, node))
        if key not in self._demanded:
            if not self.outside or key.kind not in FOLLOWED_ONCE:
                self._demanded.add(key)
            self.demand(key)
        known = self._joined.get(key)
        if known is None:
            return UNKNOWN if self.outside and key.kind in FOLLOWED_ONCE else BOTTOM
        return known

    def write(self, key: Key, site: SiteId, value: Value) -> None:
        """Contribute the part of one site to a key."""
        if key.kind in OF_CODE and self._from_test(key.owner, site[0]):
            return
        parts = self._parts.setdefault(key, {})
        value = self.memo.interned(value)
        old = parts.get(site)
        if old is value:
            return
        parts[site] = value
        counts = self._counts.setdefault(key, Counter())
        counts[value] += 1
        if old is not None:
            counts[old] -= 1
        self._tell(self._part_readers.get(key, ()))
        before = self._joined.get(key, BOTTOM)
        # A part that adds nothing to the join is nearly all that there is: a function with a
        # thousand callers is not joined anew for each of them. The same holds for a part that
        # replaces one of several equal ones.
        grows = old is None or counts[old] or old <= value or join([old, value]) == value
        if grows and (value <= before or join([before, value]) == before):
            return
        after = join(parts.values())
        if key.kind == "param":
            after = few_functions(after)
        after = self.memo.interned(after)
        if after is not before:
            self._joined[key] = after
            self._tell(self._readers.get(key, ()))

    def is_demanded(self, key: Key) -> bool:
        return key in self._demanded

    def parts(self, key: Key) -> frozenset[Value]:
        """The contributions to a key, one for each writer."""
        return frozenset(self._parts.get(key, {}).values())

    def sites_of(self, key: Key) -> Mapping[SiteId, Value]:
        """The contributions to a key, by their writers."""
        return self._parts.get(key, {})

    def calls_in_regions(self, function: str) -> Sequence[SiteId]:
        """The calls of a function that stand in a region."""
        calls = self._regions.get(function)
        sites = calls.sites.items() if calls is not None else ()
        return sorted(site for site, region in sites if region is not None)

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
        key = Key("param", function, parameter)
        self.read(key)
        # The join of several names is any name: what each call gives has to be seen.
        self._part_readers.setdefault(key, set()).add((self._current, WHOLE))
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
        self.read(Key("region", function))
        return self._common_region(function)

    def _common_region(self, function: str) -> Region | None:
        calls = self._regions.get(function)
        return calls.common() if calls is not None else None

    def functions_in_regions(self) -> Collection[str]:
        """The functions around which some known chain of callers opens a region."""
        called: dict[str, list[str]] = {}
        inside: list[str] = []
        for function, calls in self._regions.items():
            for (caller, _), region in calls.sites.items():
                called.setdefault(caller, []).append(function)
                if region is not None:
                    inside.append(function)
        return set(reachable(inside, lambda caller: called.get(caller, ())))

    def write_region(self, function: str, site: SiteId, region: Region | None) -> None:
        calls = self._regions.setdefault(function, RegionsOfCalls())
        before = calls.common()
        if not calls.put(site, region):
            return
        if calls.common() != before:
            self._tell(self._readers.get(Key("region", function), ()))

    def dispatches(self, function: str) -> Mapping[Dispatch, frozenset[str]]:
        """The methods that a function finds by the name in a parameter, for each name given."""
        self._readers.setdefault(Key("dispatch", function), set()).add((self._current, WHOLE))
        return self._dispatches.get(function, {})

    def write_dispatch(self, function: str, case: Dispatch, methods: frozenset[str]) -> None:
        known = self._dispatches.setdefault(function, {})
        if known.get(case) == methods:
            return
        known[case] = methods
        self._tell(self._readers.get(Key("dispatch", function), ()))
