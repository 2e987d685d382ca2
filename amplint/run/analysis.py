"""The analysis of one part of a project: index its files, link them, let the rules judge."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from amplint.analyses.hotness import Hotness
from amplint.analyses.scaler_misuse import ScalerMisuse
from amplint.facts.limits import PATHS, Limited, united
from amplint.facts.program import Program
from amplint.facts.recorded_questions import NotedView, same
from amplint.findings.selectors import whole
from amplint.frameworks.configuration import StatedPrecision
from amplint.ir.ast_cache import TreeCache
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.project.observations import ObservedFunction
from amplint.rule.rule import Rule
from amplint.rule.search import CandidateSearch, KeptSearch, may_find
from amplint.run.file_result import FileResult
from amplint.run.indexing import Indexer, IndexStore
from amplint.run.judgements import Judgement, Judgements, judgements_of
from amplint.run.linking import Linking
from amplint.run.project import Project
from amplint.run.public_functions import Offered
from amplint.run.searches import Searches, search_in
from amplint.run.unreadable import why_unread
from amplint.util.errors import describe
from amplint.util.positions import Place, Span
from amplint.util.process_pool import spread
from amplint.util.progress import SILENT, Progress
from amplint.util.text import Text, span_in

Result = TypeVar("Result")

# Of a file that has not changed, candidates are looked for, and questions asked: a tenth of the
# work of judging it. Another process would make many of the answers once more.
KNOWN = 10

EVERY = 0.5  # seconds; Windows hands on Ctrl-C between two waits alone
DEEP_LIMIT = 50_000
DEEP_STACK = 512 * 1024 * 1024  # of address space; memory is taken as it is used


@dataclass(frozen=True)
class Analysed:
    """The result of analysing one part.

    Args:
        results: by path, of the files that were asked for.
        problems: sentences about what amplint could not do, beside those of single files.
        unread: its files that Python, or amplint, could not read.
        used: the files of other parts that it depends on besides.
        answers: to what it has asked of the texts of all others, as `Files.answers`.
        limited: its functions that reached a limit.
        offered: its functions that users are assumed to call under a mode.
    """

    results: Mapping[str, FileResult]
    problems: tuple[str, ...] = ()
    unread: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()
    answers: Mapping[tuple[str, str], Mapping[str, bool]] = field(default_factory=dict)
    limited: Limited = field(default_factory=dict)
    offered: Offered = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """The request to analyse a part.

    Args:
        texts: of all files of the project that have one, by path.
        rules: what is to judge its files.
        indexed: files that were indexed before, by path and text; what is indexed is added.
        tree_cache: where trees are kept for a while; without one, all are kept.
        store: the records of files that were indexed before; None to keep none.
        project: the project that the part is of.
        stated, observed: see `Files` (`told`).
        linker: knows the values of the files when they were linked last; None to keep none.
        progress: informed how far the analysis is.
        limits: whether it matters which functions have reached a limit on paths.
        is_second: whether it is the second of the two analyses under a mode: see `Assumption`.
    """

    texts: Mapping[str, Text]
    project: Project
    rules: Sequence[Rule]
    stated: tuple[StatedPrecision, ...] = ()
    observed: Mapping[str, ObservedFunction] = field(default_factory=dict)
    indexed: dict[tuple[str, str], File] = field(default_factory=dict)
    tree_cache: TreeCache | None = None
    store: IndexStore | None = None
    linker: Linking | None = None
    progress: Progress = SILENT
    limits: bool = True
    is_second: bool = False


@dataclass(frozen=True)
class IndexedPart:
    """The files of a part, read.

    Args:
        files: those that could be, with the others of the project.
        unread: what is said of those that Python, or amplint, could not read.
    """

    files: Files
    unread: Mapping[str, FileResult]


def index_part(part: Sequence[str], task: Task, processes: int = 1) -> IndexedPart:
    """Index the files of a part, in as many processes at most."""
    own: dict[str, File] = {}
    unread: dict[str, FileResult] = {}
    indexer = Indexer(task.texts, task.indexed, task.tree_cache, task.store, task.progress)
    indexer.prepare(part, processes)
    for path in part:
        # Read at the usual recursion limit, by which `ast.parse` decides what is nested too deeply.
        try:
            own[path] = indexer.file(path)
        except Exception as error:
            unread[path] = why_unread(path, task.texts[path].text, error)
    others = {path: text.text for path, text in task.texts.items() if path not in own}
    files = Files(
        own,
        {path: text for path, text in others.items() if path not in unread},
        indexer.another,
        task.project.settings.presumes(task.is_second),
        task.project.settings.texts_of_models,
        task.stated,
        task.observed,
    )
    return IndexedPart(files, unread)


def analyse_part(part: Sequence[str], task: Task, processes: int = 1) -> Analysed:
    """Analyse the files of a part, in as many processes at most."""
    gc.disable()  # see `session.without_collector`; the part before this one has enabled it
    indexed = index_part(part, task, processes)
    files, unread = indexed.files, indexed.unread
    refused = {path: unread[path] for path in unread.keys() & task.project.reported}
    try:
        linked = deeply(lambda: link_and_judge(files, task, processes))
    except Exception as error:
        linked = Analysed(
            {}, (f"{part[0]}: amplint failed on this part of the project: {describe(error)}",)
        )
    return replace(
        linked,
        results={**linked.results, **refused},
        unread=frozenset(unread),
        used=files.used,
        answers=files.answers,
    )


def link_and_judge(files: Files, task: Task, processes: int) -> Analysed:
    """The result for the files that could be read."""
    linker = task.linker
    program = (
        Program(files, task.progress, linker.link, linker.facts)
        if linker is not None
        else Program(files, task.progress)
    )
    program.facts[Hotness]  # nearly all rules ask for it: not once in each process
    widened = widened_in(program, task.rules) if task.limits else ()
    limited = united([program.limited, {PATHS: widened}])
    gc.freeze()  # what is linked stays; what the rules leave behind is to be found
    gc.enable()
    paths = [path for path in files.own if path in task.project.reported]
    candidates = CandidateSearch(files, program.facts, task.rules, may_find)
    failures = program.failures
    old_failures = set(failures)
    store = task.store if linker is not None else None
    judgements = judgements_of(store, task.rules, task.project.place, bool(task.observed))

    searches = None
    if judgements is not None and linker is not None:
        searches = Searches(judgements, linker, program.facts.inference)
    changed = linker.changed if linker is not None else None

    def weight(path: str) -> int:
        """How much work a file is: one that has not changed is judged as it was, mostly."""
        size = len(task.texts[path].text)
        is_unchanged = changed is not None and judgements is not None and path not in changed
        return size // KNOWN if is_unchanged else size

    def look(path: str) -> FileLook:
        sight = look_at(files.own[path], program, candidates, task, judgements, searches)
        # What an analysis has failed on since. (Another process may report the same.)
        new = [failure for failure in program.failures if failure not in old_failures]
        old_failures.update(new)
        if new:
            problems = (*sight.result.problems, *new)
            return FileLook(replace(sight.result, problems=problems, blames_amplint=True))
        return sight

    looked = spread(
        task.progress.counted("judging files", look, paths),
        paths,
        [weight(path) for path in paths],
        processes,
    )
    by_path = dict(zip(paths, looked, strict=True))
    if judgements is not None:
        new = {path: sight.judgement for path, sight in by_path.items() if sight.judgement}
        judgements.keep(new, task.texts)
    if searches is not None:
        searches.keep({path: sight.search for path, sight in by_path.items() if sight.search})
    return Analysed(
        {path: sight.result for path, sight in by_path.items()},
        tuple(failures),
        limited=limited,
        offered={f.id: f.location[0] for f in program.facts.inference.unseen.offered()},
    )


def widened_in(program: Program, rules: Sequence[Rule]) -> tuple[str, ...]:
    """The functions with more paths than were kept apart, if a rule asks what happens on them."""
    if not any(rule.violation for rule in rules):
        return ()
    try:
        return program.facts[ScalerMisuse].widened
    except Exception:  # the rules that ask for it report it
        return ()


class FileLook(NamedTuple):
    """A look at one file, and what is to be kept of it."""

    result: FileResult
    judgement: Judgement | None = None
    search: KeptSearch | None = None


def look_at(
    file: File,
    program: Program,
    candidates: CandidateSearch,
    task: Task,
    judgements: Judgements | None,
    searches: Searches | None,
) -> FileLook:
    """Let the rules look at one file, unless they would say what they have said before. What fails
    there is a problem of this file alone."""
    path, text = file.path, task.texts[file.path]

    def spans(place: Place) -> Span:
        return span_in(task.texts.get(place.path), place)

    try:
        searched = search_in(path, candidates, searches, spans)
        rows, file_candidates = searched.rows, searched.candidates
        if not rows:
            return FileLook(FileResult(), search=searched.new)
        judgement = judgements.recall(path, rows) if judgements is not None else None
        holds = judgement is not None and same(judgement.questions, program.facts, spans)
        if file_candidates is None and not holds:
            file_candidates = candidates.of(path)
        faults = file_candidates.faults if file_candidates is not None else {}
        # (Nobody has failed on a question, or on a condition of a candidate.)
        if judgement is not None and holds and not program.failures and not faults:
            result = FileResult(judgement.findings, notices=judgement.notices)
            return FileLook(result, search=searched.new)
        file_candidates = file_candidates or candidates.of(path)
        # LibCST comes with it, which nothing else needs.
        from amplint.run.judge import judge  # noqa: PLC0415

        keeps = judgements is not None and judgements.are_kept
        noted = NotedView(file, program.facts, spans) if keeps else None
        about, told_spans = (noted, noted.span) if noted else (program.about(path), spans)
        judged = judge(path, text, about, file_candidates, task.rules, told_spans)
    except Exception as error:
        fault = f"{path}: amplint failed on this file: {describe(error)}"
        return FileLook(FileResult(problems=(fault,)))
    names = {rule.code: whole(rule) for rule in task.rules}
    outside = {rule.code for rule in task.rules if rule.package}
    failed: dict[str, dict[str, None]] = {}  # each once: a check is run twice
    for code, problem in (*file_candidates.faults.items(), *judged.problems):
        failed.setdefault(code, {})[problem] = None
    problems = [f"{path}: amplint failed from {fault}" for fault in judged.faults]
    problems += [
        f"{path}: the rule {code} {names.get(code, '')} failed: {next(iter(texts))}"
        + (f" (and {len(texts) - 1} more in this file)" if len(texts) > 1 else "")
        for code, texts in failed.items()
    ]
    notices = tuple(f"{path}: {notice}" for notice in judged.notices)
    blames_amplint = bool(judged.faults) or not failed.keys() <= outside
    result = FileResult(judged.findings, tuple(problems), notices, blames_amplint)
    questions = noted.notes.questions if noted is not None else None
    if judgements is None or questions is None or problems or program.failures:
        return FileLook(result)
    digest = judgements.store.digest_of(path)
    new = Judgement(digest, rows, questions, judged.findings, notices)
    return FileLook(result, new, searched.new)


def deeply(work: Callable[[], Result]) -> Result:
    """Do the work where it may recurse as deeply as any expression that `ast.parse` accepts.

    That takes a thread, for only those can be given a larger stack; LibCST, which recurses in
    native code, would end the process on a small one.
    """
    results: list[Result] = []
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
        while thread.is_alive():
            thread.join(EVERY)
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(stack)
    if errors:
        raise errors[0]
    return results[0]
