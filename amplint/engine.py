"""The stages over many files: index all, link, judge those that are reported, suppress."""

from __future__ import annotations

import ast
import contextlib
import gc
import platform
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from amplint import registry
from amplint.config import Settings
from amplint.discover import Project
from amplint.finding import Finding, Position, Span
from amplint.heat import HEAT_WORDS
from amplint.index import File
from amplint.link import Program, with_aliases
from amplint.processes import spread
from amplint.registry import UNPARSABLE
from amplint.rule import Rule
from amplint.source import judge
from amplint.suppress import Suppressions
from amplint.text import Text, UndecodableError
from amplint.values import Trait


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
        # Read at the usual recursion limit, by which `ast.parse` decides what is nested too deeply.
        reading = read_all(request)
        return deeply(lambda: report_on(request, reading))


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


def report_on(request: Request, reading: Reading) -> Outcome:
    """Link what was read and let the rules judge it."""
    project = request.project
    rules = [
        rule
        for rule in registry.for_target(request.rules, request.settings.target_torch)
        if rule.checks and request.settings.may_report(rule)
    ]
    rules = [replace(rule, words=words_of(rule, reading.files)) for rule in rules]
    words = frozenset(word for rule in rules if Trait.HOT not in rule.needs for word in rule.words)
    everywhere = frozenset(word for rule in rules if rule.misuse for word in rule.words)
    if any(Trait.HOT in rule.needs for rule in rules):
        everywhere |= HEAT_WORDS
    program = Program(reading.files, words, project.reported, everywhere)

    findings: list[Finding] = []
    problems = [*project.problems, *reading.problems, *program.failures]
    notices = list(project.notices)
    paths = sorted(project.reported & reading.texts.keys())
    looked_at = spread(
        lambda path: look_at(path, program, reading, rules),
        paths,
        [len(reading.texts[path].text) for path in paths],
    )
    for path, seen in zip(paths, looked_at, strict=True):
        problems += seen.problems
        notices += seen.notices
        findings += settle(path, seen, reading, rules, request)
    return Outcome(
        root=project.root,
        findings=tuple(sorted(findings, key=by_place)),
        problems=tuple(problems),
        notices=tuple(notices),
        files=tuple(sorted(project.reported)),
        texts={path: reading.texts[path] for path in project.reported & reading.texts.keys()},
    )


def words_of(rule: Rule, files: Mapping[str, File]) -> frozenset[str]:
    """The words of a rule in this project; none where it cannot speak, whatever a unit holds."""
    if rule.project_words and all(
        rule.project_words.isdisjoint(f.facts.words) for f in files.values()
    ):
        return frozenset()
    return with_aliases(files, rule.words)


def by_place(finding: Finding) -> tuple[str, Span, str, str]:
    return finding.path, finding.span, finding.code, finding.message


def deeply(work: Callable[[], Outcome]) -> Outcome:
    """Do the work where it may recurse as deeply as any expression that `ast.parse` accepts.

    That takes a thread, for only those can be given a larger stack; LibCST, which recurses in
    native code, would end the process on a small one.
    """
    results: list[Outcome] = []
    errors: list[BaseException] = []

    def target() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    limit, stack = sys.getrecursionlimit(), threading.stack_size(DEEP_STACK)
    sys.setrecursionlimit(max(limit, DEEP_LIMIT))
    try:
        thread = threading.Thread(target=target, name="amplint", daemon=True)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(stack)
    if errors:
        raise errors[0]
    return results[0]


DEEP_LIMIT = 50_000
DEEP_STACK = 512 * 1024 * 1024  # of address space; memory is taken as it is used


# ------------------------------------------------------------------------------------- reading


@dataclass
class Reading:
    """The files as they were read.

    Args:
        files: what could be indexed.
        texts: what could be opened; empty text for bytes that cannot be decoded.
        broken: the AMP000 findings of reported files.
        problems: sentences about reported files that could not be opened, or that only amplint
            could not read.
        complete: whether every file of the project could be indexed.
    """

    files: dict[str, File] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)
    broken: dict[str, Finding] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    complete: bool = True


def read_all(request: Request) -> Reading:
    """Read and index every file of the project; one that fails does not stop the others."""
    reading = Reading(complete=request.project.whole)
    for path in request.project.files:
        broken = problem = None
        try:
            text = reading.texts[path] = read(path, request)
            reading.files[path] = indexed(path, text.text, request)
            continue
        except OSError as error:
            problem = f"{path}: cannot be read: {error.strerror or error}"
        except UndecodableError as error:
            reading.texts[path] = Text("")
            broken = unparsable(path, Position(error.row, error.column), error.reason)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            refusal = why_python_refuses(text.text)
            if refusal is None:
                problem = f"{path}: amplint cannot read it: {describe(error)}"
            else:
                broken = unparsable(path, *refusal)
        reading.complete = False
        if path in request.project.reported:
            if broken is not None:
                reading.broken[path] = broken
            if problem is not None:
                reading.problems.append(problem)
    return reading


def read(path: str, request: Request) -> Text:
    if path not in request.overlays:
        return Text.read(request.project.root / path)
    try:
        text = Text.read(request.project.root / path)
    except (OSError, UndecodableError):
        text = Text("")  # standard input may stand for a file that is not there yet
    return replace(text, text=request.overlays[path])


def indexed(path: str, text: str, request: Request) -> File:
    if (path, text) not in request.indexed:
        request.indexed[path, text] = File(path, text)
    return request.indexed[path, text]


def why_python_refuses(text: str) -> tuple[Position, str] | None:
    """Where and why `ast` does not take the text; None if it does."""
    nul = text.find("\0")
    if nul >= 0:
        return Text(text).position(nul), "a NUL byte"
    try:
        ast.parse(text)
    except SyntaxError as error:
        row, column = error.lineno or 1, max(error.offset or 1, 1)
        return Position(row, min(column, len(Text(text).line(row)) + 1)), error.msg
    except (RecursionError, MemoryError):
        return Position(1, 1), "an expression is nested too deeply"
    except ValueError as error:
        return Position(1, 1), str(error)
    return None


def unparsable(path: str, at: Position, reason: str) -> Finding:
    version = ".".join(platform.python_version_tuple()[:2])
    return Finding(
        code=UNPARSABLE.code,
        name=UNPARSABLE.name,
        group=UNPARSABLE.group,
        path=path,
        span=Span(at, at),
        message=f"Python {version} cannot read this file: {reason}",
    )


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


# ------------------------------------------------------------------------------------- judging


@dataclass(frozen=True)
class Seen:
    """What the rules said about one file."""

    findings: tuple[Finding, ...] = ()
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def look_at(path: str, program: Program, reading: Reading, rules: Sequence[Rule]) -> Seen:
    """Let the rules look at one file. What fails there is a problem of this file alone."""
    if path in reading.broken:
        return Seen(findings=(reading.broken[path],))
    if path not in reading.files:
        return Seen()
    try:
        judged = judge(
            path,
            reading.texts[path],
            reading.files[path].tree,
            program.answers(path),
            rules,
            reading.texts.get,
        )
    except Exception as error:
        return Seen(problems=(f"{path}: amplint failed on this file: {describe(error)}",))
    names = {rule.code: rule.name for rule in rules}
    problems = [
        f"{path}: the rule {code} {names.get(code, '')} failed: {text}"
        for code, text in judged.problems
    ]
    notices = [f"{path}: {notice}" for notice in judged.notices]
    return Seen(tuple(judged.findings), tuple(problems), tuple(notices))


def settle(
    path: str, seen: Seen, reading: Reading, rules: Sequence[Rule], request: Request
) -> Iterator[Finding]:
    """What is to be reported of what was seen in a file."""
    settings = request.settings
    file = request.project.root / path
    suppressions = Suppressions(reading.texts[path])
    findings = without_outranked(seen.findings, request.rules, settings)
    left = [finding for finding in findings if not suppressions.hide(finding)]
    if reading.complete and not (path in reading.broken or seen.problems or seen.notices):
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
