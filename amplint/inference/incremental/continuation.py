"""A fixpoint that goes on after an edit: what it keeps is taken, and not copied.

Of a changed function, most nodes stay (`grafting.py`). What has changed is noted, so that facts
that rest on the fixpoint can follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from amplint.inference.function.parameters import MOVING
from amplint.inference.incremental.function_bodies import bodies, others, rebound, shape, signature
from amplint.inference.incremental.grafting import Graft, graft, unchanged
from amplint.inference.incremental.interface import difference, interface
from amplint.inference.incremental.moves import Moves, moves
from amplint.inference.incremental.resumption import ProjectEdit, affected
from amplint.inference.inference import Inference
from amplint.inference.key_slots import KeySlot
from amplint.inference.state import GLOBALS, SiteId, Sites, State
from amplint.inference.whole_program.text_questions import speaks_of_devices
from amplint.ir.file_set import Files
from amplint.values.atoms import BOTTOM


def can_go_on(inference: Inference) -> bool:
    """Whether an edit may be taken up: the values depend on the files alone, and none waits."""
    return inference.is_unique and not inference.failures and not inference.queue.has_any()


def continued(
    files: Files, before: Inference, changed: Collection[str]
) -> tuple[Inference, FixpointEdit] | None:
    """The fixpoint of files that were others when another one had come to its end, and what differs
    from it; None where it has to be computed from nothing.

    Args:
        files: as they are now.
        before: the other one, which can go on. It must not be used afterwards.
        changed: the paths of those with another content, and of those that are new, or gone.
    """
    inference, own, old = Inference(files, before), files.own, before.files.own
    knowledge = KnownBefore(inference)
    inference.will_change = knowledge.note
    new = {path: interface(inference, own[path]) for path in changed if path in own}
    diff = difference({path: interface(before, old[path]) for path in changed if path in old}, new)
    in_others: set[str] = set()
    anew: set[str] = set()
    for path in new:
        was = bodies(before, old[path]) if path in old else {}
        now = bodies(inference, own[path])
        anew |= others(was, now)
        in_others.update(rebound(was, now, own[path]))
    grafts = dict(grafted(anew, before, inference))
    grown = {each for each in grafts if inference.functions[each].kind == "module"}
    stale = affected(inference, diff, (anew - grafts.keys()) | in_others, before, grown)
    if stale is None:
        return None
    remaining = {function: graft for function, graft in grafts.items() if function not in stale}
    edit = ProjectEdit(inference, stale, diff.removals, remaining, new.keys())
    HandingOver(before, edit).run()
    edit.evaluate()
    if inference.functions.keys() != inference.states.keys() or inference.failures:
        return None
    if not edit.moves_only:
        functions = {*edit.anew, *edit.grafts, *edit.removals} | knowledge.changed()
        has_other_bases = before.hierarchy.own_bases != inference.hierarchy.own_bases
        number = len(knowledge)
        return inference, FixpointEdit(frozenset(functions), None, has_other_bases, number)
    edited = {path: old[path] for path in changed if path in old}
    same = edited.keys() == edit.paths
    moved = moves({file: own[path] for path, file in edited.items()}) if same else None
    return inference, FixpointEdit(moves=moved)


@dataclass(frozen=True)
class FixpointEdit:
    """An edit, by what it changes of the outcome of a fixpoint.

    Args:
        functions: those that have changed, or of which something else is known; those
            that are new, or gone.
        moves: the places of code, where nothing else has changed at all; else None.
        has_other_bases: whether a class may derive from something else.
        evaluations: the number of functions that were evaluated again.
    """

    functions: frozenset[str] = frozenset()
    moves: Moves | None = None
    has_other_bases: bool = False
    evaluations: int = 0


class KnownBefore:
    """All that was known of functions before they were evaluated again.

    Nothing else can be known of any other function: values, regions and calls are noted while the
    function is evaluated that they are in. To copy and compare all of them took a fifth of the time
    of an edit of timm.
    """

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._before: dict[str, object] = {}

    def __len__(self) -> int:
        return len(self._before)

    def note(self, function: str) -> None:
        """Note what is known of a function now, unless something was noted of it before."""
        if function not in self._before:
            self._before[function] = outcome(self._inference, function)

    def changed(self) -> set[str]:
        """The functions of which something else is known now."""
        return {
            function
            for function, before in self._before.items()
            if outcome(self._inference, function) != before
        }


def outcome(inference: Inference, function: str) -> object:
    """The part of the outcome of a fixpoint that belongs to one function that was evaluated."""
    state = inference.states.get(function)
    if state is None:
        return None
    sites = [(function, node) for node in range(len(state.values))]
    tables: tuple[Mapping[SiteId, object], ...]
    tables = (
        inference.calls.edges,
        inference.calls.choices,
        inference.calls.threads,
        inference.calls.off_flags,
    )
    calls = [{site: table[site] for site in sites if site in table} for table in tables]
    return [*state.values], {**state.regions}, calls


def grafted(
    functions: Iterable[str], before: Inference, now: Inference
) -> Iterator[tuple[str, Graft]]:
    """Those of the changed functions of which most nodes stay."""
    for function in functions:
        state = before.states.get(function)
        if state is None:
            continue
        old, new = before.functions[function], now.functions[function]
        if before.unseen.observation(old) != now.unseen.observation(new):
            continue
        if signature(old) != signature(new) or not MOVING.isdisjoint(old.words ^ new.words):
            continue  # of words, see `ParameterValues.hot_parameter`
        if speaks_of_devices(before.files[old.path]) != speaks_of_devices(now.files[new.path]):
            continue  # see `Evaluation.is_never_moved`
        graph = now.files[new.path].graph(function)
        if shape(state.graph) == shape(graph):  # the words of a class are those of its methods, too
            yield function, unchanged(graph)
            continue
        is_module = new.kind == "module"
        if state.passed_over or not (is_module or new.kind == "function"):
            continue
        if function in before.store.known_dispatches:
            continue
        marks = before.uses.marks_of(function), now.uses.marks_of(function)
        is_read = is_module or state.nests
        function_graft = graft(state.graph, graph, *marks, is_read=is_read, may_define=is_module)
        if function_graft is not None:
            yield function, function_graft


class HandingOver:
    """The outcome of a fixpoint on its way into the inference of an edit.

    Args:
        before: all that was known. The other inference has its tables already.
        edit: of which nothing is evaluated yet.
    """

    def __init__(self, before: Inference, edit: ProjectEdit) -> None:
        self._before = before
        self._edit = edit
        self._inference = edit.inference
        self._lost = {*edit.anew, *edit.removals}
        # By site that is not what it was: the same one now, or None.
        self._sites: dict[SiteId, SiteId | None] = {
            (function, node): None
            for function in self._lost & before.states.keys()
            for node in range(GLOBALS, len(before.states[function].values))
        }
        for function, function_graft in edit.grafts.items():
            for node in range(len(before.states[function].values)):
                now = function_graft.numbers.get(node)
                if now != node:
                    self._sites[function, node] = (function, now) if now is not None else None

    def run(self) -> None:
        before, edit, inference = self._before, self._edit, self._inference
        is_any_lost = not self._lost.isdisjoint(before.states)
        for function, function_graft in edit.grafts.items():
            inference.rewired.update((function, node) for node in function_graft.rewired)
        self._take_states()
        # A function reads keys as a whole, too, which is noted in their slots alone.
        every = inference.store.slots.values()
        slots = every if is_any_lost or edit.removals else self._slots_of()
        self._rename_sites()
        self._take_regions()
        for function in self._lost:
            inference.store.known_dispatches.pop(function, None)
        inference.hierarchy.own_bases.update(before.hierarchy.own_bases)
        if edit.removals:
            self._forget(edit.removals)
        self._take_slots(slots)
        edit.know_components(self._renamed(before.components), before.unsettled)

    def _take_states(self) -> None:
        """Leave what is lost; the graph of another function may stand in another place now."""
        inference, grafts = self._inference, self._edit.grafts
        states = inference.states
        for function in self._lost:
            states.pop(function, None)
        for state in states.values():
            state.rounds = 0
        for path in self._edit.paths:
            file = inference.files[path]
            for function in file.facts.functions.keys() & states.keys():
                old, graph = states[function], file.graph(function)
                values = old.values
                if function in grafts:
                    values = [BOTTOM] * len(graph.nodes)
                    for was, now in grafts[function].numbers.items():
                        values[now] = old.values[was]
                new = State(graph, values, old.local)
                new.around, new.regions, new.passed_over = old.around, old.regions, old.passed_over
                states[function] = new

    def _rename_sites(self) -> None:
        store, calls = self._inference.store, self._inference.calls
        tables: tuple[dict[SiteId, Any], ...] = (
            store.read_by, store.written_at, calls.edges, calls.choices,
            calls.threads, calls.off_flags,
        )  # fmt: skip
        for rows in tables:
            rename(rows, self._sites)

    def _take_regions(self) -> None:
        inference, regions = self._inference, self._inference.regions
        if self._edit.removals or (self._may_presume_others() and is_presumed(inference)):
            regions.are_stale = True
        for calls in regions.of_functions.values():
            moved = {site: calls.sites[site] for site in self._sites.keys() & calls.sites.keys()}
            for site in moved:
                calls.remove(site)
            for site, region in moved.items():
                now = self._sites[site]
                if now is None:
                    regions.are_stale = True
                else:
                    calls.put(now, region)

    def _may_presume_others(self) -> bool:
        """Whether functions may be presumed to run in other regions: a decorator or an observation
        of one is another one, or a backward pass (see `training.py`) is."""
        tables = self._before.functions, self._inference.functions
        passes = ("backward" in of[each].words for each in self._edit.grafts for of in tables)
        return bool(self._edit.anew) or any(passes)

    def _renamed(self, components: Iterable[Sites]) -> Iterator[Sites]:
        """The components as they are named now, except those that have lost a node: what is left of
        one is looked at again."""
        functions = {function for function, _ in self._sites}
        for sites in components:
            if functions.isdisjoint(function for function, _ in sites):
                yield sites
                continue
            now = [self._sites.get(site, site) for site in sites]
            remaining = [site for site in now if site is not None]
            if len(remaining) == len(now):
                yield tuple(remaining)
            else:
                self._inference.rewired.update(remaining)

    def _slots_of(self) -> Collection[KeySlot]:
        """The slots that some nodes read or write."""
        store = self._inference.store
        slots = {
            slot: None
            for site in self._sites
            for rows in (store.read_by, store.written_at)
            for slot in rows.get(site, ())
        }
        slots.update((slot, None) for slot in store.slots.values() if slot.part_readers)
        return slots.keys()

    def _take_slots(self, slots: Iterable[KeySlot]) -> None:
        """Name the sites of keys as they are now. Those that are gone read nothing any more; what
        they have written stays, under another name: see `ProjectEdit.evaluate`."""
        names = self._sites
        for slot in slots:
            if not names.keys().isdisjoint(slot.parts):
                parts, slot.parts = slot.parts, {}
                for site, value in parts.items():
                    now = names.get(site, site)
                    slot.parts[now or self._edit.leave_behind(slot, site)] = value
            if not names.keys().isdisjoint(slot.readers):
                slot.readers = present(slot.readers, names)
            if slot.part_readers and not names.keys().isdisjoint(slot.part_readers):
                slot.part_readers = present(slot.part_readers, names)

    def _forget(self, identities: Collection[str]) -> None:
        """Forget all that definitions own which are gone."""
        store = self._inference.store
        for key in [key for key in store.slots if key.owner in identities]:
            del store.slots[key]
        for rows in (store.read_by, store.written_at):
            for site, slots in rows.items():
                if any(slot.key.owner in identities for slot in slots):
                    rows[site] = [slot for slot in slots if slot.key.owner not in identities]
        for identity in identities:
            self._inference.regions.of_functions.pop(identity, None)
            self._inference.hierarchy.own_bases.pop(identity, None)


def is_presumed(inference: Inference) -> bool:
    """Whether some regions are known by more than calls."""
    return inference.unseen.presumption.is_any or bool(inference.files.observed)


def present(sites: Iterable[SiteId], names: Mapping[SiteId, SiteId | None]) -> set[SiteId]:
    """Sites as they are named now, except for those that are gone."""
    now = (names.get(site, site) for site in sites)
    return {site for site in now if site is not None}


def rename(rows: dict[SiteId, Any], names: Mapping[SiteId, SiteId | None]) -> None:
    """Name the sites of a table as they are now. Those that are gone go from it."""
    moved = {site: rows.pop(site) for site in names.keys() & rows.keys()}
    for site, row in moved.items():
        now = names[site]
        if now is not None:
            rows[now] = row
