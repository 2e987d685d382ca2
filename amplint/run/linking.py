"""The values of a project: taken up from the cache where only some files have changed, or anew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from amplint.facts.fact import Facts
from amplint.facts.program import linked
from amplint.inference import Inference
from amplint.inference.incremental.continuation import FixpointEdit, can_go_on, continued
from amplint.inference.incremental.interface import different
from amplint.inference.incremental.snapshot import Snapshot, restored, snapshot_of
from amplint.inference.whole_program.float_inputs import FloatInputs
from amplint.inference.whole_program.presumption import Presumption
from amplint.inference.whole_program.text_questions import trains_on_host
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.project import observations
from amplint.project.modes import Assumption
from amplint.run.cache import key_of
from amplint.run.indexing import IndexStore, environment_digest
from amplint.util.progress import Progress

# With this number of changed files, what is known now is kept. Until then, what was known before
# stays: to evaluate a few functions again takes less time than to write all of it.
MANY_CHANGED = 8
# To evaluate this share of all functions takes about as long as to write what is known of all: in
# timm, 0.12 of them take 4 s of CPU, and all are written in 1.4 s.
MANY_EVALUATED = 0.05
DAMAGED = (LookupError, TypeError, ValueError)  # what a snapshot of other files raises


class KeptValues(msgspec.Struct, array_like=True):
    """The snapshot of the files with these digests, and their texts."""

    environment: list[str]
    digests: dict[str, str]
    texts: dict[str, str]
    snapshot: Snapshot

    @property
    def digest(self) -> str:
        """The digest of all that decides about the values."""
        return key_of("values", self.environment, self.digests)


@dataclass(frozen=True)
class Since:
    """An edit since a snapshot was kept.

    Args:
        snapshot: its digest.
        paths: of the files that changed.
        functions: those of which something else is known.
    """

    snapshot: str
    paths: frozenset[str]
    functions: frozenset[str]

    def after(self, before: Since | None) -> Since:
        """The edit together with one before it, since the same snapshot."""
        if before is None or before.snapshot != self.snapshot:
            return self
        return Since(self.snapshot, self.paths | before.paths, self.functions | before.functions)


class Linking(Protocol):
    """A way to link the files of a project that is linked as a whole.

    Args:
        changed: where values were taken up, the files that were not as they had been; None where
            all was linked anew.
        since: the edit since the last snapshot, where there is one.
        snapshot: the digest of the last one, which may be of these values; empty without one.
    """

    changed: Collection[str] | None
    since: Since | None
    snapshot: str

    def link(self, files: Files, progress: Progress) -> Inference:
        """The values of all functions."""
        ...

    def facts(self, inference: Inference) -> Facts:
        """The facts that rest on the values that were given last."""
        ...


@dataclass
class Linker:
    """Links the files of a project that is linked as a whole.

    Args:
        store: the cache, and the digests of the files.
        project: the directory of the project, as seen from where the cache is.
        changed: where what the cache keeps was taken up, the files that were not as it knows them;
            None where all was linked anew.
    """

    store: IndexStore
    project: str = "."
    changed: Collection[str] | None = None
    since: Since | None = None
    snapshot: str = ""

    def link(self, files: Files, progress: Progress) -> Inference:
        """The values of all functions."""
        digests = {path: self.store.digest_of(path) for path in files.own}
        entry = self.store.cache.get_packed(self._key(files), KeptValues)
        if entry is not None and entry.environment == environment_of(files):
            changed = sorted(different(entry.digests, digests))
            resumption = resumed(files, entry, changed)
            if resumption is not None:
                inference, edit = resumption
                self.changed, self.snapshot = changed, entry.digest
                self.since = Since(entry.digest, frozenset(changed), edit.functions)
                many = MANY_EVALUATED * len(inference.states)
                if len(changed) >= MANY_CHANGED or edit.evaluations > many:
                    self._keep(inference, digests)
                return inference
        inference = linked(files, progress)
        self._keep(inference, digests)
        return inference

    def facts(self, inference: Inference) -> Facts:
        """The facts that rest on values: none is built yet."""
        return Facts(inference)

    def _keep(self, inference: Inference, digests: dict[str, str]) -> None:
        snapshot = snapshot_of(inference) if not self.store.is_read_only else None
        if snapshot is None:
            return
        files = inference.files
        texts = {path: file.text for path, file in files.own.items()}
        entry = KeptValues(environment_of(files), digests, texts, snapshot)
        self.store.cache.put_packed({self._key(files): entry})
        self.snapshot = entry.digest

    def _key(self, files: Files) -> str:
        return key_of_project(self.project, variant_of(files))


def resumed(
    files: Files, entry: KeptValues, changed: Collection[str]
) -> tuple[Inference, FixpointEdit] | None:
    """The values of files, from those that are kept, and what differs from these; None where they
    have to be computed."""
    old = {
        path: File(path, text) if path in changed else files.own[path]
        for path, text in entry.texts.items()
    }
    try:
        before = restored(files.with_own(old), entry.snapshot)
        if not changed:
            return before, FixpointEdit()
        return continued(files, before, changed)
    except DAMAGED:  # it says what no snapshot of these files does
        return None


def environment_of(files: Files) -> list[str]:
    """All that decides about values besides the digests of the files: amplint itself, the project's
    models of frameworks, what files ask of these, whether it presumes that they run under
    autocast, and on which inputs, and whether they train on the CPU."""
    presumption = Presumption(files, files.presumes)
    keys = [*files.own_models, *files.asked_by_files, *presumption.key, str(trains_on_host(files))]
    keys.append(key_of_inputs(files))
    return [environment_digest(), *keys, observations.digest_of(files.observed)]


def key_of_inputs(files: Files) -> str:
    """The digest of the inputs that the settings assume a dtype of; "" where they assume none."""
    if not isinstance(files.presumes, Assumption):
        return ""
    return key_of("inputs", list(FloatInputs(files).table()))


def variant_of(files: Files) -> tuple[str, ...]:
    """The analyses of a project that are kept beside each other: with observations and without,
    and with inputs of either dtype."""
    assumption = files.presumes if isinstance(files.presumes, Assumption) else None
    is_second = assumption and assumption.mode.is_region != assumption.has_half_inputs
    return (*["observed"][: bool(files.observed)], *["second"][: bool(is_second)])


def key_of_project(directory: str, variant: Sequence[str] = ()) -> str:
    """The one entry of a project for an analysis: that of another amplint, or of other files, is
    replaced."""
    return key_of("link", directory, *variant)


@dataclass
class LiveLinker:
    """Links the files of a project again and again: the values stay in memory.

    Args:
        on_values: is called when values are known; it may raise what ends the run. (Before, values
            are neither those of the old files nor those of the new ones.)
        changed: see `Linking`.
    """

    on_values: Callable[[], None] = lambda: None
    changed: Collection[str] | None = None
    since: Since | None = None
    snapshot: str = ""
    _disk: Linker | None = None
    _facts: Facts | None = None
    _others: dict[str, LiveLinker] = field(default_factory=dict)

    def beside(self, analysis: str) -> LiveLinker:
        """Another one, for an analysis of the same files that assumes something else.

        Args:
            analysis: which one, e.g. "observed".
        """
        return self._others.setdefault(analysis, LiveLinker(self.on_values))

    @property
    def inference(self) -> Inference | None:
        """The values that were given last; None where nothing was linked as a whole."""
        return self._facts.inference if self._facts is not None else None

    @property
    def files(self) -> Mapping[str, File]:
        """The files that are in memory, indexed, by path."""
        return self.inference.files.own if self.inference is not None else {}

    def over(self, disk: Linker | None) -> LiveLinker:
        """This linker, which takes the values from the cache of `disk` where it knows none."""
        self._disk = disk
        return self

    def link(self, files: Files, progress: Progress) -> Inference:
        """The values of all functions. Those that were given before must not be used any more."""
        self.changed = None
        # It is taken out first: an edit that amplint fails on leaves nothing that could be used.
        before, self._facts = self._facts, None
        facts = self._continued(files, before) if before is not None else None
        self._facts = facts if facts is not None else Facts(self._anew(files, progress))
        self.on_values()
        return self._facts.inference

    def facts(self, inference: Inference) -> Facts:
        """The facts that rest on the values that were given last, with what of those before is
        still so."""
        assert self._facts is not None and self._facts.inference is inference
        return self._facts

    def _anew(self, files: Files, progress: Progress) -> Inference:
        self.since, self.snapshot = None, ""
        if self._disk is None:
            return linked(files, progress)
        disk = self._disk
        inference = disk.link(files, progress)
        self.changed, self.since, self.snapshot = disk.changed, disk.since, disk.snapshot
        return inference

    def _continued(self, files: Files, before: Facts) -> Facts | None:
        inference = before.inference
        if not can_go_on(inference):
            return None
        old, new = inference.files.own, files.own
        if Presumption(files, files.presumes).key != inference.unseen.presumption.key:
            return None
        if trains_on_host(files) != inference.texts.trains_on_host:
            return None
        if key_of_inputs(files) != key_of_inputs(inference.files):
            return None
        if files.own_models != inference.files.own_models:
            return None
        if files.asked_by_files != inference.files.asked_by_files:
            return None
        if files.observed != inference.files.observed:
            return None
        # A file that was indexed before is the same object.
        changed = [path for path in {**old, **new} if old.get(path) is not new.get(path)]
        continuation = continued(files, inference, sorted(changed))
        if continuation is None:
            return None
        now, edit = continuation
        self.changed = changed
        if self.snapshot:
            self.since = Since(self.snapshot, frozenset(changed), edit.functions).after(self.since)
        now.store.forget_unused()
        return before.after(now, edit)
