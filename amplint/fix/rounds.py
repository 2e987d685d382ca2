"""The rounds in which a project is fixed, and the fixes that are withheld."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

from amplint.findings.finding import Finding, Safety
from amplint.fix.applying import fixable
from amplint.fix.new_mistakes import SERIOUS, Edited, new_mistakes
from amplint.fix.single_round import RoundOfFixes, fix_round, place_of
from amplint.project.config import Configuration, Settings
from amplint.run import cache as caching
from amplint.run import engine
from amplint.run.cache import Cache
from amplint.run.fingerprint import Identity, identities
from amplint.run.linking import LiveLinker
from amplint.run.request import Outcome, Request

MAX_ROUNDS = 10


@dataclass(frozen=True)
class FixableFinding:
    """A finding that may be fixed, with its identity and its place in the text of its round."""

    finding: Finding
    identity: Identity
    place: str


@dataclass(frozen=True)
class Settled:
    """A project after as many rounds as had something to fix.

    Args:
        outcome: what is found then.
        texts: the new texts, by path.
        applied: by path, what was fixed.
        problems: what could not be done.
    """

    outcome: Outcome
    texts: Mapping[str, str]
    applied: Mapping[str, Sequence[FixableFinding]]
    problems: Sequence[str]

    @property
    def fixed(self) -> list[FixableFinding]:
        return [each for those in self.applied.values() for each in those]


@dataclass(frozen=True)
class KeptFixes:
    """The end of all rounds, as it is kept; what is found there is an entry of its own.

    Args:
        texts, applied, problems: as in `Settled`.
        withheld: sentences about the fixes that would bring a mistake.
    """

    texts: dict[str, str]
    applied: dict[str, list[FixableFinding]]
    problems: list[str]
    withheld: tuple[str, ...]


class Rounds:
    """The rounds in which a project is fixed.

    Args:
        request: to check the project as it is.
        allow: which fixes may be applied.

    Attributes:
        first: what is found in the project as it is.
        withheld: by the identity of the finding: the fixes that are not applied, and why.
    """

    def __init__(self, request: Request, allow: frozenset[Safety]) -> None:
        self.first = engine.run(request)
        self.withheld: dict[Identity, str] = {}
        self._allow = allow
        # What is found in the new texts is asked for again: by the next `fix`, and by a `check`
        # once they are on the disk.
        self._request = replace(request, linker=LiveLinker(), lasting=not request.overlays)

    def recall(self) -> tuple[Settled, tuple[str, ...]] | None:
        """The end of the same rounds before, and what was withheld, where the cache knows."""
        cache = self._cache
        cached = cache.get(self._key, KeptFixes) if cache is not None else None
        if cached is None:
            return None
        outcome = engine.run(self._overlaid(cached.texts)) if cached.texts else self.first
        return Settled(outcome, cached.texts, cached.applied, cached.problems), cached.withheld

    def keep(self, settled: Settled, withheld: tuple[str, ...]) -> None:
        """Keep what all rounds have come to."""
        if self._cache is not None and not settled.outcome.problems:
            texts, applied = dict(settled.texts), {**settled.applied}
            entry = KeptFixes(
                texts, {p: [*of] for p, of in applied.items()}, [*settled.problems], withheld
            )
            self._cache.put(self._key, entry)

    @property
    def _cache(self) -> Cache | None:
        return self._request.cache if self.first.key else None

    @cached_property
    def _key(self) -> str:
        """The digest of all that decides what is written."""
        return caching.key_of("fix", self.first.key, sorted(each.value for each in self._allow))

    def run(self, without: Collection[Identity] = ()) -> Settled:
        """Fix what may be fixed, until nothing is left.

        Args:
            without: findings whose fixes are not wanted, besides those that are withheld.
        """
        outcome = self.first
        texts: dict[str, str] = {}
        applied: dict[str, list[FixableFinding]] = defaultdict(list)
        for number in range(MAX_ROUNDS + 1):
            changes, named = self._round(outcome, texts, without)
            problems = list(changes.problems)
            if number == MAX_ROUNDS:
                break
            if not changes.fixed:
                return Settled(outcome, texts, applied, problems)
            for path, fixed in changes.fixed.items():
                texts[path] = fixed.text
                applied[path] += [named[id(each)] for each in fixed.applied]
            outcome = engine.run(self._overlaid(texts))
        for path in changes.fixed:
            problems.append(f"{path}: not fixed: after {MAX_ROUNDS} rounds there was more to fix")
            del texts[path], applied[path]
        if changes.fixed:
            outcome = engine.run(self._overlaid(texts))
        return Settled(outcome, texts, applied, problems)

    def alone(self, named: FixableFinding) -> Settled:
        """The project as it is after one fix; what that makes room for is not fixed.

        Args:
            named: one of what may be fixed in the project as it is.
        """
        part = replace(self.first, findings=(named.finding,))
        changes = fix_round(part, self._overlaid({}), self._allow)
        if not changes.fixed:
            return Settled(self.first, {}, {}, changes.problems)
        texts = {path: fixed.text for path, fixed in changes.fixed.items()}
        outcome = engine.run(self._overlaid(texts))
        return Settled(outcome, texts, {named.finding.path: [named]}, changes.problems)

    def _round(
        self, outcome: Outcome, texts: Mapping[str, str], without: Collection[Identity]
    ) -> tuple[RoundOfFixes, Mapping[int, FixableFinding]]:
        """One round, and what may be fixed in it, by the `id` of the finding."""
        named = [
            each
            for each in self.named(outcome)
            if each.identity not in self.withheld and each.identity not in without
        ]
        part = replace(outcome, findings=tuple(each.finding for each in named))
        changes = fix_round(part, self._overlaid(texts), self._allow)
        return changes, {id(each.finding): each for each in named}

    def named(self, outcome: Outcome) -> list[FixableFinding]:
        """The findings that have a fix which may be applied."""
        findings = [f for f in fixable(outcome.findings, self._allow) if f.path in outcome.texts]
        return [
            FixableFinding(finding, identity, place_of(finding, outcome.texts[finding.path]))
            for finding, identity in zip(findings, identities(findings, outcome.texts), strict=True)
        ]

    def _overlaid(self, texts: Mapping[str, str]) -> Request:
        files = {path: self.first.texts[path].written(text) for path, text in texts.items()}
        return replace(self._request, overlays={**self._request.overlays, **files})

    # -- the mistakes that fixes bring

    def brought(self, settled: Settled) -> list[str]:
        """The mistakes that are there now, and were not before, each with its place."""
        if not settled.texts:
            return []
        new = new_mistakes(
            self._watched(self.first, {}).findings,
            self._watched(settled.outcome, settled.texts).findings,
            [each.finding for each in settled.fixed],
            Edited(self.first.texts, settled.texts),
            self._request.rules,
        )
        return [
            f"{each.code} {each.name} ({place_of(each, settled.outcome.texts[each.path])}: "
            f"{each.message})"
            for each in new
        ]

    def _watched(self, outcome: Outcome, texts: Mapping[str, str]) -> Outcome:
        """The outcome together with the mistakes that the user has not asked for."""
        if all(watching(each) == each for each in self._request.settings_in_use()):
            return outcome
        every = SeriousConfiguration(self._request.settings)
        return engine.run(replace(self._overlaid(texts), settings=every))

    def withhold(self, settled: Settled, mistakes: Sequence[str]) -> None:
        """Withhold the fixes that have brought mistakes: at least one.

        They are looked for among those of what is found in the project as it is. What these make
        room for is fixed whenever they are, and so goes with them.
        """
        first_ids = {each.identity for each in self.named(self.first)}
        fixed = {each.identity: each for each in settled.fixed}
        suspects = [each for name, each in fixed.items() if name in first_ids] or [*fixed.values()]
        before = len(self.withheld)
        self._harmless([], suspects, mistakes, {each.identity for each in suspects})
        if len(self.withheld) == before:  # the mistakes come of what is tried in no half
            self._withhold(suspects, mistakes)

    def _harmless(
        self,
        good: Sequence[FixableFinding],
        suspects: Sequence[FixableFinding],
        mistakes: Sequence[str],
        every: AbstractSet[Identity],
    ) -> Sequence[FixableFinding]:
        """The fixes that bring no mistake, all of them together; the others are withheld.

        Args:
            good: those of which it is known.
            suspects: those that bring these mistakes together with the good ones.
            every: all that are looked at.
        """
        if len(suspects) == 1:
            self._withhold(suspects, mistakes)
            return good
        middle = len(suspects) // 2
        for half in suspects[:middle], suspects[middle:]:
            of_half = self.brought(self.run(every - {each.identity for each in (*good, *half)}))
            good = self._harmless(good, half, of_half, every) if of_half else [*good, *half]
        return good

    def _withhold(self, those: Iterable[FixableFinding], mistakes: Sequence[str]) -> None:
        for each in those:
            sentence = (
                f"{each.place}: {each.finding.code} not fixed: that would introduce {mistakes[0]}"
            )
            self.withheld[each.identity] = sentence


def watching(settings: Settings) -> Settings:
    """The settings with which all mistakes show that fixes might bring."""
    groups = tuple(group.value for group in SERIOUS)
    missing = {*groups}.difference(settings.select, settings.extend_select)
    if not missing or "ALL" in (*settings.select, *settings.extend_select):
        return settings
    return replace(settings, extend_select=(*settings.extend_select, *groups))


@dataclass(frozen=True)
class SeriousConfiguration:
    """A configuration that has all mistakes shown that fixes might bring."""

    configuration: Configuration

    def at(self, directory: str) -> Settings:
        """The settings of the files in a directory."""
        return watching(self.configuration.at(directory))
