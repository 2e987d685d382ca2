"""The index of the files of a part: from the cache, in processes, or here."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from amplint.ir.ast_cache import TreeCache
from amplint.ir.codec import Record
from amplint.ir.file_index import File
from amplint.run.cache import Cache, digest, environment, key_of
from amplint.util.process_pool import spread
from amplint.util.progress import Progress
from amplint.util.text import Text

# A project of fewer characters (some 1,000 lines) leaves little to spare.
LEAST_KEPT = 30_000


class Pack(msgspec.Struct, array_like=True):
    """The records of the files of one directory, by path, each with the digest of the file."""

    environment: str
    records: dict[str, tuple[str, bytes]]


@dataclass
class IndexStore:
    """The records of indexed files in the cache.

    Args:
        cache: where they are, one entry for each directory of the project.
        digest_of: of the bytes of a file, by its path.
        overlays: the paths of files with texts that are on no disk, and not seen again; where there
            are some, nothing is kept.
        is_left: whether the cache stays as it is.
    """

    cache: Cache
    digest_of: Callable[[str], str]
    overlays: Collection[str] = ()
    is_left: bool = False
    _packs: dict[str, dict[str, tuple[str, bytes]]] = field(default_factory=dict)

    def recall(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The records of those files that have not changed since they were kept."""
        records: dict[str, bytes] = {}
        for path in paths:
            if path in self.overlays:
                continue  # a pack, which may be large, is not read for it
            old_digest, record = self._pack(directory_of(path)).get(path, ("", b""))
            if old_digest == self.digest_of(path):
                records[path] = record
        return records

    @property
    def is_read_only(self) -> bool:
        return self.is_left or bool(self.overlays)

    def keep(self, records: Mapping[str, bytes], existing: Collection[str]) -> None:
        """Keep records beside those of the same directories.

        Args:
            records: what is new, by path.
            existing: the paths of the project: the records of others go.
        """
        if self.is_read_only:
            return
        changed: dict[str, dict[str, tuple[str, bytes]]] = defaultdict(dict)
        for path, record in records.items():
            changed[directory_of(path)][path] = (self.digest_of(path), record)
        entries: dict[str, object] = {}
        for directory, new in changed.items():
            old = self._pack(directory)
            all_records = {path: pair for path, pair in old.items() if path in existing} | new
            entries[pack_key(directory)] = Pack(environment_digest(), all_records)
        self._packs.clear()  # they have served
        self.cache.put_packed(entries)

    def _pack(self, directory: str) -> dict[str, tuple[str, bytes]]:
        if directory not in self._packs:
            pack = self.cache.get_packed(pack_key(directory), Pack)
            if pack is None or pack.environment != environment_digest():
                self._packs[directory] = {}
            else:
                self._packs[directory] = pack.records
        return self._packs[directory]


def directory_of(path: str) -> str:
    return path.rpartition("/")[0]


def pack_key(directory: str) -> str:
    """The entry of a directory: the same for every amplint, so that the last one replaces it."""
    return key_of("index", directory)


def environment_digest() -> str:
    return digest(" ".join(environment()).encode())


@dataclass(frozen=True)
class Indexer:
    """Indexes files, each once.

    Args:
        texts: of all files of the project, by path.
        indexed: files by path and text; what is indexed is added.
        tree_cache: where trees are kept for a while; without one, all are kept.
        store: the records of files that have not changed; without one, none is kept.
        progress: informed how far this is.
    """

    texts: Mapping[str, Text]
    indexed: dict[tuple[str, str], File]
    tree_cache: TreeCache | None
    store: IndexStore | None
    progress: Progress

    def file(self, path: str) -> File:
        """An indexed file. Raises as `File` does."""
        key = (path, self.texts[path].text)
        if key not in self.indexed:
            self.indexed[key] = File(*key, self.tree_cache)
            if self.tree_cache is not None:
                self.indexed[key].build_graphs()  # nearly all are asked for, when its tree is gone
        return self.indexed[key]

    def another(self, path: str, text: str) -> File:
        """A file of another part, whose graphs are built as they are asked for, if the store does
        not have them. Raises as `File` does."""
        records = self.store.recall([path]) if self.store is not None else {}
        if path not in records:
            return File(path, text, self.tree_cache)
        return File(path, text, self.tree_cache, Record(path, records[path]))

    def prepare(self, part: Sequence[str], processes: int) -> None:
        """Index what can be had from the store, and the rest in processes.

        A file that cannot be indexed is left out.

        Args:
            part: the paths.
            processes: how many may work on it.
        """
        missing = [path for path in part if (path, self.texts[path].text) not in self.indexed]
        records = self.store.recall(missing) if self.store is not None else {}
        anew = [path for path in missing if path not in records]
        here = os.getpid()
        keeps = self.store is not None and not self.store.is_read_only

        def parse(path: str) -> bytes | None:
            # A file that is indexed in this process is used as it is, with its tree.
            try:
                file = self.file(path)
                return file.encoded() if keeps or os.getpid() != here else None
            except Exception:  # the reader of the file will see it
                return None

        bodies = spread(
            self.progress.counted("indexing files", parse, anew),
            anew,
            [len(self.texts[path].text) for path in anew],
            processes,
        )
        new = {path: body for path, body in zip(anew, bodies, strict=True) if body is not None}
        if self.store is not None and new:
            self.store.keep(new, self.texts)
        for path, record in (records | new).items():
            key = (path, self.texts[path].text)
            if key not in self.indexed:
                self.indexed[key] = File(*key, self.tree_cache, Record(path, record))
