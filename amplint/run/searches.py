"""Searches for candidates in the cache: each is of a file with the values of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from amplint.facts.recorded_questions import Spans
from amplint.inference import Inference
from amplint.rule.search import CandidateSearch, FileCandidates, KeptSearch, Rows, rows_of
from amplint.run.judgements import Judgements
from amplint.run.linking import Linking, variant_of


class KeptSearches(msgspec.Struct, array_like=True):
    """The searches of the files of a snapshot, by path."""

    snapshot: str
    searches: dict[str, KeptSearch]


class Searched(NamedTuple):
    """A search of a file.

    Args:
        rows: those with candidates.
        candidates: the same, unless the rows are known from before.
        new: the search, if it is to be kept.
    """

    rows: Rows
    candidates: FileCandidates | None
    new: KeptSearch | None = None


def search_in(
    path: str, search: CandidateSearch, searches: Searches | None, spans: Spans
) -> Searched:
    """The candidates in a file, or where they are, if that is known."""
    old = searches.recall(path, search, spans) if searches is not None else None
    if searches is not None and old is not None:
        return Searched(old.rows, None, old if searches.is_of_new else None)
    if searches is None or not searches.is_of_snapshot(path):
        candidates = search.of(path)
        return Searched(rows_of(candidates), candidates)
    candidates, new = search.noted(path, spans)
    return Searched(rows_of(candidates), candidates, new)


@dataclass
class Searches:
    """The searches of some rules in the cache.

    Args:
        judgements: of the same rules.
        linker: has linked the files.
        inference: its values.
    """

    judgements: Judgements
    linker: Linking
    inference: Inference

    def recall(self, path: str, search: CandidateSearch, spans: Spans) -> KeptSearch | None:
        """The search of a file, if it would find the same now."""
        old = self._entries.get(path) if self._is_unchanged(path) else None
        return old if old is not None and search.is_same(path, old, spans) else None

    def is_of_snapshot(self, path: str) -> bool:
        """Whether a search of a file is to be kept: its values are those of the last snapshot."""
        if not (self.linker.snapshot and self.judgements.are_kept):
            return False
        return self.is_of_new or self._is_unchanged(path)

    @property
    def is_of_new(self) -> bool:
        """Whether the last snapshot was taken of these values."""
        return self.linker.since is None or self.linker.since.snapshot != self.linker.snapshot

    def keep(self, new: Mapping[str, KeptSearch]) -> None:
        """Keep searches beside those of the same snapshot."""
        if new:
            entry = KeptSearches(
                self.linker.snapshot, {**({} if self.is_of_new else self._entries), **new}
            )
            self.judgements.store.cache.put_packed({self._key: entry})

    def _is_unchanged(self, path: str) -> bool:
        """Whether the values of a file's functions are those of the snapshot before."""
        since = self.linker.since
        if since is None or path in since.paths:
            return False
        return since.functions.isdisjoint(self.inference.files.own[path].facts.functions)

    @property
    def _key(self) -> str:
        return self.judgements.key_of("search", *variant_of(self.inference.files))

    @cached_property
    def _entries(self) -> Mapping[str, KeptSearch]:
        since = self.linker.since
        entry = self.judgements.store.cache.get_packed(self._key, KeptSearches) if since else None
        return entry.searches if since and entry and entry.snapshot == since.snapshot else {}
