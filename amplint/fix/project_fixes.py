"""Fix a project: choose fixes, apply them, look again until nothing changes, write."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from amplint.findings.finding import Finding
from amplint.fix.applying import SAFE, UNSAFE, fixable
from amplint.fix.rounds import Rounds, Settled
from amplint.fix.writing import write_texts
from amplint.project.line_length import chosen_length
from amplint.run import engine
from amplint.run.observation_findings import rests_on_run
from amplint.run.request import Outcome, Request
from amplint.util.text import LINE_END, Text
from amplint.util.wording import counted


@dataclass(frozen=True)
class FixOutcome:
    """A project after all fixes; nothing has been written.

    Args:
        first: what there was to report before.
        outcome: what is left to report, and what could not be done.
        before: the texts of the changed files as they were read, by root-relative path.
        after: their new texts.
        applied: the findings that were fixed, placed in the text of their round.
        total: how many findings there were before, without those that rest on a run of a function
            whose text has changed.
        rest: how many there are after.
        withheld: sentences about the fixes that would bring a mistake.
    """

    first: Outcome
    outcome: Outcome
    before: Mapping[str, Text]
    after: Mapping[str, str]
    applied: tuple[Finding, ...]
    total: int
    rest: int
    withheld: tuple[str, ...] = ()

    @property
    def fixed(self) -> int:
        """How many findings are gone because of the fixes: one fix may end several."""
        return max(len(self.applied), self.total - self.rest) if self.applied else 0

    @property
    def new(self) -> int:
        """How many of those that are left were not there before, so that the numbers add up."""
        return self.rest - (self.total - self.fixed)


def fix_project(request: Request, unsafe: bool = False) -> FixOutcome:
    """Fix all reported files, in rounds, until no fix is left that can be applied.

    A file that does not become stable in `MAX_ROUNDS` stays as it was, and a problem says so. A fix
    that brings a mistake which was not there is withheld, and named.
    """
    rounds = Rounds(request, UNSAFE if unsafe else SAFE)
    cached = rounds.recall()
    if cached is not None:
        return _finish(rounds.first, *cached)
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
    written = write_texts(request.selection.root, fixed.before, fixed.after)
    outcome, problems = fixed.outcome, tuple[str, ...]()
    if written.paths != fixed.after.keys():
        outcome = engine.run(request)
        sentences = (*fixed.outcome.problems, *outcome.problems)
        outcome = replace(outcome, problems=tuple(dict.fromkeys(sentences)))
        # A file that has changed may have been fixed, by another run for one.
        fixes = fixable(outcome.findings, UNSAFE if unsafe else SAFE)
        settled = written.changed - {finding.path for finding in fixes}
        problems = tuple(
            f"{path}: not fixed: {reason}"
            for path, reason in written.refused.items()
            if path not in settled
        )
    done = _as_written(fixed, written.paths, outcome)
    notices = (*outcome.notices, *written.notices, *_long_lines(done, request.selection.root))
    return replace(done, outcome=replace(outcome, notices=notices)), problems


def _long_lines(fixed: FixOutcome, root: Path) -> Iterator[str]:
    """A sentence for each file with new lines that are longer than a formatter or a linter of the
    project lets them be. A formatter wraps them, as it does all others."""
    for path, text in fixed.after.items():
        width = chosen_length((root / path).parent)
        new = set(LINE_END.split(text)).difference(LINE_END.split(fixed.before[path].text))
        if width is not None and (long := sum(len(line) > width for line in new)):
            yield f"{path}: {counted(long, 'line')} longer than {width} characters: format the file"


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
        total=len(applied) + len(outcome.findings),
        rest=len(outcome.findings),
        withheld=fixed.withheld,
    )


def _finish(first: Outcome, settled: Settled, withheld: tuple[str, ...]) -> FixOutcome:
    texts, last = settled.texts, settled.outcome
    changed = [path for path in sorted(texts) if texts[path] != first.texts[path].text]
    applied = tuple(each.finding for path in changed for each in settled.applied[path])
    # What a run has shown of a function goes when its text changes: that fixes nothing.
    before, fixed, after = (
        sum(map(rests_on_run, each)) for each in (first.findings, applied, last.findings)
    )
    return FixOutcome(
        first=first,
        outcome=replace(last, problems=(*last.problems, *settled.problems)),
        before={path: first.texts[path] for path in changed},
        after={path: texts[path] for path in changed},
        applied=applied,
        total=len(first.findings) - max(before - fixed - after, 0),
        rest=len(last.findings),
        withheld=withheld,
    )
