"""Run a program with and without fixes, and find a verdict for each of them.

All fixes of a round are tried together first. If that is not exact they are tried in halves, down
to single ones, so that one bad fix costs few runs and the others keep their verdicts. What is good
is then taken as the program that further fixes begin from, as in `amplint fix`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from amplint.findings.declaration import Change
from amplint.findings.finding import Finding, Safety
from amplint.findings.witness import Raises
from amplint.fix import applying, single_round
from amplint.fix.rounds import MAX_ROUNDS
from amplint.run import engine
from amplint.run.request import Outcome, Request
from amplint.util.text import Part, Text
from amplint_verify.backends.choice import Backend
from amplint_verify.compare import executed, verdicts
from amplint_verify.compare.operations import Place
from amplint_verify.compare.verdict import MEANINGS, Verdict
from amplint_verify.compare.verdicts import GroundedVerdict, Runs
from amplint_verify.recording.observation import Observation, OperationRow, RunOutcome, to_json
from amplint_verify.runs import launcher
from amplint_verify.runs.drivers import UnstartedError, UserProgram
from amplint_verify.runs.mirrors import mirror
from amplint_verify.runs.spec import Spec

TARGET = "amplint_verify.runs.drivers:run"
Texts = Mapping[str, str]  # new texts by path, relative to the root


@dataclass(frozen=True)
class SourceStep:
    """An operation and the source line that asked for it, "" if it is none of the project's."""

    row: OperationRow
    line: str


@dataclass(frozen=True)
class JudgedFix:
    """A fix and what was found of it.

    Args:
        finding: which the fix is for, placed in the text of its round.
        line: of the text of its round, where the finding is.
        part: of its file, likewise: the cell of a notebook.
        text: of its file, in its round.
        judgement: over all back ends.
        by_backend: what each of them says.
        partings: by back end, the operations where the two runs part first: before, after.
    """

    finding: Finding
    line: str
    part: Part
    text: Text
    judgement: GroundedVerdict
    by_backend: Mapping[str, GroundedVerdict]
    partings: Mapping[str, tuple[tuple[SourceStep, ...], tuple[SourceStep, ...]]]


@dataclass
class Lab:
    """Runs versions of a project's program.

    Args:
        root: of the project.
        files: its Python files, relative to the root.
        encode: bytes of a new text for a file.
        program: what to run.
        backends: on which.
        directory: for the copies; empty.
        run: runs a spec.
        seconds, memory: limits of a run, as in `Spec`.
        traced: the files of which is written down what ran.
        linked: what the copies link to; known after the first run.
        observations: those that were made, so that nothing is run twice.
    """

    root: Path
    files: Sequence[str]
    encode: Callable[[str, str], bytes]
    program: UserProgram
    backends: Sequence[Backend]
    directory: Path
    run: Callable[[Spec], Observation]
    seconds: float
    memory: int
    traced: frozenset[str] = frozenset()
    linked: tuple[str, ...] = ()
    observations: dict[tuple[object, ...], Observation] = field(default_factory=dict)

    def observe(self, texts: Texts, backend: str, context: str = "", turn: int = 0) -> Observation:
        """Run the program with these texts.

        Args:
            texts: laid over the files.
            backend: its name.
            context: "module:function" of a context manager to run in; "" for none.
            turn: which of several runs of the same it is.
        """
        key = (frozenset(texts.items()), backend, context, turn, self.traced)
        if key not in self.observations:
            self.observations[key] = self._run(texts, backend, context)
        return self.observations[key]

    def _run(self, texts: Texts, backend: str, context: str) -> Observation:
        # Every run has a copy of its own, since it may leave files, and always at the same place,
        # since paths may get into what is compared.
        place = self.directory / "tree"
        self.copy(texts, place)
        spec = Spec(
            root=str(place),
            target=TARGET,
            backend=backend,
            args=(to_json(self.program), str(self.root), "{device}"),
            contexts=(context,) if context else (),
            traced=tuple(sorted(self.traced)),
            seconds=self.seconds,
            memory=self.memory,
        )
        try:
            return self.run(spec)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def trace(self, findings: Iterable[Finding]) -> None:
        """Write down from now on what runs of the files of these findings, too."""
        self.traced |= {each.path for each in findings if each.fix is not None}

    def copy(self, texts: Texts, place: Path) -> None:
        """Write a copy of the project with these texts."""
        overlays = {path: self.encode(path, text) for path, text in texts.items()}
        self.linked = mirror(self.root, place, self.files, overlays).linked

    def runs(self, backend: Backend, before: Texts, after: Texts, same_line: SameLine) -> Runs:
        """The verdict on a change that a back end shows."""

        def more(fixed: bool, context: str) -> Observation:
            return self.observe(after if fixed else before, backend.name, context)

        return Runs(
            backend=backend,
            original=self.observe(before, backend.name),
            again=self.observe(before, backend.name, turn=1),
            fixed=self.observe(after, backend.name),
            more=more,
            same_line=same_line,
        )


SameLine = Callable[[Place], "Place | None"]


class NotStartedError(Exception):
    """There is no such program as was named."""


# ------------------------------------------------------------------------------- rounds


@dataclass(frozen=True)
class Verified:
    """The result of verifying a project.

    Args:
        judged: every fix that was tried, in the order of files and places, round by round.
        first: what there was to report before.
        texts: the texts of the changed files with the good fixes in them.
        outcome: what is left to report after these.
        runs: by back end, the program as it was and with all the good fixes; not of one that came
            to no end as it was.
    """

    judged: tuple[JudgedFix, ...]
    first: Outcome
    texts: Texts
    outcome: Outcome
    runs: Mapping[str, tuple[Observation, Observation]]


def verify(request: Request, unsafe: bool, lab: Lab) -> Verified:
    """Try every fix that may be applied, and keep those that are good, by themselves and together.

    Raises OSError if the tree cannot be copied, NotStartedError if the program cannot be started.
    """
    allow = applying.UNSAFE if unsafe else applying.SAFE
    first = current = LabRound(request, engine.run(request), allow, {}, lab)
    if not applying.fixable(first.outcome.findings, allow):
        return Verified((), first.outcome, {}, first.outcome, {})
    lab.trace(first.outcome.findings)
    for backend in lab.backends:
        original = lab.observe({}, backend.name)
        if original.error == UnstartedError.__name__:
            raise NotStartedError(original.text)
        unlaunched = launcher.missing(original, first.line_at(original.place), os.environ)
        if unlaunched is not None:
            raise NotStartedError(f"`{lab.program}` cannot be started: {unlaunched}")
    judged: list[JudgedFix] = []
    refused: set[tuple[str, ...]] = set()
    postponed: list[JudgedFix] = []  # undecided, because of an error that other fixes have ended
    for _ in range(MAX_ROUNDS):
        candidates = [
            finding
            for finding in applying.fixable(current.outcome.findings, allow)
            if current.identity(finding) not in refused
        ]
        lab.trace(candidates)
        result = current.solve(current.applicable(candidates))
        postponed = []
        if not result:
            break
        if any(each.judgement.good for each in result):
            postponed = [each for each in result if each.judgement.of_original]
            result = [each for each in result if not each.judgement.of_original]
        judged += result
        refused |= {current.identity(e.finding) for e in result if not e.judgement.good}
        current = current.after([each.finding for each in result if each.judgement.good])
    judged += postponed
    declared = [each.finding for each in judged if each.judgement.good]
    together = verdicts.overall(first.judge(current.texts, declared), lab.backends)
    if declared and not together.good:
        current = first
        judged = [spoilt(each, together) if each.judgement.good else each for each in judged]
    return Verified(
        judged=tuple(judged),
        first=first.outcome,
        texts=current.texts,
        outcome=current.outcome,
        runs={
            each.name: (original, lab.observe(current.texts, each.name))
            for each in lab.backends
            if verdicts.by_original(original := lab.observe({}, each.name)) is None
        },
    )


def spoilt(judged: JudgedFix, together: GroundedVerdict) -> JudgedFix:
    """A fix that is good by itself, of several that are not good together."""
    words = MEANINGS[judged.judgement.verdict].words
    reason = f"{words} by itself, but with the others: {together.reason}"
    return replace(judged, judgement=GroundedVerdict(Verdict.INCONCLUSIVE, reason))


@dataclass(frozen=True)
class LabRound:
    """The fixes of one text, before any of them is applied.

    Args:
        request: the project as it is now.
        outcome: what is found in it.
        allow: which fixes may be applied.
        texts: what earlier rounds have changed.
        lab: to try fixes in.
    """

    request: Request
    outcome: Outcome
    allow: frozenset[Safety]
    texts: Texts
    lab: Lab

    def identity(self, finding: Finding) -> tuple[str, ...]:
        """The identity of a finding, which stays when lines above it change."""
        return finding.path, finding.code, finding.scope, self.line_of(finding)

    def line_of(self, finding: Finding) -> str:
        part = self.part_of(finding)
        return part.text.line(part.place(finding.span.start).row).strip()

    def part_of(self, finding: Finding) -> Part:
        return self.outcome.texts[finding.path].part(finding.span.start.row)

    def after(self, findings: Iterable[Finding]) -> LabRound:
        """The next round, with the fixes of these findings applied."""
        texts = self.texts_with(findings)
        files = {path: self.outcome.texts[path].written(text) for path, text in texts.items()}
        request = replace(self.request, overlays={**self.request.overlays, **files})
        return replace(self, request=request, outcome=engine.run(request), texts=texts)

    def applicable(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Those whose fixes can all be applied together."""
        changes = self._changes(findings)
        return tuple(each for fixed in changes.values() for each in fixed.applied)

    def texts_with(self, findings: Iterable[Finding]) -> dict[str, str]:
        """The texts of all changed files with the fixes of these findings too."""
        fixed = self._changes(findings)
        return {**self.texts, **{path: each.text for path, each in fixed.items()}}

    def _changes(self, findings: Iterable[Finding]) -> Mapping[str, applying.Fixed]:
        outcome = replace(self.outcome, findings=tuple(findings))
        return single_round.fix_round(outcome, self.request, self.allow).fixed

    def solve(self, findings: Sequence[Finding]) -> list[JudgedFix]:
        """A verdict for each fix: that of all together if this is exact, or if the original is
        why nothing can be said; else of either half."""
        if not findings:
            return []
        after = self.texts_with(findings)
        by_backend = self.judge(after, findings)
        same = all(e.verdict is Verdict.EXACT or e.of_original for e in by_backend.values())
        if len(findings) > 1 and not same:
            middle = len(findings) // 2
            return [*self.solve(findings[:middle]), *self.solve(findings[middle:])]
        return [self.judged(finding, after, by_backend) for finding in findings]

    def judge(self, after: Texts, findings: Iterable[Finding]) -> dict[str, GroundedVerdict]:
        """The verdict of each back end on the new texts, which hold the fixes of these findings."""
        changes = frozenset[Change]().union(*(self.declared(finding) for finding in findings))
        same_line = partial(self.same_line, after)
        by_backend = {}
        for backend in self.lab.backends:
            # Not even run again, if it runs into the time limit: that may be minutes.
            original = self.lab.observe(self.texts, backend.name)
            judgement = verdicts.by_original(original) or verdicts.judge(
                self.lab.runs(backend, self.texts, after, same_line), changes
            )
            if judgement.of_original and original.outcome is RunOutcome.EXCEPTION:
                reason = f"{judgement.reason.rstrip('.')}; {self.first_to_fix(original)}"
                judgement = replace(judgement, reason=reason)
            by_backend[backend.name] = judgement
        return by_backend

    def first_to_fix(self, original: Observation) -> str:
        """The advice to a program that raises whatever is fixed: the finding that says why."""
        findings = [
            *(each for each in self.outcome.findings if self.foretells(each, original)),
            *(each for each in self.outcome.findings if self.is_at(each, original.place)),
        ]
        if not findings:
            return "no finding explains this error: fix it first, and verify again"
        first = next((each for each in findings if self.is_at(each, original.place)), findings[0])
        by = f"{first.code} at {self.place_of(first)}"
        if first.fix is not None and first.fix.safety not in self.allow:
            return f"fix {by} first ({first.fix.safety.value} fix: {first.fix.title})"
        return f"fix {by} first" + (f": {first.help}" if first.help else "")

    def foretells(self, finding: Finding, original: Observation) -> bool:
        """Whether the finding's rule is about this very error."""
        error = f"{original.error}: {original.text}".casefold()
        witnesses = (rule.witness for rule in self.request.rules if rule.code == finding.code)
        return any(isinstance(each, Raises) and each.text.casefold() in error for each in witnesses)

    def is_at(self, finding: Finding, place: str) -> bool:
        """Whether a finding, or what it rests on, is on the line of a place."""
        path, _, row = place.rpartition(":")
        spans = [(finding.path, finding.span), *((r.path, r.span) for r in finding.related)]
        return any(path == of and span.start.row <= int(row) <= span.end.row for of, span in spans)

    def place_of(self, finding: Finding) -> str:
        part = self.part_of(finding)
        return f"{part.of(finding.path)}:{part.place(finding.span.start).row}"

    def declared(self, finding: Finding) -> frozenset[Change]:
        """The changes that a fix may make: none if safe, else those that its rule declares."""
        if finding.fix is None or finding.fix.safety is Safety.SAFE:
            return frozenset()
        rules = (rule for rule in self.request.rules if rule.code == finding.code)
        return next((rule.changes for rule in rules), frozenset())

    def same_line(self, after: Texts, place: Place) -> Place | None:
        path, row = place
        if path not in after or after[path] == self.before(path):
            return place
        new_row = executed.unedited(self.before(path), after[path]).get(row)
        return None if new_row is None else (path, new_row)

    def before(self, path: str) -> str:
        """The text of a file that findings are placed in."""
        return self.outcome.texts[path].text

    def judged(
        self, finding: Finding, after: Texts, by_backend: Mapping[str, GroundedVerdict]
    ) -> JudgedFix:
        """The verdict of one fix among those that were tried together: theirs, if it ran."""
        mine = {
            name: self.if_it_ran(finding, after, name, judgement)
            for name, judgement in by_backend.items()
        }
        return JudgedFix(
            finding=finding,
            line=self.line_of(finding),
            part=self.part_of(finding),
            text=self.outcome.texts[finding.path],
            judgement=verdicts.overall(mine, self.lab.backends),
            by_backend=mine,
            partings={
                name: (
                    self.steps(judgement.divergence.before, self.texts),
                    self.steps(judgement.divergence.after, after),
                )
                for name, judgement in mine.items()
                if judgement.divergence is not None
            },
        )

    def line_at(self, place: str) -> str:
        """The line of a place, in whatever file of the project; "" if there is none."""
        path, _, row = place.rpartition(":")
        text = self.outcome.all_texts.get(path)
        return text.line(int(row)) if text is not None else ""

    def steps(self, rows: Iterable[OperationRow], texts: Texts) -> tuple[SourceStep, ...]:
        """Operations with the lines of these texts."""
        source_steps = []
        for row in rows:
            original = self.outcome.texts.get(row.path)
            text = texts.get(row.path, original.text if original else "")
            source_steps.append(SourceStep(row, Text(text).line(row.row).strip() if text else ""))
        return tuple(source_steps)

    def if_it_ran(
        self, finding: Finding, after: Texts, backend: str, judgement: GroundedVerdict
    ) -> GroundedVerdict:
        if not judgement.good:
            return judgement
        assert finding.fix is not None
        path = finding.path
        if self.part_of(finding).cell is not None:
            return GroundedVerdict(Verdict.NOT_EXECUTED, "the cells of notebooks are not run")
        before = self.outcome.texts[path]
        new = executed.rows_after(before.text, after[path], finding.fix.edits)
        original, fixed = (self.lab.observe(texts, backend) for texts in (self.texts, after))
        sides = [(after[path], executed.whole_rows(after[path], new), fixed)]
        if original.outcome is RunOutcome.OK:  # else the edited line may be the one that raised
            sides.insert(0, (before.text, executed.edited(before, finding.fix.edits), original))
        for text, spans, observation in sides:
            missed = executed.unrun(text, spans, observation.ran.get(path, ()))
            if missed:
                line = executed.lines_of(text)[missed[0] - 1].strip()
                reason = f"what is edited of `{line}` did not run ({path}:{missed[0]})"
                return GroundedVerdict(Verdict.NOT_EXECUTED, reason)
        return judgement
