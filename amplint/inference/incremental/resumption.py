"""A fixpoint taken up again after an edit, with what was known before it.

What is evaluated again are the functions that have changed (`function_bodies.py`), those that see
more of their files than keys (`interface.py`), then the readers of each key that changed by that,
and the components among these. The outcome is that of a fixpoint from nothing: a node outside of
components has the one value that its operands and keys give, and a component is evaluated from
nothing whenever something that it depends on has changed. Where the fixpoint had come to a limit,
there is nothing to take up.

What was known is in memory (`continuation.py`), be it that it was read from disk (`snapshot.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from amplint.inference.components import complete
from amplint.inference.fixpoint import evaluate, note_regions
from amplint.inference.function.results import is_made_of_arguments
from amplint.inference.incremental.grafting import Graft, mentions
from amplint.inference.incremental.interface import (
    InterfaceDifference,
    related,
)
from amplint.inference.incremental.value_codec import Encoder
from amplint.inference.inference import Inference
from amplint.inference.key_slots import KeySlot
from amplint.inference.state import WHOLE, Key, SiteId, Sites
from amplint.ir.codec import unpacked
from amplint.values.atoms import KINDS, Class, Function, Instance, Module, Super

GONE = "\0"  # before the id of a function: what it has written before it was changed
# More of all functions to be evaluated are as fast to evaluate from nothing, or nearly so.
MOST_CHANGED = 0.25


class ProjectEdit:
    """An edit of files: what has to be evaluated because of it.

    Args:
        inference: of the files as they are now.
        anew: the functions to be evaluated from nothing.
        removals: the functions and classes that are no more.
        grafts: the changed functions of which most nodes stay.
        paths: of the files that were edited, and are there.

    Attributes:
        left_behind: what these functions had written.
    """

    def __init__(
        self,
        inference: Inference,
        anew: Collection[str],
        removals: Collection[str],
        grafts: Mapping[str, Graft],
        paths: Collection[str],
    ) -> None:
        self.inference = inference
        self.anew = sorted(anew)
        self.removals = removals
        self.grafts = grafts
        self.paths = paths
        self.left_behind: list[tuple[KeySlot, SiteId]] = []

    @property
    def moves_only(self) -> bool:
        """Whether nothing but the places of code may have changed."""
        return not (self.anew or self.removals or self.grafts)

    def leave_behind(self, slot: KeySlot, site: SiteId) -> SiteId:
        """Keep a part of a key whose function is evaluated from nothing. Returns its site now."""
        site = (GONE + site[0], site[1])
        self.left_behind.append((slot, site))
        return site

    def know_components(self, components: Iterable[Sites], unsettled: Collection[str]) -> None:
        """Take these for the components, except for one that lies in a changed function as well."""
        inference, states = self.inference, self.inference.states
        components = [*components]
        inference.components = [each for each in components if all(f in states for f, _ in each)]
        lost = {*components}.difference(inference.components)
        inference.unsettled = {*unsettled} - {f for sites in lost for f, _ in sites}
        inference.searched = set(states)
        inference.store.new_edges = set()

    def evaluate(self) -> None:
        """Evaluate what has changed, and what depends on it."""
        inference = self.inference
        if self.moves_only:
            note_regions(inference)
            inference.is_unique = True  # as it was
            return
        # What they had written stays until they have been evaluated once: most of them write the
        # same again, and nobody else has to hear of it. But no value may mean what is gone.
        if self.removals:
            self._withdraw()
        for function in self.anew:
            inference.queue.discard(function)
            evaluate(inference, function, {WHOLE})
        self._withdraw()
        for function, graft in self.grafts.items():
            for node in graft.behind:
                inference.queue.later(function, node)
        for function in (*self.anew, *self.grafts):
            # Who calls what makes a region or an instance looks into it: `CallResults.specialised`.
            slot = inference.store.slot(Key("return", function))
            if any(map(is_made_of_arguments, slot.joined or ())):
                inference.queue.tell(slot.readers)
        complete(inference)

    def _withdraw(self) -> None:
        """Withdraw what was left behind."""
        if not self.left_behind:
            return
        store = self.inference.store
        # A function that was evaluated from nothing is in no component that is known: what it
        # writes again, in whatever place, keeps a key from resting on itself.
        again = {
            (slot, slot.parts[site])
            for function in self.anew
            if function in self.inference.states
            for slot, site in store.written_by(function)
        }
        for slot, site in self.left_behind:
            is_written_again = site in slot.parts and (slot, slot.parts[site]) in again
            store.withdraw(slot, site, not is_written_again)
        self.left_behind.clear()


def affected(
    inference: Inference,
    diff: InterfaceDifference,
    anew: Collection[str],
    before: Inference,
    grown: Collection[str],
) -> set[str] | None:
    """The functions that an edit has to be evaluated from nothing for; None for nearly all.

    Args:
        inference: of the files as they are now.
        diff: the difference in the interfaces of the files that were edited.
        anew: the changed functions, whatever else is affected.
        before: what was known before.
        grown: modules with functions that are new, and in which all else stays.
    """
    own_classes = [*inference.definitions.own_classes()]
    bases = {base for cls in own_classes for base in cls.bases}
    if diff.is_large or not bases.isdisjoint(diff.bound):
        return None  # other classes may derive from others
    functions = inference.definitions.own_functions()
    stale = {each.id for each in functions if not diff.names.isdisjoint(each.words)}
    stale -= {
        module
        for module in grown
        if not mentions(inference.files[inference.functions[module].path].graph(module), diff.names)
    }
    ids = diff.referents | related(diff.classes, own_classes)
    stale |= holders(before, ids) | users_of_defaults(before, diff.defaults)
    stale |= {*anew}
    stale |= lambdas_in(stale, before.states)
    stale -= diff.removals
    return stale if len(stale) <= MOST_CHANGED * len(before.states) else None


def holders(before: Inference, ids: Collection[str]) -> set[str]:
    """The functions in which something is a value that means one of these functions, classes or
    modules, or a call that does."""
    # Of a definition that is new, nothing can know yet.
    ids = {i for i in ids if i in before.functions or i in before.classes or i in before.files}
    if not ids:
        return set()
    encoder = Encoder()
    rows = {
        function: {encoder.value(value) for value in {*state.values}}
        for function, state in before.states.items()
    }
    values = naming(ids, encoder.values, encoder.atoms)
    users = {function for function, row in rows.items() if not values.isdisjoint(row)}
    return users | callers(before, ids)


def callers(before: Inference, ids: Collection[str]) -> set[str]:
    """The functions in which a call may run one of these."""
    calls = before.calls.edges, before.calls.choices
    sites = (site for of in calls for site, those in of.items() if not those.isdisjoint(ids))
    return {function for function, _ in sites}


def users_of_defaults(before: Inference, ids: Collection[str]) -> set[str]:
    """The functions that may hand on the constants which parameters of these have where none is
    given: those that call them, or say what they are called with (`partial`, a thread)."""
    if not ids:
        return set()
    slots = (slot for key, slot in before.store.slots.items() if key.kind == "param")
    writers = {f for slot in slots if slot.key.owner in ids for f, _ in slot.parts}
    return callers(before, ids) | writers


def lambdas_in(around: Collection[str], functions: Iterable[str]) -> set[str]:
    """The lambdas of these functions: their files know them only once the graphs are built."""
    lambdas: set[str] = set()
    for function in functions:
        outer, is_lambda, _ = function.partition("<lambda>")
        if is_lambda and (outer in around or outer.removesuffix(".") in around):
            lambdas.add(function)
    return lambdas


NAMING = frozenset(map(KINDS.index, (Class, Function, Instance, Module, Super)))


def naming(ids: Collection[str], values: list[list[int]], atoms: list[list[Any]]) -> set[int]:
    """The values, by number, that mean one of these functions, classes or modules, or hold one that
    does.

    Args:
        values, atoms: see `value_codec.Encoder`.
    """
    verdicts: list[bool] = []  # by number of an alternative

    def means(part: Any) -> bool:
        if type(part) is not list:
            return False
        if part[0] == "value":
            return any(verdicts[atom] for atom in values[part[1]])
        return verdicts[part[1]] if part[0] == "atom" else any(map(means, part[1:]))

    for kind, *parts in atoms:
        verdicts.append((kind in NAMING and unpacked(parts[0]) in ids) or any(map(means, parts)))
    return {number for number, row in enumerate(values) if any(verdicts[atom] for atom in row)}
