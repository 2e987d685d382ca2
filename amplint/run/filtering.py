"""From what the rules have said to what is reported: who speaks first, suppressions, settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from amplint.findings import selectors
from amplint.findings.finding import Finding, Fix, Group, Safety, by_place, edited
from amplint.findings.suppressions import Suppressions
from amplint.knowledge.vocabulary import HANDLES_OLD
from amplint.project.config import Settings, strength
from amplint.project.torch_floor import ANY
from amplint.rule.rule import Rule
from amplint.run.file_result import FileResult
from amplint.run.project import Project
from amplint.run.request import Request
from amplint.run.unused_suppressions import unused
from amplint.util.intervals import Intervals
from amplint.util.text import Text

PRESUMED = "2.0"  # the lowest torch where nothing says which


def names(text: str) -> frozenset[str]:
    """The names in a text, with their dots."""
    return frozenset(re.findall(r"[\w.]+", text))


@dataclass(frozen=True)
class RulesInUse:
    """The rules of the files with some settings.

    Args:
        own: those that judge them.
        codes: of these.
        are_all: whether all that judge by default are among them, for the lowest torch.
        off: the codes of the rules that are off by default, where the settings choose no others.
    """

    own: tuple[Rule, ...]
    codes: frozenset[str]
    are_all: bool
    off: frozenset[str]


@dataclass(frozen=True)
class Filter:
    """Decides what is reported of the files of one project.

    Args:
        request: what was asked for.
        project: whose files are meant.
        texts: of its files that have one, at least.
        rules: those that run.
        is_complete: whether all files of the project are known and could be read, so that a comment
            which suppresses nothing is one.
    """

    request: Request
    project: Project
    texts: Mapping[str, Text]
    rules: Sequence[Rule]
    is_complete: bool = False
    _by_settings: dict[Settings, RulesInUse] = field(default_factory=dict, compare=False)

    @property
    def _root(self) -> Path:
        return self.request.selection.root

    @cached_property
    def _others(self) -> frozenset[str]:
        """The codes of rules that other packages bring."""
        return frozenset(rule.code for rule in self.request.rules if rule.package)

    def findings(self, path: str, result: FileResult) -> list[Finding]:
        """The findings in a file that are to be reported, by place.

        Args:
            path: the file.
            result: what the rules have said.
        """
        return sorted(self._reported(path, result, self._suppressions(path)), key=by_place)

    def _suppressions(self, path: str) -> Suppressions:
        return Suppressions(self.texts.get(path, Text("")), self._others)

    def off(self, path: str, result: FileResult) -> Iterator[Finding]:
        """The findings in a file of rules that are off by default, without those that a comment or
        the settings keep quiet, or in whose place another rule speaks."""
        settings = self.request.settings_of(path) if result.findings else None
        codes = self._rules_of(settings).off if settings is not None else frozenset()
        if settings is None or not any(finding.code in codes for finding in result.findings):
            return
        suppressions = self._suppressions(path)
        file = self._root / path
        for each in without_superseded(result.findings, self.request.rules, settings, self._root):
            is_quiet = settings.ignores_in_file(each, file) or suppressions.suppresses(each)
            if each.code in codes and not is_quiet:
                yield each

    def _reported(
        self, path: str, result: FileResult, suppressions: Suppressions
    ) -> Iterator[Finding]:
        if not result.findings and not suppressions.all:
            return  # as for nearly all files: their settings need not be looked at
        request, settings = self.request, self.request.settings_of(path)
        rules_in_use = self._rules_of(settings)
        not_for_it = {rule.code for rule in self.rules} - rules_in_use.codes
        file = self._root / path
        eligible = [finding for finding in result.findings if finding.code not in not_for_it]
        findings = without_superseded(eligible, request.rules, settings, self._root)
        remaining = [finding for finding in findings if not suppressions.suppresses(finding)]
        if self.is_complete and not (result.problems or result.notices):
            rules = request.rules, rules_in_use.own, rules_in_use.are_all
            remaining += unused(suppressions, path, findings, *rules)
        for finding in remaining:
            if settings.selects_finding(finding) and not settings.ignores_in_file(finding, file):
                yield self._allowed(finding, rules_in_use.own, settings)

    def _allowed(self, finding: Finding, rules: Sequence[Rule], settings: Settings) -> Finding:
        """The finding with the fix for the lowest torch that has to do. Of a migration, a fix that
        needs a newer one is a suggestion; where nothing says how old a torch may be, it is unsafe.
        Other rules speak of code that is on the new one already, unless they have a fix of their
        own for each."""
        fix = finding.fix
        rule = next((rule for rule in rules if rule.code == finding.code), None)
        needed = (rule.fixes_torch or rule.torch) if rule is not None else None
        migrates = finding.group is Group.MIGRATION
        if fix is None or needed is None or not (migrates or fix.newer):
            return finding
        lowest = settings.lowest_torch or self._lowest_in_code
        allowed, origin = lowest or (PRESUMED, "")
        has_it = selectors.version(needed) <= selectors.version(allowed)
        if fix.newer is not None:
            return replace(finding, fix=fix.newer if has_it else replace(fix, newer=None))
        if has_it or not self._writes(fix, finding.path):
            return finding
        if lowest is None:
            return replace(finding, fix=_waiting(fix, needed))
        older = "older ones" if allowed == ANY else allowed
        waiting = _waiting(fix, needed, f" ({origin} allows {older})")
        return replace(finding, fix=replace(waiting, safety=Safety.SUGGEST))

    def _writes(self, fix: Fix, path: str) -> bool:
        """Whether a fix writes a name: one that removes an import does not. `torch.amp` is another
        name than `torch.cuda.amp`, of which it only leaves out a part."""
        before = self.texts.get(path, Text("")).text
        after = edited(before, fix.edits)
        old, new = Counter(before.splitlines()), Counter(after.splitlines())
        return not names("\n".join(new - old)) <= names("\n".join(old - new))

    @cached_property
    def _lowest_in_code(self) -> tuple[str, str] | None:
        """That older versions of torch have to do, if a file of the project handles them."""
        readable = (path for path in sorted(self.project.files) if path in self.texts)
        handling = (path for path in readable if HANDLES_OLD.search(self.texts[path].text))
        return next(((ANY, path) for path in handling), None)

    def hider(self, path: str, finding: Finding, result: FileResult) -> str:
        """Why a finding in a file is not reported, as a clause behind its rule: the settings,
        another rule that speaks in its place, or a comment."""
        settings = self.request.settings_of(path)
        selects = (
            settings.selects_finding(finding) and finding.code in self._rules_of(settings).codes
        )
        if not selects or settings.ignores_in_file(finding, self._root / path):
            return self._unselected(finding, settings)
        rules = self.request.rules
        if finding not in without_superseded(result.findings, rules, settings, self._root):
            return "another rule reports it instead"
        return "a comment allows it"

    def _unselected(self, finding: Finding, settings: Settings) -> str:
        """Why the settings leave it out."""
        rule = next((each for each in self.request.rules if each.code == finding.code), None)
        if rule is not None and rule.preview and not settings.preview:
            return "is in preview: set `preview = true`"
        if finding.group.default or strength(settings.ignore, finding.names, finding.group):
            return "the settings do not select it here"
        return f"is off by default: `--extend-select {finding.code}`"

    def _rules_of(self, settings: Settings) -> RulesInUse:
        """The rules of files with these settings, which many files have."""
        if settings not in self._by_settings:
            own = self.request.rules_of(settings)
            by_default = (r for r in settings.rules(self.request.rules) if r.group.default)
            codes = frozenset(rule.code for rule in own)
            off = frozenset(rule.code for rule in self.request.rules_off(settings))
            self._by_settings[settings] = RulesInUse(
                own, codes, all(map(settings.may_report, by_default)), off
            )
        return self._by_settings[settings]


def _waiting(fix: Fix, torch: str, why: str = "") -> Fix:
    """The fix where it is not known that the project has the torch that it needs."""
    title = f"{fix.title}, which needs torch {torch}{why}"
    return replace(fix.demoted(), title=title, needs_torch=torch)


def without_superseded(
    findings: Iterable[Finding], rules: Iterable[Rule], settings: Settings, root: Path
) -> list[Finding]:
    """The findings at whose place no rule speaks that comes before theirs.

    A rule that is switched off, also for this file alone, silences nothing. The place of a finding
    is its span, and the beginnings of what it names as related: AMP204 speaks at the write, of the
    factory elsewhere.
    """
    findings = list(findings)
    superseded = {rule.code: rule.supersedes for rule in rules if rule.supersedes}
    speakers: dict[str, list[Finding]] = {}  # by code that they come before
    for finding in findings:
        is_off = not settings.selects_finding(finding) or settings.ignores_in_file(
            finding, root / finding.path
        )
        if finding.code in superseded and not is_off:
            for code in superseded[finding.code]:
                speakers.setdefault(code, []).append(finding)
    places = {code: FindingPlaces(those) for code, those in speakers.items()}
    return [f for f in findings if f.code not in places or f not in places[f.code]]


class FindingPlaces:
    """The places at which some findings speak."""

    def __init__(self, findings: Collection[Finding]) -> None:
        self._spans = Intervals(finding.span for finding in findings)
        self._related = {
            (related.path, related.span.start) for each in findings for related in each.related
        }

    def __contains__(self, finding: Finding) -> bool:
        start, end = finding.span
        return self._spans.meet(start, end) or (finding.path, start) in self._related
