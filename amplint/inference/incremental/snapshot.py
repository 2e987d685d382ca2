"""The outcome of a fixpoint as plain data, which the cache keeps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

import msgspec

from amplint.inference.fixpoint import note_regions
from amplint.inference.incremental.value_codec import (
    Decoder,
    Encoder,
    RegionRow,
    region_of,
    region_row,
)
from amplint.inference.inference import Inference
from amplint.inference.state import Key, KeyKind, SiteId, State
from amplint.inference.store import OF_NODES
from amplint.ir.file_set import Files
from amplint.values.atoms import Value

SlotRow = tuple[KeyKind, int, int, int, bool, list[int], list[int], list[int], list[int]]
CallRow = tuple[int, list[int]]
DispatchRow = tuple[int, str, str, list[int]]
Item = TypeVar("Item", bound=Hashable)


class Snapshot(msgspec.Struct, array_like=True):
    """The outcome of a fixpoint. Numbers stand for places in `texts`, `sites`, `values`, `atoms`.

    Args:
        texts: ids of functions and classes, and names in keys.
        sites: functions and nodes, one after the other. Most sites stand in several tables: timm
            0.9.16 is taken up in 0.88 of the time that it takes with a new pair for each.
        values, atoms: see `value_codec.Encoder`.
        functions: those that were evaluated: id, values of the nodes, and the region around.
        slots: kind, owner and name of a key; its value, or -1; whether it is demanded; the sites of
            its parts, and their values; those who read it, and those who read its parts.
        edges, drawn (its `choices`), threads: by call, see `CallGraph`; threads hold alternatives.
        off_flags: the flag that a call declares.
        regions: by function, in which regions it is called: site and region.
        inherited: the region that a function inherits.
        dispatches: by function, see `Store`.
        bases: by class.
        components: of each, the nodes.
        unsettled: functions.
    """

    texts: list[str]
    sites: list[int]
    values: list[list[int]]
    atoms: list[list[Any]]
    functions: list[tuple[int, list[int], RegionRow | None]]
    slots: list[SlotRow]
    edges: list[CallRow]
    drawn: list[CallRow]
    threads: list[CallRow]
    off_flags: list[tuple[int, str]]
    regions: list[tuple[int, list[tuple[int, RegionRow | None]]]]
    inherited: list[tuple[int, RegionRow | None]]
    dispatches: list[tuple[int, list[DispatchRow]]]
    bases: list[tuple[int, list[int]]]
    components: list[list[int]]
    unsettled: list[int]


class Numbers(dict[Item, int]):
    """Texts, or sites, by the order in which they are met."""

    def __missing__(self, item: Item) -> int:
        number = self[item] = len(self)
        return number

    def all(self, items: Iterable[Item]) -> list[int]:
        return list(map(self.__getitem__, items))


def snapshot_of(inference: Inference) -> Snapshot | None:
    """The snapshot of a fixpoint that is complete, before anybody asks it for more; None where the
    outcome may depend on more than the files."""
    if inference.failures or not inference.is_unique:
        return None
    texts: Numbers[str] = Numbers()
    sites: Numbers[SiteId] = Numbers()
    encoder = Encoder()
    value = encoder.value
    return Snapshot(
        functions=[
            (texts[function], list(map(value, state.values)), region_row(state.around))
            for function, state in inference.states.items()
        ],
        slots=[
            (
                key.kind, texts[key.owner], texts[key.name],
                value(slot.joined) if slot.joined is not None else -1,
                slot.demanded,
                sites.all(slot.parts),
                list(map(value, slot.parts.values())),
                sites.all(slot.readers),
                sites.all(slot.part_readers),
            )
            for key, slot in inference.store.slots.items()
        ],
        edges=[(sites[at], texts.all(of)) for at, of in inference.calls.edges.items()],
        drawn=[(sites[at], texts.all(of)) for at, of in inference.calls.choices.items()],
        threads=[
            (sites[at], list(map(encoder.atom, of))) for at, of in inference.calls.threads.items()
        ],
        off_flags=[(sites[at], flag) for at, flag in inference.calls.off_flags.items()],
        regions=[
            (
                texts[function],
                [(sites[at], region_row(region)) for at, region in of.sites.items()],
            )
            for function, of in inference.regions.of_functions.items()
        ],
        inherited=[(texts[f], region_row(of)) for f, of in inference.regions.inherited.items()],
        dispatches=[
            (
                texts[function],
                [(*case, texts.all(methods)) for case, methods in of.items()],
            )
            for function, of in inference.store.known_dispatches.items()
        ],
        bases=[
            (texts[cls], list(map(value, of))) for cls, of in inference.hierarchy.own_bases.items()
        ],
        components=list(map(sites.all, inference.components)),
        unsettled=texts.all(sorted(inference.unsettled)),
        sites=[number for function, node in sites for number in (texts[function], node)],
        texts=list(texts),
        values=encoder.values,
        atoms=encoder.atoms,
    )  # fmt: skip


def restored(files: Files, snapshot: Snapshot) -> Inference:
    """The inference of which a snapshot was taken.

    Args:
        files: as they were then.
        snapshot: of these.

    Raises IndexError, KeyError, TypeError or ValueError for what nobody has kept.
    """
    inference = Inference(files)
    Restoring(snapshot, inference).run()
    return inference


class Restoring:
    """The outcome in a snapshot on its way into an inference.

    Args:
        snapshot: of the files of the inference.
        inference: nothing is evaluated yet.
    """

    def __init__(self, snapshot: Snapshot, inference: Inference) -> None:
        self._snapshot = snapshot
        self._inference = inference
        functions, nodes = snapshot.sites[::2], snapshot.sites[1::2]
        named = map(snapshot.texts.__getitem__, functions)
        self._sites: list[SiteId] = [*zip(named, nodes, strict=True)]

    def run(self) -> None:
        snapshot, inference = self._snapshot, self._inference
        texts, sites = snapshot.texts, self._sites
        decoder = Decoder(snapshot.values, snapshot.atoms)
        inference.memo.adopt(decoder.atoms, decoder.values)
        values, atoms = decoder.values, decoder.atoms
        for function, numbers, around in snapshot.functions:
            self._take_state(texts[function], [values[n] for n in numbers], around)
        for row in snapshot.slots:
            self._take_slot(row, values)
        calls = inference.calls
        calls.edges.update((sites[at], {texts[n] for n in of}) for at, of in snapshot.edges)
        calls.choices.update((sites[at], {texts[n] for n in of}) for at, of in snapshot.drawn)
        calls.threads.update((sites[at], {atoms[n] for n in of}) for at, of in snapshot.threads)
        calls.off_flags.update((sites[at], flag) for at, flag in snapshot.off_flags)
        for function, rows in snapshot.regions:
            self._take_regions(texts[function], rows)
        inference.regions.solved = {texts[f]: region_of(each) for f, each in snapshot.inherited}
        inference.regions.are_stale = False
        for function, cases in snapshot.dispatches:
            inference.store.known_dispatches[texts[function]] = {
                (number, parameter, name): frozenset(texts[n] for n in methods)
                for number, parameter, name, methods in cases
            }
        inference.hierarchy.own_bases.update(
            (texts[cls], tuple(values[n] for n in of)) for cls, of in snapshot.bases
        )
        inference.components = [tuple(sites[n] for n in each) for each in snapshot.components]
        inference.unsettled = {texts[number] for number in snapshot.unsettled}
        inference.is_unique = True
        note_regions(inference)

    def _take_state(self, function: str, values: list[Value], around: RegionRow | None) -> None:
        inference = self._inference
        facts = inference.functions[function]
        graph = inference.files[facts.path].graph(function)
        if len(graph.nodes) != len(values):
            raise ValueError(f"{function} has {len(graph.nodes)} nodes")
        state = inference.states[function] = State(graph, values, facts.kind == "function")
        state.around = region_of(around)

    def _take_slot(self, row: SlotRow, values: list[Value]) -> None:
        kind, owner, name, joined, demanded, writers, written, readers, part_readers = row
        texts, sites, store = self._snapshot.texts, self._sites, self._inference.store
        slot = store.slot(Key(kind, texts[owner], texts[name]))
        slot.demanded = demanded
        slot.joined = values[joined] if joined >= 0 else None
        for number, value in zip(writers, written, strict=True):
            site = sites[number]
            if site[1] >= 0:
                store.written_at.setdefault(site, []).append(slot)
            slot.parts[site] = values[value]
            slot.counts[values[value]] += 1
        slot.readers = {sites[number] for number in readers}
        if kind in OF_NODES:
            for site in slot.readers:
                store.read_by.setdefault(site, []).append(slot)
        if part_readers:
            slot.part_readers = {sites[number] for number in part_readers}

    def _take_regions(self, function: str, rows: Iterable[tuple[int, RegionRow | None]]) -> None:
        store = self._inference.store
        slot, regions = store.slot(Key("region", function)), store.regions.of(function)
        for number, region in rows:
            regions.put(self._sites[number], region_of(region))
            store.written_at.setdefault(self._sites[number], []).append(slot)
