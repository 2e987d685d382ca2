"""The autocast regions in which functions are called, and those that they inherit by that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from amplint.inference.key_slots import KeySlot
from amplint.inference.queue import Queue
from amplint.inference.state import Key, SiteId, State
from amplint.values.atoms import Region
from amplint.values.lattice import agreed


class RegionsOfCallee:
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


class CallsInRegions:
    """The regions of all calls, by the function that is called.

    Args:
        states: of the functions that were evaluated.
        slots: by key; those of regions have readers, and no parts.
        queue: takes those who read that a function inherits another region.
        region_in: returns the region that a function inherits, from that of its calls and from
            whether a call that is seen ends what is presumed of it.
        before: those that are not used any more, which are taken over.

    Attributes:
        of_functions: the regions in which functions are called.
        solved: those that functions inherit; None before they are solved for the first time.
        are_stale: whether a call may stand in another region since these were solved.
    """

    def __init__(
        self,
        states: Mapping[str, State],
        slots: Mapping[Key, KeySlot],
        queue: Queue,
        region_in: Callable[[str, Region | None, bool], Region | None],
        before: CallsInRegions | None = None,
    ) -> None:
        self._states = states
        self._slots = slots
        self._queue = queue
        self._region_in = region_in
        self.solved: Mapping[str, Region | None] | None = before.solved if before else None
        self.of_functions: dict[str, RegionsOfCallee] = before.of_functions if before else {}
        self.are_stale: bool = before.are_stale if before else True

    def in_regions(self, function: str, presumed: bool = False) -> Sequence[SiteId]:
        """The calls of a function that stand in a region, be it one that is seen or presumed."""
        calls = self.of_functions.get(function)
        sites = calls.sites.items() if calls is not None else ()
        by_site = {site: region for site, region in sites if region is not None}
        return sorted(site for site in by_site if by_site[site].presumed is presumed)

    def region_of_site(self, function: str, site: SiteId) -> Region | None:
        """The region in which a call runs a function."""
        calls = self.of_functions.get(function)
        return calls.sites.get(site) if calls is not None else None

    def of(self, function: str) -> RegionsOfCallee:
        """The regions in which a function is called."""
        return self.of_functions.setdefault(function, RegionsOfCallee())

    @property
    def inherited(self) -> Mapping[str, Region | None]:
        """The regions that functions inherit, of those that are in one, once they are solved."""
        return self.solved or {}

    def settle(self, regions: Mapping[str, Region | None]) -> None:
        """Take regions for those that functions inherit, whatever their calls say now."""
        # Of those that neither names, nothing has changed.
        before = self.solved
        suspects = self._states if before is None else {**before, **regions}
        for function in suspects:
            if function in self._states and self.inherited_by(function) != regions.get(function):
                self._queue.later(function)
                slot = self._slots.get(Key("region", function))
                self._queue.tell(slot.readers if slot is not None else ())
        self.solved = regions

    def inherited_by(self, function: str) -> Region | None:
        """The region that a function inherits, as its calls are known now."""
        if self.solved is not None:
            return self.solved.get(function)
        calls = self.of_functions.get(function)
        is_called = calls is not None and bool(calls.sites)
        joined = calls.joined() if calls is not None else None
        return self._region_in(function, joined, is_called)

    def put(self, slot: KeySlot, site: SiteId, region: Region | None) -> None:
        """Note that a call of the function whose slot it is stands in a region, or in none."""
        function = slot.key.owner
        before = self.inherited_by(function)
        if self.of(function).put(site, region):
            self._note_change(slot, before)

    def remove(self, slot: KeySlot, site: SiteId) -> None:
        """Forget a call that no longer runs the function."""
        before = self.inherited_by(slot.key.owner)
        self.of(slot.key.owner).remove(site)
        self._note_change(slot, before)

    def _note_change(self, slot: KeySlot, before: Region | None) -> None:
        self.are_stale = True
        if self.inherited_by(slot.key.owner) != before:
            self._queue.tell(slot.readers)
