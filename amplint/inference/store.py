"""The keys of the fixpoint: what functions write, and who is evaluated again when it changes.

Every site contributes its own part to a key; the key's value is the join of the parts.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from amplint.inference.call_graph import CallGraph
from amplint.inference.calls_in_regions import CallsInRegions
from amplint.inference.key_slots import Edge, KeySlot, difference
from amplint.inference.memo import Memo
from amplint.inference.queue import Queue
from amplint.inference.state import GLOBALS, WHOLE, Dispatch, Key, KeyKind, SiteId, State
from amplint.inference.whole_program.definitions import Definitions
from amplint.knowledge.vocabulary import TEST_PATH
from amplint.values.atoms import BOTTOM, UNKNOWN, Region, Value, constant
from amplint.values.lattice import few_functions, join

# Keys that other files may write.
OF_CODE: frozenset[KeyKind] = frozenset({"param", "field", "runner", "trainer"})
# Keys of which one node alone makes something. What else is read may matter to the whole function,
# or is remembered for the next node that asks.
OF_NODES: frozenset[KeyKind] = frozenset(
    {"param", "default", "return", "yield", "context", "field", "kept", "name", "option"}
)
# Which functions run in one.
OF_REGIONS: frozenset[KeyKind] = frozenset({"precision", "runner", "trainer"})
PUBLISHED: tuple[KeyKind, ...] = ("return", "yield", "context")  # by a function as a whole
# Of these, a function of another part that asks for one learns nothing: see `Store.need`.
FOLLOWED_ONCE: frozenset[KeyKind] = frozenset({"return", "yield", "context", "field"})


class Store:
    """The values that functions write for each other, by key: the `KeyAccess` of the fixpoint.

    Args:
        definitions: of the project.
        states: of the functions that were evaluated.
        failures: the functions that are evaluated no more.
        memo: where values are interned.
        queue: takes the readers of what has changed.
        demand: queues the writers of a key.
        region_in: see `CallsInRegions`.
        note_bases: takes what a class derives from.
        before: one that is not used any more, whose tables are taken over.

    Attributes:
        slots: by key.
        calls: which functions each call may run.
        regions: the regions in which functions are called.
        known_dispatches: by function, see `dispatches`.
        new_edges: what has come to depend on something, or does no longer, since components were
            looked for; None before that.
        shrunk: parts that have become less, or are gone. What is left of the key may rest on
            itself.
        current: the function that is evaluated now; "" for none.
        outside: whether that is one of another part of the project.
        node: of the function that is evaluated now.
    """

    def __init__(
        self,
        definitions: Definitions,
        states: Mapping[str, State],
        failures: Container[str],
        memo: Memo,
        queue: Queue,
        demand: Callable[[Key], None],
        region_in: Callable[[str, Region | None, bool], Region | None],
        note_bases: Callable[[str, tuple[Value, ...]], None],
        before: Store | None = None,
    ) -> None:
        self._files = definitions.files
        self._functions = definitions.functions
        self._states = states
        self._failures = failures
        self._memo = memo
        self._queue = queue
        self._demand = demand
        self._note_bases = note_bases
        self.slots: dict[Key, KeySlot] = before.slots if before else {}
        self.calls: CallGraph = before.calls if before else CallGraph()
        self.regions: CallsInRegions = CallsInRegions(
            states, self.slots, queue, region_in, before.regions if before else None
        )
        self.known_dispatches: dict[str, dict[Dispatch, frozenset[str]]]
        self.known_dispatches = before.known_dispatches if before else {}
        # By site: what it reads, and what it contributes to; and the same of the site that is
        # evaluated now.
        self.read_by: dict[SiteId, list[KeySlot]] = before.read_by if before else {}
        self.written_at: dict[SiteId, list[KeySlot]] = before.written_at if before else {}
        self._reading: list[KeySlot] = []
        self._writing: list[KeySlot] = []
        self.new_edges: set[Edge] | None = None
        self.shrunk: dict[KeySlot, set[SiteId]] = {}
        self.current = ""
        self.outside = False
        self.node = WHOLE
        self._tests: dict[str, bool] = {}

    def slot(self, key: Key) -> KeySlot:
        """The slot of a key; a new one where nothing was known."""
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = KeySlot(key)
        return slot

    def read(self, key: Key) -> Value:
        """The value of a key; what is evaluated now is so again when it changes."""
        slot = self.slot(key)
        if self.current:  # else somebody asks once the fixpoint is there
            if key.kind in OF_NODES:
                site = (self.current, self.node)
                if site not in slot.readers:
                    slot.readers.add(site)
                    self._toggle((slot, site, True))
                self._reading.append(slot)
            else:
                slot.readers.add((self.current, WHOLE))
        if not slot.demanded:
            slot.demanded = not self.outside or key.kind not in FOLLOWED_ONCE
            self._demand(key)
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
        value = self._memo.interned(value)
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

    def _join(self, slot: KeySlot) -> None:
        """Join the parts of a key anew."""
        before = slot.joined
        after = join(slot.parts.values())
        if slot.key.kind == "param":
            after = few_functions(after)
        after = self._memo.interned(after)
        if after is not (before or BOTTOM):
            slot.joined = after
            self.changed(slot, before)

    def _read_parts(self, slot: KeySlot) -> None:
        """Note that the node that is evaluated now looks at the single parts of a key."""
        site = (self.current, self.node)
        if self.current and site not in slot.part_readers:
            slot.part_readers = {*slot.part_readers, site}
            self._toggle((slot, site, True))

    def _part_changed(self, slot: KeySlot) -> None:
        """Have those evaluated who look at the single parts of a key."""
        if slot.part_readers:
            if self._queue.turn is not None:
                self._queue.turn.part_changed(slot)
            self._queue.tell(slot.part_readers)

    def changed(self, slot: KeySlot, before: Value | None) -> None:
        """Have the readers of a key evaluated, whose value is another one."""
        if self._queue.turn is not None:
            self._queue.turn.changed(slot, before)
        if slot.key.kind in OF_REGIONS:
            self.regions.are_stale = True
        self._queue.tell(slot.readers)

    def written_by(self, function: str) -> Iterator[tuple[KeySlot, SiteId]]:
        """The keys that a function that was evaluated contributes to, each with the site."""
        state = self._states[function]
        for node in range(len(state.values)):
            site = (function, node)
            for slot in self.written_at.get(site, ()):
                if site in slot.parts:
                    yield slot, site
        module = f"{self._functions[function].path}::"
        keys = [Key(kind, function) for kind in PUBLISHED]
        keys += (Key("name", function, name) for name in state.published)
        keys += (Key("name", module, name) for name in state.graph.globals)
        for key in keys:
            of_key = self.slots.get(key)
            if of_key is not None:
                sites = ((function, WHOLE), (function, GLOBALS))
                yield from ((of_key, site) for site in sites if site in of_key.parts)

    def reset(self, parts: Iterable[tuple[KeySlot, SiteId]]) -> None:
        """Take parts of keys for nothing: their sites are going to be evaluated."""
        slots: dict[KeySlot, None] = {}
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
        if self.calls.forget(site):
            self.regions.are_stale = True

    def end(self, site: SiteId) -> None:
        """Note that the site was evaluated: what it has read or written before, and has not now,
        has nothing to do with it any more."""
        reading, writing = self._reading, self._writing
        for slot in difference(self.read_by.get(site, ()), reading):
            if site in slot.readers:
                slot.readers.discard(site)
                self._toggle((slot, site, True))
        if reading or site in self.read_by:
            self.read_by[site] = reading
        for slot in difference(self.written_at.get(site, ()), writing):
            self.withdraw(slot, site)
        if writing or site in self.written_at:
            self.written_at[site] = writing

    def _toggle(self, edge: Edge) -> None:
        """Note that something depends on something else, or no longer does."""
        if self.new_edges is not None:
            self.new_edges ^= {edge}

    def withdraw(self, slot: KeySlot, site: SiteId, shrinks: bool = True) -> None:
        """Take back what a site has contributed to a key.

        Args:
            shrinks: whether no other site is known to contribute the same, whatever components do.
        """
        if slot.key.kind == "region":
            self.regions.remove(slot, site)
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
        if not self._memo.has_grown():
            return
        for key, slot in [*self.slots.items()]:
            counts = {value: count for value, count in slot.counts.items() if count > 0}
            slot.counts = defaultdict(int, counts)
            # Those who call a function in a region have its key without having a part of it.
            if key.kind in OF_NODES and not slot.parts and not any(slot.all_readers):
                del self.slots[key]
        of_keys = (value for slot in self.slots.values() for value in slot.counts)
        joins = (slot.joined for slot in self.slots.values() if slot.joined is not None)
        of_nodes = (value for state in self._states.values() for value in state.values)
        self._memo.keep(itertools.chain(of_keys, joins, of_nodes))

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

    def is_from_test(self, owner: str, writer: str) -> bool:
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
        if function in self._states or function in self._failures:
            return
        facts = self._functions[function]
        inside = facts.path in self._files.own or facts.kind != "function"
        if inside or not self.outside:
            self._queue.later(function)

    def inherited_region(self, function: str) -> Region | None:
        """The region that some known caller opens around its call; None where all are outside."""
        self.read(Key("region", function))
        return self.regions.inherited_by(function)

    def write_region(self, function: str, site: SiteId, region: Region | None) -> None:
        """Note that a call of a function stands in a region, or in none."""
        if self.is_from_test(function, site[0]):
            return
        slot = self.slot(Key("region", function))
        self._writing.append(slot)
        self.regions.put(slot, site, region)

    def regions_may_change(self) -> None:
        """Have the regions that functions inherit solved again."""
        self.regions.are_stale = True

    def write_bases(self, cls: str, bases: tuple[Value, ...]) -> None:
        """Note what a class derives from."""
        self._note_bases(cls, bases)

    def later(self, function: str, node: int) -> None:
        """Have a node evaluated, in its turn."""
        self._queue.later(function, node)

    def leave(self, function: str, nodes: Iterable[int]) -> None:
        """Have nodes evaluated when components are known."""
        self._queue.leave(function, nodes)

    def dispatches(self, function: str) -> Mapping[Dispatch, frozenset[str]]:
        """The methods that a function finds by the name in a parameter, for each name given."""
        self._read_parts(self.slot(Key("dispatch", function)))
        return self.known_dispatches.get(function, {})

    def write_dispatch(self, function: str, case: Dispatch, methods: frozenset[str]) -> None:
        cases = self.known_dispatches.setdefault(function, {})
        if cases.get(case) == methods:
            return
        cases[case] = methods
        self._part_changed(self.slot(Key("dispatch", function)))
