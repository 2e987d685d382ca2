"""Choose fixes that do not clash, apply them, look again until nothing changes, write."""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from posixpath import basename

from amplint.claim.finding import Edit, Finding, Fix, Safety, edited
from amplint.cst.import_style import in_style
from amplint.cst.imports import (
    exported,
    lists_its_names,
    orphans,
    read_too_early,
    starred,
    stem,
    uses,
    without,
)
from amplint.cst.quotes import in_quotes
from amplint.cst.unbound import newly_unbound
from amplint.fix.new_mistakes import SERIOUS, Edited, new_mistakes
from amplint.fix.wrapping import wrapped
from amplint.fix.writing import write_texts
from amplint.project.config import Configuration, Settings
from amplint.project.line_length import chosen_length
from amplint.run import cache as caching
from amplint.run import engine
from amplint.run.cache import Cache
from amplint.run.fingerprint import Identity, identities
from amplint.run.linking import LiveLinker
from amplint.run.request import Outcome, Request
from amplint.util.paths import seen_from
from amplint.util.text import Text, UnencodableError

MAX_ROUNDS = 10
INIT = "__init__.py"
SAFE = frozenset({Safety.SAFE})
UNSAFE = frozenset({Safety.SAFE, Safety.UNSAFE})


@dataclass(frozen=True)
class Fixed:
    """A text after some fixes.

    Args:
        text: the new text.
        applied: the findings whose fixes are in it.
        skipped: those whose fixes clash with one of these, and have to wait for the next round.
        edits: what was replaced.
    """

    text: str
    applied: tuple[Finding, ...]
    skipped: tuple[Finding, ...]
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class FixOutcome:
    """A project after all fixes; nothing has been written.

    Args:
        first: what there was to report before.
        outcome: what is left to report, and what could not be done.
        before: the texts of the changed files as they were read, by root-relative path.
        after: their new texts.
        applied: the findings that were fixed, placed in the text of their round.
        found: how many findings there were before.
        left: how many there are after.
        withheld: sentences about the fixes that would bring a mistake.
    """

    first: Outcome
    outcome: Outcome
    before: Mapping[str, Text]
    after: Mapping[str, str]
    applied: tuple[Finding, ...]
    found: int
    left: int
    withheld: tuple[str, ...] = ()

    @property
    def fixed(self) -> int:
        """How many findings are gone because of the fixes: one fix may end several."""
        return max(len(self.applied), self.found - self.left) if self.applied else 0

    @property
    def new(self) -> int:
        """How many of those that are left were not there before, so that the numbers add up."""
        return self.left - (self.found - self.fixed)


def apply_fixes(text: str, findings: Iterable[Finding], allow: frozenset[Safety]) -> Fixed:
    """Apply the allowed fixes, by position; of two that touch each other, the first.

    All edits of a fix are applied or none. Insertions of the same text at the same place count
    once: two fixes may need the same import.
    """
    edits_of = [(finding, edits) for finding in findings if (edits := _edits(finding, allow))]
    taken: list[Edit] = []
    applied: list[Finding] = []
    skipped: list[Finding] = []
    for finding, edits in sorted(edits_of, key=lambda pair: [edit.start for edit in pair[1]]):
        new = [edit for edit in edits if not (_is_insertion(edit) and edit in taken)]
        if _overlap_within(edits) or any(_touch(edit, other) for edit in new for other in taken):
            skipped.append(finding)
        else:
            taken += new
            applied.append(finding)
    return Fixed(edited(text, taken), tuple(applied), tuple(skipped), tuple(taken))


def fix_project(request: Request, unsafe: bool = False) -> FixOutcome:
    """Fix all reported files, in rounds, until no fix is left that can be applied.

    A file that does not become stable in `MAX_ROUNDS` stays as it was, and a problem says so. A fix
    that brings a mistake which was not there is withheld, and named.
    """
    rounds = Rounds(request, UNSAFE if unsafe else SAFE)
    known = rounds.recall()
    if known is not None:
        return _finish(rounds.first, *known)
    settled = rounds.run()
    while mistakes := rounds.brought(settled):
        rounds.withhold(settled, mistakes)
        settled = rounds.run()
    withheld = tuple(rounds.withheld.values())
    rounds.keep(settled, withheld)
    return _finish(rounds.first, settled, withheld)


def write_project(
    request: Request, fixed: FixOutcome, unsafe: bool = False
) -> tuple[FixOutcome, tuple[str, ...]]:
    """Write the changed files.

    Returns the fixes that this run has put on the disk with the findings that are left there, and
    sentences about the files that still have to be fixed.
    """
    written = write_texts(request.project.root, fixed.before, fixed.after)
    outcome, problems = fixed.outcome, tuple[str, ...]()
    if written.paths != fixed.after.keys():
        outcome = engine.run(request)
        told = (*fixed.outcome.problems, *outcome.problems)
        outcome = replace(outcome, problems=tuple(dict.fromkeys(told)))
        # A file that has changed may have been fixed, by another run for one.
        fixes = fixable(outcome.findings, UNSAFE if unsafe else SAFE)
        settled = written.changed - {finding.path for finding in fixes}
        problems = tuple(
            f"{path}: not fixed: {reason}"
            for path, reason in written.refused.items()
            if path not in settled
        )
    outcome = replace(outcome, notices=(*outcome.notices, *written.notices))
    return _as_written(fixed, written.paths, outcome), problems


def _as_written(fixed: FixOutcome, paths: Collection[str], outcome: Outcome) -> FixOutcome:
    """The part of fixes that is in these files, and the outcome with all that is on the disk."""
    if len(paths) == len(fixed.after):
        return replace(fixed, outcome=outcome)
    applied = tuple(finding for finding in fixed.applied if finding.path in paths)
    return FixOutcome(
        first=fixed.first,
        outcome=outcome,
        before={path: fixed.before[path] for path in fixed.before if path in paths},
        after={path: fixed.after[path] for path in fixed.after if path in paths},
        applied=applied,
        found=len(applied) + len(outcome.findings),
        left=len(outcome.findings),
        withheld=fixed.withheld,
    )


# ------------------------------------------------------------------------------------- all rounds


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
        known = cache.get(self._key, KeptFixes) if cache is not None else None
        if known is None:
            return None
        outcome = engine.run(self._overlaid(known.texts)) if known.texts else self.first
        return Settled(outcome, known.texts, known.applied, known.problems), known.withheld

    def keep(self, settled: Settled, withheld: tuple[str, ...]) -> None:
        """Keep what all rounds have come to."""
        if self._cache is not None and not settled.outcome.problems:
            texts, applied = dict(settled.texts), {**settled.applied}
            kept = KeptFixes(
                texts, {p: [*of] for p, of in applied.items()}, [*settled.problems], withheld
            )
            self._cache.put(self._key, kept)

    @property
    def _cache(self) -> Cache | None:
        return self._request.cache if self.first.key else None

    @cached_property
    def _key(self) -> str:
        """The digest of all that decides what is written: what decides what is found, and how long
        lines may be."""
        root = self.first.root
        places = {(root / f.path).parent for f in fixable(self.first.findings, self._allow)}
        return caching.key_of(
            "fix",
            self.first.key,
            sorted(each.value for each in self._allow),
            [[seen_from(root, place), chosen_length(place)] for place in sorted(places)],
        )

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
        chosen = replace(self.first, findings=(named.finding,))
        changes = fix_round(chosen, self._overlaid({}), self._allow)
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
        chosen = replace(outcome, findings=tuple(each.finding for each in named))
        changes = fix_round(chosen, self._overlaid(texts), self._allow)
        return changes, {id(each.finding): each for each in named}

    def named(self, outcome: Outcome) -> list[FixableFinding]:
        """The findings that have a fix which may be applied."""
        left = [f for f in fixable(outcome.findings, self._allow) if f.path in outcome.texts]
        return [
            FixableFinding(finding, identity, _place(finding, outcome.texts[finding.path]))
            for finding, identity in zip(left, identities(left, outcome.texts), strict=True)
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
            f"{each.code} {each.name} ({_place(each, settled.outcome.texts[each.path])}: "
            f"{each.message})"
            for each in new
        ]

    def _watched(self, outcome: Outcome, texts: Mapping[str, str]) -> Outcome:
        """The same outcome with the mistakes that the user has not asked for."""
        if all(watching(each) == each for each in self._request.settings_in_use()):
            return outcome
        every = SeriousConfiguration(self._request.settings)
        return engine.run(replace(self._overlaid(texts), settings=every))

    def withhold(self, settled: Settled, mistakes: Sequence[str]) -> None:
        """Withhold the fixes that have brought mistakes: at least one.

        They are looked for among those of what is found in the project as it is. What these make
        room for is fixed whenever they are, and so goes with them.
        """
        known = {each.identity for each in self.named(self.first)}
        fixed = {each.identity: each for each in settled.fixed}
        tried = [each for name, each in fixed.items() if name in known] or [*fixed.values()]
        before = len(self.withheld)
        self._harmless([], tried, mistakes, {each.identity for each in tried})
        if len(self.withheld) == before:  # the mistakes come of what is tried in no half
            self._withhold(tried, mistakes)

    def _harmless(
        self,
        good: Sequence[FixableFinding],
        tried: Sequence[FixableFinding],
        mistakes: Sequence[str],
        every: AbstractSet[Identity],
    ) -> Sequence[FixableFinding]:
        """The fixes that bring no mistake, all of them together; the others are withheld.

        Args:
            good: those of which it is known.
            tried: those that bring these mistakes together with the good ones.
            every: all that are looked at.
        """
        if len(tried) == 1:
            self._withhold(tried, mistakes)
            return good
        middle = len(tried) // 2
        for half in tried[:middle], tried[middle:]:
            found = self.brought(self.run(every - {each.identity for each in (*good, *half)}))
            good = self._harmless(good, half, found, every) if found else [*good, *half]
        return good

    def _withhold(self, those: Iterable[FixableFinding], mistakes: Sequence[str]) -> None:
        for each in those:
            said = (
                f"{each.place}: {each.finding.code} not fixed: that would introduce {mistakes[0]}"
            )
            self.withheld[each.identity] = said


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


# ------------------------------------------------------------------------------------- one round


@dataclass(frozen=True)
class RoundOfFixes:
    """One round of fixes: the files that it changes, and the fixes that could not be made."""

    fixed: Mapping[str, Fixed]
    problems: Sequence[str]


@contextmanager
def quiet() -> Iterator[None]:
    """Say nothing of what Python warns of in the code at each parse, such as `1if x else 2`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@quiet()
def fix_round(outcome: Outcome, request: Request, allow: frozenset[Safety]) -> RoundOfFixes:
    """Apply the allowed fixes of the findings that do not clash."""
    by_path: dict[str, list[Finding]] = defaultdict(list)
    for finding in fixable(outcome.findings, allow):
        if finding.path in outcome.texts:
            by_path[finding.path].append(finding)
    fixed: dict[str, Fixed] = {}
    problems: list[str] = []
    for path, findings in by_path.items():
        text = outcome.texts[path]
        result = _in_quotes(text, _fix_text(text, findings, allow, problems))
        if result.applied and result.text != text.text:
            files = RoundFiles(request, outcome.all_texts)
            new = _in_style(path, text, result, files)
            pruned = without_orphans(path, text, new, files)
            width = chosen_length((outcome.root / path).parent)
            fixed[path] = replace(result, text=wrapped(text, pruned, width))
    return RoundOfFixes(fixed, problems)


def _fix_text(
    text: Text, findings: Sequence[Finding], allow: frozenset[Safety], problems: list[str]
) -> Fixed:
    """Apply what can be applied; if the result is no program in the file's encoding, one by one."""
    result = apply_fixes(text.text, findings, allow)
    if not result.applied or objection(text, result.text) is None:
        return result
    good: list[Finding] = []
    for finding in result.applied:
        why = objection(text, apply_fixes(text.text, [*good, finding], allow).text)
        if why is None:
            good.append(finding)
        else:
            problems.append(f"{_place(finding, text)}: {finding.code} not fixed: {why}")
    return apply_fixes(text.text, good, allow)


def _place(finding: Finding, text: Text) -> str:
    """Ex) train.py:12"""
    part, start = text.part(finding.span.start.row), finding.span.start
    return f"{part.of(finding.path)}:{part.place(start).row}"


@quiet()
def objection(text: Text, new: str) -> str | None:
    """Why a new text may not take the place of the old one."""
    try:
        text.encode(new)
    except UnencodableError as error:
        return str(error)
    # What `compile` refuses beyond `ast.parse`, such as a repeated keyword, the file may have held.
    if not _accepted(_compile, new) and (
        _accepted(_compile, text.text) or not _accepted(ast.parse, new)
    ):
        return "the result would not be valid Python"
    before, after = _parsed(text.text), _parsed(new)
    early = read_too_early(after) - read_too_early(before)
    if early:
        return f"`{min(early)}` would be used above its import"
    unbound = newly_unbound((text.text, before), (new, after))
    return f"`{min(unbound)}` may not be bound there" if unbound else None


@lru_cache(maxsize=4)  # of one file the old text is asked for with each of the new ones
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@dataclass(frozen=True)
class RoundFiles:
    """The files of a project as they are in one round."""

    request: Request
    texts: Mapping[str, Text]

    def beside(self, path: str) -> Iterator[tuple[str, str]]:
        """The other files that are analysed as one project with this one, and their texts."""
        part = self.request.part_of(path)
        for other, text in self.texts.items():
            if other != path and self.request.part_of(other) == part:
                yield other, text.text


def _in_quotes(before: Text, fixed: Fixed) -> Fixed:
    """The fixes with the quotes that the file has."""
    edits = in_quotes(before, fixed.edits)
    if edits == fixed.edits:
        return fixed
    new = edited(before.text, edits)
    return fixed if objection(before, new) else replace(fixed, text=new, edits=edits)


def _in_style(path: str, before: Text, fixed: Fixed, files: RoundFiles) -> str:
    """The new text with the short names that the file has for what the fixes write, where they
    leave no other use of these names."""
    edits = in_style(before, fixed.edits, lambda name: _is_for_others(path, before, {name}, files))
    if edits is None or _overlap_within(sorted(edits)):
        return fixed.text
    styled = edited(before.text, edits)
    return fixed.text if objection(before, styled) else styled


def without_orphans(path: str, before: Text, new: str, files: RoundFiles) -> str:
    """The new text without the imports that the fixes have left unused."""
    gone = [
        orphan
        for orphan in orphans(_parsed(before.text), _parsed(new))
        if not (orphan.at_top and _is_for_others(path, before, orphan.names, files))
    ]
    if not gone:
        return new
    text = replace(before, text=new)
    pruned = without(text, gone)
    return new if objection(text, pruned) else pruned


def _is_for_others(path: str, text: Text, names: Iterable[str], files: RoundFiles) -> bool:
    """Whether others may take one of these names from a file: a package's `__init__.py` may
    import for them, any file may have a name taken from it, and so may the rest of a notebook."""
    return (
        basename(path) == INIT
        or _names_one_of(text.left_out, names)
        or any(_is_taken(path, name, files) for name in sorted(names))
    )


def _names_one_of(text: str, names: Iterable[str]) -> bool:
    return bool(text) and any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)


def _is_taken(path: str, name: str, files: RoundFiles, seen: frozenset[str] = frozenset()) -> bool:
    """Whether another file of the project may take the name from the file at `path`, by itself or
    by a star, to use it or to hand it on."""
    word, by_name, by_star = stem(path), exported(path, name), starred(path)
    for other, text in files.beside(path):
        if other in seen or word not in text:
            continue
        try:
            if by_name.search(text):
                return True
            if by_star.search(text):
                module = ast.parse(text)
                for_others = basename(other) == INIT and not lists_its_names(module)
                if for_others or uses(module, name):
                    return True
        except Exception:  # what cannot be read imports nothing
            continue
        if by_star.search(text) and _is_taken(other, name, files, seen | {path}):
            return True
    return False


def _finish(first: Outcome, settled: Settled, withheld: tuple[str, ...]) -> FixOutcome:
    texts, last = settled.texts, settled.outcome
    changed = [path for path in sorted(texts) if texts[path] != first.texts[path].text]
    return FixOutcome(
        first=first,
        outcome=replace(last, problems=(*last.problems, *settled.problems)),
        before={path: first.texts[path] for path in changed},
        after={path: texts[path] for path in changed},
        applied=tuple(each.finding for path in changed for each in settled.applied[path]),
        found=len(first.findings),
        left=len(last.findings),
        withheld=withheld,
    )


# ------------------------------------------------------------------------------------- edits


def fixable(findings: Iterable[Finding], allow: frozenset[Safety]) -> list[Finding]:
    """The findings that have a fix that may be applied."""
    return [finding for finding in findings if _edits(finding, allow)]


def _edits(finding: Finding, allow: frozenset[Safety]) -> list[Edit]:
    fix: Fix | None = finding.fix
    if fix is None or fix.safety not in allow:
        return []
    return sorted(fix.edits, key=lambda edit: (edit.start, edit.end))


def _is_insertion(edit: Edit) -> bool:
    return edit.start == edit.end


def _touch(one: Edit, other: Edit) -> bool:
    """Whether two edits of different fixes overlap, or stand side by side."""
    return one.start <= other.end and other.start <= one.end


def _overlap_within(edits: Sequence[Edit]) -> bool:
    """Whether edits of one fix, in order, overlap; side by side they may stand."""
    return any(one.end > other.start for one, other in itertools.pairwise(edits))


def _compile(text: str) -> object:
    return compile(text, "<fixed>", "exec", dont_inherit=True)


def _accepted(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
