"""The keys of the fixpoint: what functions write, and who is evaluated again when it changes.

Every site contributes its own part to a key; the key's value is the join of the parts.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from amplint.inference.memo import Memo
from amplint.inference.state import (
    GLOBALS,
    MAX_ROUNDS,
    WHOLE,
    Dispatch,
    Key,
    KeyKind,
    SiteId,
    State,
)
from amplint.ir.file_set import Files
from amplint.ir.model import ClassFacts, FileFacts, FunctionFacts
from amplint.knowledge.vocabulary import TEST_PATH
from amplint.util.positions import Place
from amplint.values.atoms import BOTTOM, UNKNOWN, Atom, Region, Value, constant
from amplint.values.lattice import agreed, few_functions, join

# Keys that other files may write.
OF_CODE: frozenset[KeyKind] = frozenset({"param", "field", "runner", "trainer", "wrapped"})
# Keys of which one node alone makes something. What else is read may matter to the whole function,
# or is remembered for the next node that asks.
OF_NODES: frozenset[KeyKind] = frozenset(
    {"param", "default", "return", "yield", "context", "field", "kept", "name", "option"}
)
# Which functions run in one.
OF_REGIONS: frozenset[KeyKind] = frozenset({"precision", "runner", "trainer", "wrapped"})
PUBLISHED: tuple[KeyKind, ...] = ("return", "yield", "context")  # by a function as a whole
# Of these, a function of another part that asks for one learns nothing: see `Store.need`.
FOLLOWED_ONCE: frozenset[KeyKind] = frozenset({"return", "yield", "context", "field"})


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
        self._kinds: Counter[_Kind | None] = Counter()

    def put(self, site: SiteId, region: Region | None) -> bool:
        """Note the region around a call; False if that is known."""
        if site in self.sites:
            if self.sites[site] == region:
                return False
            self._kinds[_kind(self.sites[site])] -= 1
        self.sites[site] = region
        self._kinds[_kind(region)] += 1
        return True

    def remove(self, site: SiteId) -> None:
        """Forget a call that is none."""
        if site in self.sites:
            self._kinds[_kind(self.sites.pop(site))] -= 1

    def joined(self) -> Region | None:
        """The region of those calls that are in one, as far as these agree.

        A call that is in none does not count: what is wrong in a region is so wherever else the
        function is called, from an evaluation without autocast, say.
        """
        kinds = [kind for kind, count in self._kinds.items() if count and kind is not None]
        # What is seen is stronger than what is presumed of a caller.
        kinds = [kind for kind in kinds if not kind.presumed] or kinds
        if not kinds:
            return None
        devices, dtypes, enabled, presumed = (set(each) for each in zip(*kinds, strict=True))
        return Region(
            # Of several, the same one whatever the order in which they came.
            device=min(devices, key=lambda device: device or ""),
            dtype=agreed(dtypes) if len(dtypes) == 1 else "half",
            enabled=agreed(enabled),
            inherited=True,
            presumed=presumed == {True},
        )


class _Kind(NamedTuple):
    """The part of a region that matters to those who are called in it."""

    device: str | None
    dtype: str | None
    enabled: bool | None
    presumed: bool


def _kind(region: Region | None) -> _Kind | None:
    if region is None:
        return None
    return _Kind(region.device, region.dtype, region.enabled, region.presumed)


class Slot:
    """The parts of one key, their join, and its readers.

    `parts`: what each site contributes.
    `joined`: the join of the parts; None before there are any.
    `readers`: the sites that are evaluated again when that changes.
    `part_readers`: those that are when a part changes.
    `demanded`: whether the writers of the key have been queued.
    `counts`: how many parts are equal to each.
    """

    __slots__ = ("counts", "demanded", "joined", "key", "part_readers", "parts", "readers")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.parts: dict[SiteId, Value] = {}
        self.joined: Value | None = None
        self.readers: set[SiteId] = set()
        self.part_readers: Collection[SiteId] = ()
        self.demanded = False
        self.counts: defaultdict[Value, int] = defaultdict(int)

    @property
    def all_readers(self) -> Iterator[SiteId]:
        """The sites that are evaluated again when anything here changes."""
        yield from self.readers
        yield from self.part_readers


def gone(before: Sequence[Slot], now: Sequence[Slot]) -> list[Slot]:
    """The slots of an evaluation that are not among those of the next one, in their order.

    A call that may mean hundreds of methods writes to thousands of keys: hence a set.
    """
    if not before or before == now:
        return []
    kept = set(now)
    return [slot for slot in before if slot not in kept]


# A key and a site, and whether the site reads it (or writes to it).
Edge = tuple[Slot, SiteId, bool]


class Turn(ABC):
    """The evaluation of some nodes from nothing, while all else stays as it is: it is asked first
    about each node that has to be evaluated, and hears of each key that changes."""

    @abstractmethod
    def takes(self, function: str, node: int) -> bool:
        """Whether the turn sees to a node that is to be evaluated: now, or when it is done."""

    @abstractmethod
    def changed(self, slot: Slot, before: Value | None) -> None:
        """Note that a key has another value."""

    @abstractmethod
    def part_changed(self, slot: Slot) -> None:
        """Note that a key is the join of other parts."""


class Store(ABC):
    """The values that functions write for each other, by key."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.functions = Definitions(files, lambda facts: facts.functions)
        self.classes = Definitions(files, lambda facts: facts.classes)
        self.states: dict[str, State] = {}
        self.memo = Memo()
        self.failures: dict[str, str] = {}
        self.unsettled: set[str] = set()  # functions whose values were cut off
        self.slots: dict[Key, Slot] = {}
        self.edges: dict[SiteId, set[str]] = {}
        self.drawn: dict[SiteId, set[str]] = {}  # callees, any one of which may be meant
        self.threads: dict[SiteId, set[Atom]] = {}  # what a call hands to another thread
        self.off_flags: dict[SiteId, str] = {}  # flags that a call declares, off by default
        # By site: what it reads, and what it contributes to; and the same of the site that is
        # evaluated now.
        self._read: dict[SiteId, list[Slot]] = {}
        self._written: dict[SiteId, list[Slot]] = {}
        self._reading: list[Slot] = []
        self._writing: list[Slot] = []
        self._regions: dict[str, RegionsOfCalls] = {}
        self._inherited: Mapping[str, Region | None] | None = None
        # Whether a call may stand in another region since these were solved.
        self.are_regions_stale = True
        self.known_dispatches: dict[str, dict[Dispatch, frozenset[str]]] = {}
        self._queue: dict[str, set[int]] = {}  # by function: the nodes that are to be evaluated
        self._late: dict[str, set[int]] = {}  # the same, once components are dealt with
        # What has come to depend on something, or does no longer, since components were looked for;
        # None before that.
        self.new_edges: set[Edge] | None = None
        # Parts that have become less, or are gone. What is left of the key may rest on itself.
        self.shrunk: dict[Slot, set[SiteId]] = {}
        self.turn: Turn | None = None  # the component that is evaluated now
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
        """Queue the writers of a key."""

    @abstractmethod
    def presumed_region(self, function: str, is_ended: bool = False) -> Region | None:
        """The region that is presumed around a function.

        Args:
            is_ended: whether a call that is seen ends the presumption.
        """

    @abstractmethod
    def region_in(self, function: str, joined: Region | None, is_ended: bool) -> Region | None:
        """The region that a function inherits: that of its calls, if they are in one, or else the
        presumed one. Where runs have shown in which regions it is called, the text is not asked: it
        may leave out what a decorator does.

        Args:
            function: of the project.
            joined: the region of its calls, as the text has them.
            is_ended: as above.
        """

    def later(self, function: str, node: int = WHOLE) -> None:
        """Have a node evaluated, in its turn."""
        if self.turn is not None and self.turn.takes(function, node):
            return
        state = self.states.get(function)
        if function not in self.failures:
            late = state is not None and state.rounds >= MAX_ROUNDS
            queue = self._late if late else self._queue
            queue.setdefault(function, set()).add(node)

    def leave(self, function: str, nodes: Iterable[int]) -> None:
        """Have nodes evaluated when components are known."""
        self._late.setdefault(function, set()).update(nodes)

    def _tell(self, readers: Collection[SiteId]) -> None:
        for function, node in sorted(readers):
            self.later(function, node)

    def slot(self, key: Key) -> Slot:
        """The slot of a key; a new one where nothing was known."""
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = Slot(key)
        return slot

    def read(self, key: Key) -> Value:
        """The value of a key; what is evaluated now is so again when it changes."""
        slot = self.slot(key)
        if key.kind in OF_NODES:
            site = (self._current, self.node)
            if site not in slot.readers:
                slot.readers.add(site)
                self._toggle((slot, site, True))
            self._reading.append(slot)
        else:
            slot.readers.add((self._current, WHOLE))
        if not slot.demanded:
            slot.demanded = not self.outside or key.kind not in FOLLOWED_ONCE
            self.demand(key)
        if slot.joined is None:
            return UNKNOWN if self.outside and key.kind in FOLLOWED_ONCE else BOTTOM
        return slot.joined

    def write(self, key: Key, site: SiteId, value: Value) -> None:
        """Contribute the part of one site to a key."""
        if key.kind in OF_CODE and self.is_from_test(key.owner, site[0]):
            return
        slot = self.slot(key)
        if site[1] >= 0:
            self._writing.append(slot)
        value = self.memo.interned(value)
        old = slot.parts.get(site)
        if old is value:
            return
        slot.parts[site] = value
        slot.counts[value] += 1
        if old is None:
            self._toggle((slot, site, False))
        else:
            slot.counts[old] -= 1
        self._part_changed(slot)
        before = slot.joined or BOTTOM
        # A part that adds nothing to the join is nearly all that there is: a function with a
        # thousand callers is not joined anew for each of them. The same holds for a part that
        # replaces one of several equal ones.
        grows = old is None or old <= value or join([old, value]) == value
        if not grows:
            self.shrunk.setdefault(slot, set()).add(site)
        if (grows or (old is not None and slot.counts[old])) and (
            value <= before or join([before, value]) == before
        ):
            return
        self._join(slot)

    def read_without(self, key: Key, sites: Container[SiteId]) -> Value:
        """The value of a key without what some sites contribute."""
        self.read(key)
        slot = self.slot(key)
        self._read_parts(slot)
        return join(value for site, value in slot.parts.items() if site not in sites)

    def _join(self, slot: Slot) -> None:
        """Join the parts of a key anew."""
        before = slot.joined
        after = join(slot.parts.values())
        if slot.key.kind == "param":
            after = few_functions(after)
        after = self.memo.interned(after)
        if after is not (before or BOTTOM):
            slot.joined = after
            self.changed(slot, before)

    def _read_parts(self, slot: Slot) -> None:
        """Note that the node that is evaluated now looks at the single parts of a key."""
        site = (self._current, self.node)
        if site not in slot.part_readers:
            slot.part_readers = {*slot.part_readers, site}
            self._toggle((slot, site, True))

    def _part_changed(self, slot: Slot) -> None:
        """Have those evaluated who look at the single parts of a key."""
        if slot.part_readers:
            if self.turn is not None:
                self.turn.part_changed(slot)
            self._tell(slot.part_readers)

    def changed(self, slot: Slot, before: Value | None) -> None:
        """Have the readers of a key evaluated, whose value is another one."""
        if self.turn is not None:
            self.turn.changed(slot, before)
        if slot.key.kind in OF_REGIONS:
            self.are_regions_stale = True
        self._tell(slot.readers)

    def written_by(self, function: str) -> Iterator[tuple[Slot, SiteId]]:
        """The keys that a function that was evaluated contributes to, each with the site."""
        state = self.states[function]
        for node in range(len(state.values)):
            site = (function, node)
            for slot in self._written.get(site, ()):
                if site in slot.parts:
                    yield slot, site
        module = f"{self.functions[function].path}::"
        keys = [Key(kind, function) for kind in PUBLISHED]
        keys += (Key("name", function, name) for name in state.published)
        keys += (Key("name", module, name) for name in state.graph.globals)
        for key in keys:
            known = self.slots.get(key)
            if known is not None:
                sites = ((function, WHOLE), (function, GLOBALS))
                yield from ((known, site) for site in sites if site in known.parts)

    def reset(self, parts: Iterable[tuple[Slot, SiteId]]) -> None:
        """Take parts of keys for nothing: their sites are going to be evaluated."""
        slots: dict[Slot, None] = {}
        for slot, site in parts:
            if site not in slot.parts:
                continue  # taken back since the component was found
            slot.counts[slot.parts[site]] -= 1
            slot.counts[BOTTOM] += 1
            slot.parts[site] = BOTTOM
            slots[slot] = None
        for slot in slots:
            self._join(slot)

    def begin(self, site: SiteId) -> None:
        """Note that a node of the function is evaluated next."""
        self.node = site[1]
        self._reading, self._writing = [], []
        self.edges.pop(site, None)
        self.drawn.pop(site, None)
        if self.threads.pop(site, None):
            self.are_regions_stale = True
        self.off_flags.pop(site, None)

    def end(self, site: SiteId) -> None:
        """Note that the site was evaluated: what it has read or written before, and has not now,
        has nothing to do with it any more."""
        reading, writing = self._reading, self._writing
        for slot in gone(self._read.get(site, ()), reading):
            if site in slot.readers:
                slot.readers.discard(site)
                self._toggle((slot, site, True))
        if reading or site in self._read:
            self._read[site] = reading
        for slot in gone(self._written.get(site, ()), writing):
            self.withdraw(slot, site)
        if writing or site in self._written:
            self._written[site] = writing

    def _toggle(self, edge: Edge) -> None:
        """Note that something depends on something else, or no longer does."""
        if self.new_edges is not None:
            self.new_edges ^= {edge}

    def withdraw(self, slot: Slot, site: SiteId, shrinks: bool = True) -> None:
        """Take back what a site has contributed to a key.

        Args:
            shrinks: whether no other site is known to contribute the same, whatever components do.
        """
        if slot.key.kind == "region":
            function = slot.key.owner
            before = self._joined_region(function)
            self._regions[function].remove(site)
            self.are_regions_stale = True
            if self._joined_region(function) != before:
                self._tell(slot.readers)
        elif site in slot.parts:
            self._toggle((slot, site, False))
            if shrinks:
                self.shrunk.setdefault(slot, set()).add(site)
            value = slot.parts.pop(site)
            slot.counts[value] -= 1
            self._part_changed(slot)
            if not slot.counts[value]:
                self._join(slot)

    def forget_unused(self) -> None:
        """Forget keys that nobody reads or writes any more, and values that nobody has.

        Else a session of an editor would keep every name and number that was ever typed. All that
        is known is walked, so this is done where there is a quarter more of it.
        """
        if not self.memo.has_grown():
            return
        for key, slot in [*self.slots.items()]:
            left = {value: count for value, count in slot.counts.items() if count > 0}
            slot.counts = defaultdict(int, left)
            # Those who call a function in a region have its key without having a part of it.
            if key.kind in OF_NODES and not slot.parts and not any(slot.all_readers):
                del self.slots[key]
        of_keys = (value for slot in self.slots.values() for value in slot.counts)
        joins = (slot.joined for slot in self.slots.values() if slot.joined is not None)
        of_nodes = (value for state in self.states.values() for value in state.values)
        self.memo.keep(itertools.chain(of_keys, joins, of_nodes))

    def is_demanded(self, key: Key) -> bool:
        return key in self.slots and self.slots[key].demanded

    def joined(self, key: Key) -> Value:
        """The value of a key, asked for from outside of the fixpoint."""
        slot = self.slots.get(key)
        return slot.joined or BOTTOM if slot is not None else BOTTOM

    def parts(self, key: Key) -> frozenset[Value]:
        """The contributions to a key, one for each writer."""
        return frozenset(self.sites_of(key).values())

    def sites_of(self, key: Key) -> Mapping[SiteId, Value]:
        """The contributions to a key, by their writers."""
        slot = self.slots.get(key)
        return slot.parts if slot is not None else {}

    def written(self, kind: KeyKind) -> Iterator[tuple[Key, Value]]:
        """The keys of a kind in order, each with all that is contributed to it."""
        for key in sorted(each for each in self.slots if each.kind == kind):
            yield from ((key, part) for part in self.slots[key].parts.values())

    def calls_in_regions(self, function: str, presumed: bool = False) -> Sequence[SiteId]:
        """The calls of a function that stand in a region, be it one that is seen or presumed."""
        calls = self._regions.get(function)
        sites = calls.sites.items() if calls is not None else ()
        found = {site: region for site, region in sites if region is not None}
        return sorted(site for site in found if found[site].presumed is presumed)

    def region_of_site(self, function: str, site: SiteId) -> Region | None:
        """The region in which a call runs a function."""
        calls = self._regions.get(function)
        return calls.sites.get(site) if calls is not None else None

    def is_from_test(self, owner: str, writer: str) -> bool:
        """Whether a test says something of other code: with mocks, and tensors on the CPU."""
        return self._is_test(writer) and not self._is_test(owner)

    def _is_test(self, function: str) -> bool:
        path = function.partition("::")[0]
        if path not in self._tests:
            self._tests[path] = TEST_PATH.search(path) is not None
        return self._tests[path]

    def place(self, function: str, number: int) -> Place:
        """The place of a node of a function that was evaluated."""
        location = self.states[function].graph.nodes[number].location
        return Place(self.functions[function].path, *location)

    def given_strings(self, function: str, parameter: str) -> list[str]:
        """The constant strings among what single calls give for a parameter."""
        key = Key("param", function, parameter)
        self.read(key)
        # The join of several names is any name: what each call passes has to be seen.
        slot = self.slot(key)
        self._read_parts(slot)
        constants = {constant(value) for value in slot.parts.values()}
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
            self.later(function)

    def inherited_region(self, function: str) -> Region | None:
        """The region that some known caller opens around its call; None where all are outside."""
        self.read(Key("region", function))
        return self._joined_region(function)

    def calls_of_functions(self) -> Mapping[str, RegionsOfCalls]:
        """The regions in which functions are called, by function."""
        return self._regions

    def calls_of(self, function: str) -> RegionsOfCalls:
        """The regions in which a function is called."""
        return self._regions.setdefault(function, RegionsOfCalls())

    @property
    def inherited(self) -> Mapping[str, Region | None]:
        """The regions that functions inherit, of those that are in one, once they are solved."""
        return self._inherited or {}

    def settle_regions(self, regions: Mapping[str, Region | None]) -> None:
        """Take regions for those that functions inherit, whatever their calls say now."""
        # Of those that neither names, nothing has changed.
        before = self._inherited
        suspects = self.states if before is None else {**before, **regions}
        for function in suspects:
            if function in self.states and self._joined_region(function) != regions.get(function):
                self.later(function)
                slot = self.slots.get(Key("region", function))
                self._tell(slot.readers if slot is not None else ())
        self._inherited = regions

    def _joined_region(self, function: str) -> Region | None:
        if self._inherited is not None:
            return self._inherited.get(function)
        calls = self._regions.get(function)
        is_called = calls is not None and bool(calls.sites)
        joined = calls.joined() if calls is not None else None
        return self.region_in(function, joined, is_called)

    def write_region(self, function: str, site: SiteId, region: Region | None) -> None:
        """Note that a call of a function stands in a region, or in none."""
        if self.is_from_test(function, site[0]):
            return
        slot = self.slot(Key("region", function))
        self._writing.append(slot)
        before = self._joined_region(function)
        if not self.calls_of(function).put(site, region):
            return
        self.are_regions_stale = True
        if self._joined_region(function) != before:
            self._tell(slot.readers)

    def dispatches(self, function: str) -> Mapping[Dispatch, frozenset[str]]:
        """The methods that a function finds by the name in a parameter, for each name given."""
        self._read_parts(self.slot(Key("dispatch", function)))
        return self.known_dispatches.get(function, {})

    def write_dispatch(self, function: str, case: Dispatch, methods: frozenset[str]) -> None:
        known = self.known_dispatches.setdefault(function, {})
        if known.get(case) == methods:
            return
        known[case] = methods
        self._part_changed(self.slot(Key("dispatch", function)))
