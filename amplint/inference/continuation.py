"""A fixpoint that goes on in memory after an edit, where `snapshot.py` takes one up from disk.

Nothing is read, and nothing is copied: the new fixpoint takes what the old one has, which is of no
use afterwards. Of a changed file, those functions are evaluated again that are others than before
in more than their place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from amplint.inference.fixpoint import Inference
from amplint.inference.interface import difference, interface
from amplint.inference.project import IDLE_SCALER
from amplint.inference.snapshot import GONE, TakenUp, affected, naming, updated
from amplint.inference.state import WHOLE, SiteId, State
from amplint.inference.value_codec import Encoder
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts, Graph
from amplint.ir.moves import Moves, moves


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
    anew = {
        function for path, file in new.items() for function in others(file, old.get(path, NOTHING))
    }
    found = affected(project, seen, anew, before.states, lambda ids: holders(before, ids))
    if found is None:
        return None
    inference = updated(Continued(files, before, new, found, seen.gone))
    if inference is not None and not (found or seen.gone) and old.keys() == new.keys():
        inference.moves = moves({file: new[path] for path, file in old.items()})
    return inference


NOTHING = File("", "")


def others(new: File, old: File) -> Iterator[str]:
    """The functions of a file that are others than before, in more than their place."""
    if new.has_line(IDLE_SCALER) != old.has_line(IDLE_SCALER):
        yield from new.facts.functions  # see `Frame.is_scaled`
        return
    for function, facts in new.facts.functions.items():
        known = old.facts.functions.get(function)
        same = known is not None and told(facts) == told(known)
        if not same or shape(new.graph(function)) != shape(old.graph(function)):
            yield function


def told(facts: FunctionFacts) -> object:
    """All that is known of a function but its place; constants by their text, for 1 == True."""
    return (
        facts.name, facts.kind, facts.parent, facts.cls, repr(facts.params), facts.decorated,
        facts.is_async, facts.words,
    )  # fmt: skip


def shape(graph: Graph) -> object:
    """All of a graph but the places of its nodes and blocks; constants by their text."""
    return (
        [(node.op, node.operands, repr(node.data), node.block) for node in graph.nodes],
        [(block.kind, block.parent, block.node) for block in graph.blocks],
        [*graph.bindings.items()], [*graph.globals.items()],
        graph.returns, graph.yields, graph.annotation,
    )  # fmt: skip


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
        edited: the paths of the files that are others than before.

    Attributes:
        moves: where the code of edited files stands now, where nothing else about it has changed.
    """

    moves: Moves | None = None

    def __init__(
        self,
        files: Files,
        before: Inference,
        edited: Collection[str],
        anew: Collection[str],
        gone: Collection[str],
    ) -> None:
        super().__init__(files, anew, gone)
        self._left = {*anew, *gone}  # the functions of which nothing is kept
        sites = {
            (function, node)
            for function in self._left & before.states.keys()
            for node in range(WHOLE, len(before.states[function].values))
        }
        self.memo = before.memo
        self.states = before.states
        self._take_states(edited)
        self.slots = before.slots
        self._read, self._written = before._read, before._written
        self.edges, self.drawn = before.edges, before.drawn
        self.threads, self.off_flags = before.threads, before.off_flags
        of_sites: tuple[dict[SiteId, Any], ...] = (
            self._read, self._written, self.edges, self.drawn, self.threads, self.off_flags,
        )  # fmt: skip
        for rows in of_sites:
            for site in sites.intersection(rows):
                del rows[site]
        self._regions = before._regions
        for calls in self._regions.values():
            for site in sites.intersection(calls.sites):
                calls.remove(site)
        self._inherited = before._inherited
        self.known_dispatches = before.known_dispatches
        for function in self._left:
            self.known_dispatches.pop(function, None)
        self.own_bases = before.own_bases
        if gone:
            self._forget(gone)
        self._take_slots(sites)
        self._know_circles(before.circles, before.unsettled)

    def update(self) -> None:
        if self._left:
            super().update()
        else:
            self.is_unique = True  # as it was: nothing but places has changed

    def _take_states(self, edited: Collection[str]) -> None:
        """Take the functions that are not left: the graph of one may stand in another place now."""
        for function in self._left:
            self.states.pop(function, None)
        for state in self.states.values():
            state.rounds = 0
        for path in edited:
            file = self.files[path]
            for function in file.facts.functions.keys() & self.states.keys():
                old = self.states[function]
                new = State(file.graph(function), old.values, old.local)
                new.around, new.regions, new.passed_over = old.around, old.regions, old.passed_over
                self.states[function] = new

    def _take_slots(self, sites: Collection[SiteId]) -> None:
        """Take the sites of what is left from those who read a key. What they have written stays,
        under another name: see `TakenUp.update`."""
        left = {*sites}
        for slot in self.slots.values():
            if not left.isdisjoint(slot.parts):
                parts, slot.parts = slot.parts, {}
                for site, value in parts.items():
                    kept = site if site not in left else (GONE + site[0], site[1])
                    slot.parts[kept] = value
                    if kept is not site:
                        self._gone.append((slot, kept))
            if not left.isdisjoint(slot.readers):
                slot.readers.difference_update(left)
            if slot.part_readers and not left.isdisjoint(slot.part_readers):
                slot.part_readers = {*slot.part_readers} - left

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
