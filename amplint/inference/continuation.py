"""A fixpoint that goes on in memory after an edit, where `snapshot.py` takes one up from disk.

Nothing is read, and nothing is copied: the new fixpoint takes what the old one has, which is of no
use afterwards. Of a changed file, those functions are evaluated again that have changed
in more than their place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from amplint.inference.bodies import bodies, others, rebound, shape, told
from amplint.inference.evaluation import MOVING
from amplint.inference.fixpoint import Inference
from amplint.inference.grafting import Graft, graft, unchanged
from amplint.inference.interface import difference, interface
from amplint.inference.project import ProjectFacts, speaks_of_devices
from amplint.inference.snapshot import GONE, TakenUp, affected, naming, updated
from amplint.inference.state import GLOBALS, SiteId, Sites, State
from amplint.inference.store import Slot
from amplint.inference.value_codec import Encoder
from amplint.ir.file_set import Files
from amplint.ir.moves import Moves, moves
from amplint.values.atoms import BOTTOM


def can_go_on(inference: Inference) -> bool:
    """Whether an edit may be taken up: the values depend on the files alone, and none waits."""
    return inference.is_unique and not inference.failures and not inference.has_queued()


def continued(files: Files, before: Inference, changed: Collection[str]) -> Continued | None:
    """The fixpoint of files that were others when another one had come to its end; None where it
    has to be computed from nothing.

    Args:
        files: as they are now.
        before: the other one, which can go on. It must not be used afterwards.
        changed: the paths of those with another content, and of those that are new, or gone.
    """
    project = Inference(files)
    old = {path: before.files.own[path] for path in changed if path in before.files.own}
    new = {path: files.own[path] for path in changed if path in files.own}
    seen = difference(
        {path: interface(before, file) for path, file in old.items()},
        {path: interface(project, file) for path, file in new.items()},
    )
    anew: set[str] = set()
    in_others: set[str] = set()
    for path, file in new.items():
        known = bodies(before, old[path]) if path in old else {}
        now = bodies(project, file)
        anew |= others(known, now)
        in_others.update(rebound(known, now, file))
    grafts = dict(grafted(anew, before, project))
    found = affected(
        project,
        seen,
        (anew - grafts.keys()) | in_others,
        before.states,
        lambda ids: holders(before, ids),
        {each for each in grafts if project.functions[each].kind == "module"},
    )
    if found is None:
        return None
    for function in found & grafts.keys():
        del grafts[function]
    bases = {**before.own_bases}
    inference = updated(Continued(files, before, new, found, seen.gone, grafts))
    if inference is None:
        return None
    if found or grafts or seen.gone:
        functions = {*found, *grafts, *seen.gone} | inference.known.changed()
        has_other_bases = bases != inference.own_bases
        inference.edit = FixpointEdit(frozenset(functions), None, has_other_bases)
    else:
        same = old.keys() == new.keys()
        moved = moves({file: new[path] for path, file in old.items()}) if same else None
        inference.edit = FixpointEdit(frozenset(), moved, False)
    return inference


@dataclass(frozen=True)
class FixpointEdit:
    """An edit, by what it changes of the outcome of a fixpoint.

    Args:
        functions: those that have changed, or of which something else is known; those
            that are new, or gone.
        moves: the places of code, where nothing else has changed at all; else None.
        has_other_bases: whether a class may derive from something else.
    """

    functions: frozenset[str]
    moves: Moves | None
    has_other_bases: bool


class KnownBefore:
    """All that was known of functions before they were evaluated again.

    Nothing else can be known of any other function: values, regions and calls are noted while the
    function is evaluated that they are in. To copy and compare all of them took a fifth of the time
    of an edit of timm.
    """

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._before: dict[str, object] = {}

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
    tables = inference.edges, inference.drawn, inference.threads, inference.off_flags
    calls = [{site: table[site] for site in sites if site in table} for table in tables]
    return [*state.values], {**state.regions}, calls


def grafted(
    functions: Iterable[str], before: Inference, project: ProjectFacts
) -> Iterator[tuple[str, Graft]]:
    """Those of the changed functions of which most nodes stay."""
    for function in functions:
        state = before.states.get(function)
        if state is None:
            continue
        old, new = before.functions[function], project.functions[function]
        if before.observation(old) != project.observation(new):
            continue
        if told(old) != told(new) or not MOVING.isdisjoint(old.words ^ new.words):
            continue  # of words, see `Evaluation.hot_parameter`
        if speaks_of_devices(before.files[old.path]) != speaks_of_devices(project.files[new.path]):
            continue  # see `Evaluation.is_never_moved`
        graph = project.files[new.path].graph(function)
        if shape(state.graph) == shape(graph):  # the words of a class are those of its methods, too
            yield function, unchanged(graph)
            continue
        is_module = new.kind == "module"
        if state.passed_over or not (is_module or new.kind == "function"):
            continue
        if function in before.known_dispatches:
            continue
        marks = before.marks_of(function), project.marks_of(function)
        is_read = is_module or state.nests
        found = graft(state.graph, graph, *marks, is_read=is_read, may_define=is_module)
        if found is not None:
            yield function, found


def holders(inference: Inference, ids: Collection[str]) -> set[str]:
    """The functions in which something is a value that means one of these functions, classes or
    modules, or a call that does."""
    # Of a definition that is new, nothing can know yet.
    ids = {
        identity
        for identity in ids
        if identity in inference.functions
        or identity in inference.classes
        or identity in inference.files
    }
    if not ids:
        return set()
    encoder = Encoder()
    rows = {
        function: {encoder.value(value) for value in {*state.values}}
        for function, state in inference.states.items()
    }
    values = naming(ids, encoder.values, encoder.atoms)
    found = {function for function, row in rows.items() if not values.isdisjoint(row)}
    for calls in (inference.edges, inference.drawn):
        found.update(function for (function, _), of in calls.items() if not of.isdisjoint(ids))
    return found


class Continued(TakenUp):
    """A fixpoint that begins with what another one had come to, in memory.

    Args:
        files, anew, gone: as for `TakenUp`.
        before: the other one.
        edited: the paths of the changed files.
        grafts: the changed functions of which most nodes stay.

    Attributes:
        known: what was known of functions before they are evaluated again.
        edit: what differs from the other one, once this one has come to its end.
    """

    edit: FixpointEdit

    def __init__(
        self,
        files: Files,
        before: Inference,
        edited: Collection[str],
        anew: Collection[str],
        gone: Collection[str],
        grafts: Mapping[str, Graft],
    ) -> None:
        super().__init__(files, anew, gone)
        self.known = KnownBefore(self)
        self._left = {*anew, *gone}  # the functions of which nothing is kept
        self._grafted = grafts
        # By site that is not what it was: the same one now, or None.
        lost = self._left & before.states.keys()
        sites: dict[SiteId, SiteId | None] = {
            (function, node): None
            for function in lost
            for node in range(GLOBALS, len(before.states[function].values))
        }
        for function, kept in grafts.items():
            for node in range(len(before.states[function].values)):
                now = kept.numbers.get(node)
                if now != node:
                    sites[function, node] = (function, now) if now is not None else None
            self.rewired.update((function, node) for node in kept.rewired)
        self.memo = before.memo
        self.states = before.states
        self._take_states(edited)
        self.slots = before.slots
        self._read, self._written = before._read, before._written
        self.edges, self.drawn = before.edges, before.drawn
        self.threads, self.off_flags = before.threads, before.off_flags
        # A function reads keys as a whole, too, which is noted in their slots alone.
        slots = None if lost or gone else self._slots_of(sites)
        of_sites: tuple[dict[SiteId, Any], ...] = (
            self._read, self._written, self.edges, self.drawn, self.threads, self.off_flags,
        )  # fmt: skip
        for rows in of_sites:
            rename(rows, sites)
        is_presumed = bool(grafts) and (self.presumption.is_any or bool(files.observed))
        self.are_regions_stale = before.are_regions_stale or bool(gone) or is_presumed
        self._regions = before._regions
        for calls in self._regions.values():
            moved = {site: calls.sites[site] for site in sites.keys() & calls.sites.keys()}
            for site in moved:
                calls.remove(site)
            for site, region in moved.items():
                now_site = sites[site]
                if now_site is None:
                    self.are_regions_stale = True
                else:
                    calls.put(now_site, region)
        self._inherited = before._inherited
        self.known_dispatches = before.known_dispatches
        for function in self._left:
            self.known_dispatches.pop(function, None)
        self.own_bases = before.own_bases
        if gone:
            self._forget(gone)
        self._take_slots(self.slots.values() if slots is None else slots, sites)
        self._know_components(self._renamed(before.components, sites), before.unsettled)

    def update(self) -> None:
        if self._left or self._grafted:
            super().update()
        else:
            self.is_unique = True  # as it was: nothing but places has changed

    def will_change(self, function: str) -> None:
        self.known.note(function)

    def _take_states(self, edited: Collection[str]) -> None:
        """Take the functions that are not left: the graph of one may stand in another place now."""
        for function in self._left:
            self.states.pop(function, None)
        for state in self.states.values():
            state.rounds = 0
        for path in edited:
            file = self.files[path]
            for function in file.facts.functions.keys() & self.states.keys():
                old, graph = self.states[function], file.graph(function)
                values = old.values
                if function in self._grafted:
                    values = [BOTTOM] * len(graph.nodes)
                    for was, now in self._grafted[function].numbers.items():
                        values[now] = old.values[was]
                new = State(graph, values, old.local)
                new.around, new.regions, new.passed_over = old.around, old.regions, old.passed_over
                self.states[function] = new

    def _renamed(
        self, components: Iterable[Sites], names: Mapping[SiteId, SiteId | None]
    ) -> Iterator[Sites]:
        """The components as they are named now, except those that have lost a node: what is left of
        one is looked at again."""
        functions = {function for function, _ in names}
        for sites in components:
            if functions.isdisjoint(function for function, _ in sites):
                yield sites
                continue
            now = [names.get(site, site) for site in sites]
            left = [site for site in now if site is not None]
            if len(left) == len(now):
                yield tuple(left)
            else:
                self.rewired.update(left)

    def _slots_of(self, sites: Iterable[SiteId]) -> list[Slot]:
        """The slots that some nodes read or write."""
        found = {
            slot: None
            for site in sites
            for rows in (self._read, self._written)
            for slot in rows.get(site, ())
        }
        found.update((slot, None) for slot in self.slots.values() if slot.part_readers)
        return [*found]

    def _take_slots(self, slots: Iterable[Slot], names: Mapping[SiteId, SiteId | None]) -> None:
        """Name the sites of keys as they are now. Those that are gone read nothing any more; what
        they have written stays, under another name: see `TakenUp.update`."""
        for slot in slots:
            if not names.keys().isdisjoint(slot.parts):
                parts, slot.parts = slot.parts, {}
                for site, value in parts.items():
                    now = names.get(site, site)
                    if now is None:
                        now = (GONE + site[0], site[1])
                        self._gone.append((slot, now))
                    slot.parts[now] = value
            if not names.keys().isdisjoint(slot.readers):
                slot.readers = present(slot.readers, names)
            if slot.part_readers and not names.keys().isdisjoint(slot.part_readers):
                slot.part_readers = present(slot.part_readers, names)

    def _forget(self, gone: Collection[str]) -> None:
        """Forget all that definitions own which are gone."""
        for key in [key for key in self.slots if key.owner in gone]:
            del self.slots[key]
        for rows in (self._read, self._written):
            for site, slots in rows.items():
                if any(slot.key.owner in gone for slot in slots):
                    rows[site] = [slot for slot in slots if slot.key.owner not in gone]
        for identity in gone:
            self._regions.pop(identity, None)
            self.own_bases.pop(identity, None)


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
