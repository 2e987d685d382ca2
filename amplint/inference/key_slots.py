"""The slot of a key: what each site contributes to it, and who reads it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from amplint.inference.state import Key, SiteId
from amplint.values.atoms import Value


class KeySlot:
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


def difference(before: Sequence[KeySlot], now: Sequence[KeySlot]) -> list[KeySlot]:
    """The slots of an evaluation that are not among those of the next one, in their order.

    A call that may mean hundreds of methods writes to thousands of keys: hence a set.
    """
    if not before or before == now:
        return []
    slots = set(now)
    return [slot for slot in before if slot not in slots]


# A key and a site, and whether the site reads it (or writes to it).
Edge = tuple[KeySlot, SiteId, bool]
