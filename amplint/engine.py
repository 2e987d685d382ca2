"""A run over a project: read all files, analyse the parts that matter, settle what is reported."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from amplint import registry
from amplint.analysis import Analysed, Seen, Task, analyse, unparsable
from amplint.config import Settings
from amplint.discover import Project
from amplint.finding import Finding, Position, Span
from amplint.index import File
from amplint.parts import divide
from amplint.processes import available, each
from amplint.rule import Rule
from amplint.suppress import Suppressions
from amplint.text import Text, UndecodableError


@dataclass(frozen=True)
class Request:
    """What to do.

    Args:
        project: the files.
        settings: what the user wants reported.
        rules: all rules that exist.
        overlays: texts to take instead of those on disk, by root-relative path.
        indexed: files indexed in an earlier run of this request, so that the rounds of fixing read
            again only what they have changed.
    """

    project: Project
    settings: Settings
    rules: Sequence[Rule]
    overlays: Mapping[str, str] = field(default_factory=dict)
    indexed: dict[tuple[str, str], File] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    Args:
        root: the directory that paths are relative to.
        findings: what to report, by path and place.
        problems: what amplint could not do; with any, the exit status is 2.
        notices: to be told; no exit status depends on them.
        files: the files that were asked for, sorted.
        texts: those of them that could be read.
    """

    root: Path
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    notices: tuple[str, ...]
    files: tuple[str, ...]
    texts: Mapping[str, Text]

    @property
    def status(self) -> int:
        """The exit status: 2 for problems, else 1 for findings, else 0."""
        return 2 if self.problems else 1 if self.findings else 0


def run(request: Request) -> Outcome:
    """Analyse the project and report on the files that were asked for."""
    with warnings.catch_warnings(), without_collector():
        warnings.simplefilter("ignore")  # the parser's, about the code that is read
        reading = read_all(request)
        rules = rules_of(request)
        task = Task(reading.texts, request.project.reported, rules, request.indexed)
        return settled(request, reading, rules, analyse_all(task))


def rules_of(request: Request) -> list[Rule]:
    """The rules that are to judge."""
    return [
        rule
        for rule in registry.for_target(request.rules, request.settings.target_torch)
        if rule.checks and request.settings.may_report(rule)
    ]


def analyse_all(task: Task) -> list[Analysed]:
    """Analyse the parts of the project in which findings were asked for."""
    sizes = {path: len(text.text) for path, text in task.texts.items()}
    parts = [part for part in divide(sizes) if not task.reported.isdisjoint(part)]
    if len(parts) == 1:
        return [analyse(parts[0], task, available())]
    at_once = min(available(), len(parts))
    return each(
        lambda part: analyse(part, task, max(available() // at_once, 1)),
        parts,
        [sum(sizes[path] for path in part) for part in parts],
    )


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """No search for cyclic garbage: trees and graphs hold none, and are millions of objects that
    each search would visit (linking diffusers' models took 1.4 times as long with it)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def settled(
    request: Request, reading: Reading, rules: Sequence[Rule], analysed: Sequence[Analysed]
) -> Outcome:
    """What is to be told of what was seen."""
    project = request.project
    findings: list[Finding] = []
    problems = [*project.problems, *reading.problems]
    notices = list(project.notices)
    analysed = [*analysed, Analysed(reading.undecoded, unread=frozenset(reading.undecoded))]
    complete = project.whole and reading.complete and not any(part.unread for part in analysed)
    for part in analysed:
        problems += part.problems
        for path in sorted(part.seen):
            seen = part.seen[path]
            problems += seen.problems
            notices += seen.notices
            findings += settle(path, seen, reading.text(path), rules, request, complete)
    return Outcome(
        root=project.root,
        findings=tuple(sorted(findings, key=by_place)),
        problems=tuple(problems),
        notices=tuple(notices),
        files=tuple(sorted(project.reported)),
        texts={path: reading.text(path) for path in project.reported & reading.opened},
    )


def by_place(finding: Finding) -> tuple[str, Span, str, str]:
    return finding.path, finding.span, finding.code, finding.message


# ------------------------------------------------------------------------------------- reading


@dataclass
class Reading:
    """The files as they were read.

    Args:
        texts: of the files that have one.
        undecoded: what is said of reported files whose bytes are not text.
        problems: sentences about reported files that could not be opened.
        complete: whether all files have a text.
    """

    texts: dict[str, Text] = field(default_factory=dict)
    undecoded: dict[str, Seen] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    complete: bool = True

    @property
    def opened(self) -> frozenset[str]:
        return frozenset({*self.texts, *self.undecoded})

    def text(self, path: str) -> Text:
        """The text of a file; empty for bytes that are none."""
        return self.texts.get(path, Text(""))


def read_all(request: Request) -> Reading:
    """Read every file of the project; one that fails does not stop the others."""
    reading = Reading()
    reported = request.project.reported
    for path in request.project.files:
        try:
            reading.texts[path] = read(path, request)
            continue
        except OSError as error:
            if path in reported:
                reading.problems.append(f"{path}: cannot be read: {error.strerror or error}")
        except UndecodableError as error:
            if path in reported:
                at = Position(error.row, error.column)
                reading.undecoded[path] = Seen((unparsable(path, at, error.reason),))
        reading.complete = False
    return reading


def read(path: str, request: Request) -> Text:
    if path not in request.overlays:
        return Text.read(request.project.root / path)
    try:
        text = Text.read(request.project.root / path)
    except (OSError, UndecodableError):
        text = Text("")  # standard input may stand for a file that is not there yet
    return replace(text, text=request.overlays[path])


def settle(
    path: str, seen: Seen, text: Text, rules: Sequence[Rule], request: Request, complete: bool
) -> Iterator[Finding]:
    """What is to be reported of what was seen in a file.

    Args:
        path: the file.
        seen: what the rules have said.
        text: what is in it.
        rules: those that have run.
        request: what was asked for.
        complete: whether all files of the project were read.
    """
    settings = request.settings
    file = request.project.root / path
    suppressions = Suppressions(text)
    findings = without_outranked(seen.findings, request.rules, settings)
    left = [finding for finding in findings if not suppressions.hide(finding)]
    if complete and not (seen.problems or seen.notices):
        default = registry.for_target(request.rules, settings.target_torch)
        all_ran = all(settings.may_report(rule) for rule in default if rule.group.default)
        left += suppressions.unused(path, findings, request.rules, rules, all_ran)
    for finding in left:
        if settings.selects_finding(finding) and not settings.ignores_in_file(finding, file):
            yield finding


def without_outranked(
    findings: Iterable[Finding], rules: Iterable[Rule], settings: Settings
) -> list[Finding]:
    """The findings at whose place no rule speaks that comes before theirs.

    A rule that is switched off silences nothing. The place of a finding is its span, and the
    beginnings of what it names as related: AMP204 speaks at the write, of the factory elsewhere.
    """
    findings = list(findings)
    outranked = {rule.code: rule.outranks for rule in rules if rule.outranks}
    speakers = [
        finding
        for finding in findings
        if finding.code in outranked and settings.selects_finding(finding)
    ]
    return [
        finding
        for finding in findings
        if not any(
            finding.code in outranked[speaker.code] and same_place(speaker, finding)
            for speaker in speakers
        )
    ]


def same_place(speaker: Finding, finding: Finding) -> bool:
    start, end = speaker.span
    if start < finding.span.end and finding.span.start < end:
        return True
    places = {(related.path, related.span.start) for related in speaker.related}
    return (finding.path, finding.span.start) in places
