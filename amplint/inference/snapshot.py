"""The outcome of a fixpoint as plain data, and the fixpoint taken up again after an edit.

What is evaluated again are the functions that have changed (`bodies.py`), those that see more of
their files than keys (`interface.py`), then the readers of each key that changed by that, and the
components among these. The outcome is that of a fixpoint from nothing: a node outside of components
has the one value that its operands and keys give, and a component is evaluated from nothing
whenever something that it depends on has changed. Where the fixpoint had come to a limit, there is
nothing to take up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from amplint.inference.bodies import Body, bodies, others, rebound
from amplint.inference.calls import is_made_of_arguments
from amplint.inference.components import complete
from amplint.inference.fixpoint import Inference
from amplint.inference.grafting import Graft, mentions
from amplint.inference.interface import (
    Interface,
    InterfaceDifference,
    difference,
    interface,
    related,
)
from amplint.inference.project import ProjectFacts
from amplint.inference.state import WHOLE, Key, KeyKind, SiteId, Sites, State
from amplint.inference.store import OF_NODES, Slot
from amplint.inference.value_codec import Decoder, Encoder, RegionRow, region_of, region_row
from amplint.ir.codec import unpacked
from amplint.ir.file_set import Files
from amplint.values.atoms import KINDS, Class, Function, Instance, Module, Super, Value

GONE = "\0"  # before the id of a function: what it has written before it was changed
# More of all functions to be evaluated are as fast to evaluate from nothing, or nearly so.
MOST_CHANGED = 0.25

Pairs = list[int]  # of functions, by their places among the texts, and nodes: one after the other
SlotRow = tuple[KeyKind, int, int, int, bool, list[int], Pairs, Pairs]
CallRow = tuple[int, int, list[int]]
DispatchRow = tuple[int, str, str, list[int]]


class Snapshot(msgspec.Struct, array_like=True):
    """The outcome of a fixpoint. Numbers stand for places in `texts`, `values` and `atoms`.

    Args:
        files: by path, the interface of the file.
        texts: ids of functions and classes, and names in keys.
        values, atoms: see `value_codec.Encoder`.
        functions: those that were evaluated: id, values of the nodes, the region around, and body.
        slots: kind, owner and name of a key; its value, or -1; whether it is demanded; its parts as
            function, node and value; those who read it, and those who read its parts.
        edges, drawn, threads: by call, see `Store`; threads hold alternatives.
        off_flags: the flag that a call declares.
        regions: by function, in which regions it is called: function, node and region.
        inherited: the region that a function inherits.
        dispatches: by function, see `Store`.
        bases: by class.
        components: of each, the nodes.
        unsettled: functions.
    """

    files: dict[str, Interface]
    texts: list[str]
    values: list[list[int]]
    atoms: list[list[Any]]
    functions: list[tuple[int, list[int], RegionRow | None, Body]]
    slots: list[SlotRow]
    edges: list[CallRow]
    drawn: list[CallRow]
    threads: list[CallRow]
    off_flags: list[tuple[int, int, str]]
    regions: list[tuple[int, list[tuple[int, int, RegionRow | None]]]]
    inherited: list[tuple[int, RegionRow | None]]
    dispatches: list[tuple[int, list[DispatchRow]]]
    bases: list[tuple[int, list[int]]]
    components: list[Pairs]
    unsettled: list[int]


class TextNumbers(dict[str, int]):
    """Texts by the order in which they are met."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number

    def pairs(self, sites: Iterable[SiteId]) -> Pairs:
        return [number for function, node in sites for number in (self[function], node)]


def taken(inference: Inference) -> Snapshot | None:
    """The snapshot of a fixpoint that is complete, before anybody asks it for more; None where the
    outcome may depend on more than the files."""
    if inference.failures or not inference.is_unique:
        return None
    texts, encoder = TextNumbers(), Encoder()
    value = encoder.value
    own = inference.files.own
    files = {path: interface(inference, file) for path, file in own.items()}
    known = {
        function: body
        for file in own.values()
        for function, body in bodies(inference, file).items()
    }
    return Snapshot(
        files=files,
        functions=[
            (
                texts[function],
                list(map(value, state.values)),
                region_row(state.around),
                known[function],
            )
            for function, state in inference.states.items()
        ],
        slots=[
            (
                key.kind, texts[key.owner], texts[key.name],
                value(slot.joined) if slot.joined is not None else -1,
                slot.demanded,
                [
                    number
                    for (function, node), part in slot.parts.items()
                    for number in (texts[function], node, value(part))
                ],
                texts.pairs(slot.readers),
                texts.pairs(slot.part_readers),
            )
            for key, slot in inference.slots.items()
        ],
        edges=calls(inference.edges, texts.__getitem__, texts),
        drawn=calls(inference.drawn, texts.__getitem__, texts),
        threads=calls(inference.threads, encoder.atom, texts),
        off_flags=[(texts[f], node, flag) for (f, node), flag in inference.off_flags.items()],
        regions=[
            (
                texts[function],
                [(texts[f], node, region_row(region)) for (f, node), region in of.sites.items()],
            )
            for function, of in inference.calls_of_functions().items()
        ],
        inherited=[(texts[f], region_row(region)) for f, region in inference.inherited.items()],
        dispatches=[
            (
                texts[function],
                [(*case, [texts[method] for method in methods]) for case, methods in of.items()],
            )
            for function, of in inference.known_dispatches.items()
        ],
        bases=[(texts[cls], list(map(value, of))) for cls, of in inference.own_bases.items()],
        components=[texts.pairs(sites) for sites in inference.components],
        unsettled=[texts[function] for function in sorted(inference.unsettled)],
        texts=list(texts),
        values=encoder.values,
        atoms=encoder.atoms,
    )  # fmt: skip


def calls(
    sites: Mapping[SiteId, Iterable[Any]], number: Callable[[Any], int], texts: TextNumbers
) -> list[CallRow]:
    return [(texts[f], node, list(map(number, of))) for (f, node), of in sites.items()]


def resumed(files: Files, snapshot: Snapshot, changed: Collection[str]) -> Inference | None:
    """The fixpoint of files that were others when the snapshot was taken; None where it has to be
    computed from nothing.

    Args:
        files: as they are now.
        changed: the paths of those with another content, and of those that are new, or gone.

    Raises IndexError, KeyError, TypeError or ValueError for a snapshot that nobody has taken.
    """
    project = Inference(files)
    before = {path: snapshot.files[path] for path in changed if path in snapshot.files}
    now = {path: interface(project, files.own[path]) for path in changed if path in files.own}
    known = {snapshot.texts[function]: body for function, *_, body in snapshot.functions}
    anew: set[str] = set()
    for path in now:
        bodies_now = bodies(project, files.own[path])
        anew |= others(known, bodies_now)
        anew.update(rebound(known, bodies_now, files.own[path]))
    seen = difference(before, now)
    found = affected(project, seen, anew, known.keys(), lambda ids: holders(snapshot, ids))
    return None if found is None else updated(Resumed(files, snapshot, found, seen.gone))


def affected(
    project: ProjectFacts,
    seen: InterfaceDifference,
    anew: Collection[str],
    known: Collection[str],
    holding: Callable[[Collection[str]], set[str]],
    grown: Collection[str] = (),
) -> set[str] | None:
    """The functions that an edit has to be evaluated from nothing for; None for nearly all.

    Args:
        project: as it is now.
        seen: the difference in the interfaces of the files that were edited.
        anew: the changed functions, whatever else is affected.
        known: all that were evaluated before.
        holding: those of them in which something means one of these functions, classes or modules.
        grown: modules with functions that are new, and in which all else stays.
    """
    bases = {base for cls in project.own_classes() for base in cls.bases}
    if seen.is_large or not bases.isdisjoint(seen.bound):
        return None  # other classes may derive from others
    found = {each.id for each in project.own_functions() if not seen.names.isdisjoint(each.words)}
    found -= {
        module
        for module in grown
        if not mentions(project.files[project.functions[module].path].graph(module), seen.names)
    }
    found |= holding(seen.meant | related(seen.classes, project.own_classes()))
    found |= {*anew}
    found |= lambdas_in(found, known)
    found -= seen.gone
    return found if len(found) <= MOST_CHANGED * len(known) else None


Taken = TypeVar("Taken", bound="TakenUp")


def updated(inference: Taken) -> Taken | None:
    """The fixpoint once it has come to its end; None where that is not the one from nothing."""
    inference.update()
    complete = inference.functions.keys() == inference.states.keys()
    return inference if complete and not inference.failures else None


def lambdas_in(around: Collection[str], functions: Iterable[str]) -> set[str]:
    """The lambdas of these functions: their files know them only once the graphs are built."""
    found: set[str] = set()
    for function in functions:
        outer, is_lambda, _ = function.partition("<lambda>")
        if is_lambda and (outer in around or outer.removesuffix(".") in around):
            found.add(function)
    return found


NAMING = frozenset(map(KINDS.index, (Class, Function, Instance, Module, Super)))


def holders(snapshot: Snapshot, ids: Collection[str]) -> set[str]:
    """The functions in which something is a value that means one of these functions, classes or
    modules."""
    if not ids:
        return set()
    values = naming(ids, snapshot.values, snapshot.atoms)
    numbers = {number for number, text in enumerate(snapshot.texts) if text in ids}
    found = {function for function, row, *_ in snapshot.functions if not values.isdisjoint(row)}
    for rows in (snapshot.edges, snapshot.drawn):
        found.update(function for function, _, of in rows if not numbers.isdisjoint(of))
    return {snapshot.texts[function] for function in found}


def naming(ids: Collection[str], values: list[list[int]], atoms: list[list[Any]]) -> set[int]:
    """The values, by number, that mean one of these functions, classes or modules, or hold one that
    does.

    Args:
        values, atoms: see `value_codec.Encoder`.
    """
    found: list[bool] = []  # by number of an alternative

    def means(part: Any) -> bool:
        if type(part) is not list:
            return False
        if part[0] == "value":
            return any(found[atom] for atom in values[part[1]])
        return found[part[1]] if part[0] == "atom" else any(map(means, part[1:]))

    for kind, *parts in atoms:
        found.append((kind in NAMING and unpacked(parts[0]) in ids) or any(map(means, parts)))
    return {number for number, row in enumerate(values) if any(found[atom] for atom in row)}


class TakenUp(Inference):
    """A fixpoint that begins with what an earlier one had come to.

    Args:
        files: as they are now.
        anew: the functions to be evaluated from nothing.
        gone: the functions and classes that are no more.
    """

    def __init__(self, files: Files, anew: Collection[str], gone: Collection[str]) -> None:
        super().__init__(files)
        self._anew = sorted(anew)
        self._definitions_gone = bool(gone)
        self._gone: list[tuple[Slot, SiteId]] = []  # what these functions had written
        self._grafted: Mapping[str, Graft] = {}  # functions of which most nodes stay

    def _know_components(self, components: Iterable[Sites], unsettled: Collection[str]) -> None:
        """Take these for the components, except for one that lies in a changed function as well."""
        components = [*components]
        self.components = [sites for sites in components if all(f in self.states for f, _ in sites)]
        broken = {f for sites in {*components}.difference(self.components) for f, _ in sites}
        self.unsettled = {*unsettled} - broken
        self.searched = set(self.states)
        self.new_edges = set()

    def update(self) -> None:
        """Evaluate what has changed, and what depends on it."""
        # What they had written stays until they have been evaluated once: most of them write the
        # same again, and nobody else has to hear of it. But no value may mean what is gone.
        if self._definitions_gone:
            self._withdraw_gone()
        for function in self._anew:
            self._queue.pop(function, None)
            self.evaluate(function, {WHOLE})
        self._withdraw_gone()
        for function, kept in self._grafted.items():
            for node in kept.behind:
                self.later(function, node)
        for function in (*self._anew, *self._grafted):
            # Who calls what makes a region or an instance looks into it: `Calls.specialised`.
            slot = self.slot(Key("return", function))
            if any(map(is_made_of_arguments, slot.joined or ())):
                self._tell(slot.readers)
        complete(self)

    def _withdraw_gone(self) -> None:
        if not self._gone:
            return
        # A function that was evaluated from nothing is in no component that is known: what it
        # writes again, in whatever place, keeps a key from resting on itself.
        again = {
            (slot, slot.parts[site])
            for function in self._anew
            if function in self.states
            for slot, site in self.written_by(function)
        }
        for slot, site in self._gone:
            is_written_again = site in slot.parts and (slot, slot.parts[site]) in again
            self.withdraw(slot, site, not is_written_again)
        self._gone.clear()


class Resumed(TakenUp):
    """The same, from a snapshot.

    Args:
        snapshot: as for `resumed`.
    """

    def __init__(
        self, files: Files, snapshot: Snapshot, anew: Collection[str], gone: Collection[str]
    ) -> None:
        super().__init__(files, anew, gone)
        self._texts = snapshot.texts
        self._is_gone = [text in anew or text in gone for text in snapshot.texts]
        decoder = Decoder(snapshot.values, snapshot.atoms)
        self.memo.adopt(decoder.atoms, decoder.values)
        texts, values, atoms = self._texts, decoder.values, decoder.atoms
        for function, numbers, around, _ in snapshot.functions:
            if not self._is_gone[function]:
                self._resume(texts[function], [values[n] for n in numbers], around)
        for row in snapshot.slots:
            if texts[row[1]] not in gone:
                self._take_slot(row, values)
        self.edges = {site: {texts[n] for n in of} for site, of in self._sites(snapshot.edges)}
        self.drawn = {site: {texts[n] for n in of} for site, of in self._sites(snapshot.drawn)}
        self.threads = {site: {atoms[n] for n in of} for site, of in self._sites(snapshot.threads)}
        self.off_flags = dict(self._sites(snapshot.off_flags))
        for function, rows in snapshot.regions:
            if texts[function] in gone:
                continue
            slot = self.slot(Key("region", texts[function]))
            known = self.calls_of(texts[function])
            for site, region in self._sites(rows):
                known.put(site, region_of(region))
                self._written.setdefault(site, []).append(slot)
        self._inherited = {texts[f]: region_of(region) for f, region in snapshot.inherited}
        for function, cases in snapshot.dispatches:
            if not self._is_gone[function]:
                self.known_dispatches[texts[function]] = {
                    (number, parameter, name): frozenset(texts[n] for n in methods)
                    for number, parameter, name, methods in cases
                }
        self.own_bases = {
            texts[cls]: tuple(values[n] for n in of)
            for cls, of in snapshot.bases
            if texts[cls] not in gone
        }
        components = (
            tuple(zip((texts[n] for n in pairs[::2]), pairs[1::2], strict=True))
            for pairs in snapshot.components
        )
        self._know_components(components, [texts[number] for number in snapshot.unsettled])

    def _resume(self, function: str, values: list[Value], around: RegionRow | None) -> None:
        facts = self.functions[function]
        graph = self.files[facts.path].graph(function)
        if len(graph.nodes) != len(values):
            raise ValueError(f"{function} has {len(graph.nodes)} nodes")
        state = self.states[function] = State(graph, values, facts.kind == "function")
        state.around = region_of(around)

    def _take_slot(self, row: SlotRow, values: list[Value]) -> None:
        kind, owner, name, joined, demanded, parts, readers, part_readers = row
        texts, is_gone = self._texts, self._is_gone
        slot = self.slot(Key(kind, texts[owner], texts[name]))
        slot.demanded = demanded
        slot.joined = values[joined] if joined >= 0 else None
        for function, node, value in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            site = (texts[function], node)
            if is_gone[function]:
                site = (GONE + texts[function], node)
                self._gone.append((slot, site))
            elif node >= 0:
                self._written.setdefault(site, []).append(slot)
            slot.parts[site] = values[value]
            slot.counts[values[value]] += 1
        slot.readers = self._kept(readers)
        if kind in OF_NODES:
            for site in slot.readers:
                self._read.setdefault(site, []).append(slot)
        if part_readers:
            slot.part_readers = self._kept(part_readers)

    def _kept(self, pairs: Pairs) -> set[SiteId]:
        """The sites among these that stand in functions which have not changed."""
        texts, is_gone = self._texts, self._is_gone
        return {
            (texts[function], node)
            for function, node in zip(pairs[::2], pairs[1::2], strict=True)
            if not is_gone[function]
        }

    def _sites(self, rows: Iterable[tuple[int, int, Any]]) -> Iterable[tuple[SiteId, Any]]:
        """The rows of sites in functions which have not changed."""
        return (
            ((self._texts[function], node), what)
            for function, node, what in rows
            if not self._is_gone[function]
        )
