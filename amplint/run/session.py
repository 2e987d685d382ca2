"""The analysis of a project: of each part, from the cache or anew; and what is reported of it."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from amplint.facts.limits import united
from amplint.findings.finding import Finding
from amplint.frameworks.configuration import StatedPrecision, stated_precisions
from amplint.frameworks.models import models_with
from amplint.ir.ast_cache import ROOM, TreeCache
from amplint.knowledge.vocabulary import TEST_PATH
from amplint.project.config import check_selectors
from amplint.project.configurations import Configurations
from amplint.project.notebooks import NotANotebookError
from amplint.project.reading import Reading
from amplint.rule.rule import Rule
from amplint.run.analysis import Analysed, Task, analyse_part
from amplint.run.file_result import FileResult
from amplint.run.filtering import Filter
from amplint.run.indexing import LEAST_KEPT, IndexStore
from amplint.run.kept_analyses import KeptAnalyses
from amplint.run.linking import Linker
from amplint.run.partition import divide
from amplint.run.project import Project
from amplint.run.request import AnalysisResult, Request
from amplint.run.unreadable import unparsable
from amplint.util.positions import Position
from amplint.util.process_pool import each, workers
from amplint.util.text import Text, TooLargeError, UndecodableError


def analyse(request: Request, reading: Reading) -> AnalysisResult:
    """The findings of the requested files.

    Raises ConfigError for settings that name a rule which does not exist.
    """
    for settings in request.settings_in_use():
        check_selectors(settings, request.rules)
    with warnings.catch_warnings(), without_collector():
        warnings.simplefilter("ignore")  # the parser's, about the code that is read
        texts, undecoded = decoded(reading)
        configurations = Configurations(request.selection, request.settings)
        tasks = tasks_of(request, reading, texts, configurations)
        parts = analyse_parts(tasks, request, reading)
        result = filtered(request, tasks, [*parts, undecoded])
        return replace(result, configurations=configurations.digest_if_read)


def tasks_of(
    request: Request, reading: Reading, texts: Mapping[str, Text], configurations: Configurations
) -> list[Task]:
    """The task for the files of each project, which are linked apart from all others."""
    store = store_of(request, reading, texts)
    return [
        Task(
            own,
            project,
            rules_of(request, project.reported),
            stated=stated_in(own, project, configurations),
            observed=request.observed,
            indexed=request.indexed,
            store=store,
            progress=request.progress,
            limits=request.lasting or request.linker is None,
            is_second=request.is_second,
        )
        for project in request.projects.values()
        for own in [{path: texts[path] for path in project.files if path in texts}]
    ]


def part_with(
    path: str, request: Request, reading: Reading, rules: Sequence[Rule]
) -> tuple[tuple[str, ...], Task]:
    """The files that a file is linked with, and the task for these. Raises KeyError for a file
    without a text."""
    texts, _ = decoded(reading)
    configurations = Configurations(request.selection, request.settings)
    tasks = tasks_of(request, reading, texts, configurations)
    task = next((task for task in tasks if path in task.texts), None)
    if task is None:
        raise KeyError(path)
    sizes = {path: len(text.text) for path, text in task.texts.items()}
    return next(part for part in divide(sizes) if path in part), replace(task, rules=rules)


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """No search for cyclic garbage: trees and graphs hold none, and are millions of objects that
    each search would visit (linking diffusers' models took 1.4 times as long with it)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


def decoded(reading: Reading) -> tuple[dict[str, Text], Analysed]:
    """The texts of the files that have one, and what is said of those whose bytes are none, and
    of cells of notebooks that are no Python."""
    texts: dict[str, Text] = {}
    results: dict[str, FileResult] = {}
    for path in reading.paths:
        try:
            texts[path] = reading.text(path)
        except TooLargeError as error:  # which Python reads: it is no mistake
            results[path] = FileResult(notices=(f"{path}: not checked: {error.reason}",))
        except UndecodableError as error:
            at = Position(error.row, error.column)
            what = "notebook" if isinstance(error, NotANotebookError) else "file"
            results[path] = FileResult(
                (unparsable(path, at, error.reason, what, remedy=error.remedy),)
            )
        else:
            refused = texts[path].refused
            if refused:
                cells = (unparsable(path, at, reason, "cell") for at, reason in refused)
                results[path] = FileResult(tuple(cells))
    return texts, Analysed(results, unread=frozenset(results))


def store_of(request: Request, reading: Reading, texts: Mapping[str, Text]) -> IndexStore | None:
    """Where the index of files is kept, if that pays."""
    if request.cache is None:
        return None
    size = sum(len(text.text) for text in texts.values())
    if size < LEAST_KEPT:
        return None
    return IndexStore(request.cache, reading.digest, request.overlays.keys())


def rules_of(request: Request, paths: Iterable[str]) -> list[Rule]:
    """The rules that are to judge any of these files, and those that are off by default: a report
    says how many findings they have."""
    in_use = {request.settings_of(path) for path in paths}
    codes = {
        rule.code
        for settings in in_use
        for rule in (*request.rules_of(settings), *request.rules_off(settings))
    }
    return [rule for rule in request.rules if rule.code in codes]


def filtered(request: Request, tasks: Sequence[Task], parts: Sequence[Analysed]) -> AnalysisResult:
    """The result to report, of all that was judged."""
    results: dict[str, FileResult] = {}
    for part in parts:
        for path in part.results.keys() & request.selection.reported:
            result = part.results[path]
            results[path] = results[path].joined(result) if path in results else result
    unread = frozenset(path for part in parts for path in part.unread)
    filters = {
        task.project: Filter(
            request,
            task.project,
            task.texts,
            task.rules,
            request.selection.whole and (task.texts.keys() - unread).issuperset(task.project.files),
        )
        for task in tasks
    }
    problems = [problem for part in parts for problem in part.problems]
    blames_amplint = bool(problems)
    findings: list[Finding] = []
    notices: list[str] = []
    off: list[tuple[str, str]] = []
    for path in sorted(results):
        result, reported = results[path], filters[request.project_of(path)]
        off += ((path, finding.code) for finding in reported.off(path, result))
        problems += result.problems
        blames_amplint |= bool(result.problems) and result.blames_amplint
        notices += result.notices
        findings += reported.findings(path, result)
    limited = united(part.limited for part in parts)
    offered = {name: row for part in parts for name, row in part.offered.items()}
    return AnalysisResult(
        tuple(findings),
        tuple(problems),
        tuple(notices),
        limited,
        blames_amplint,
        off=tuple(off),
        offered=offered,
    )


# ------------------------------------------------------------------------------------- parts


def analyse_parts(tasks: Sequence[Task], request: Request, reading: Reading) -> list[Analysed]:
    """Analyse the parts of projects in which findings were asked for."""
    sizes = {path: len(text.text) for task in tasks for path, text in task.texts.items()}
    divided = [
        (part, task, linker_of(task) if len(parts) == 1 else None)
        for task in tasks
        for parts in [divide({path: sizes[path] for path in task.texts})]
        for part in parts
    ]
    jobs = workers(request.jobs)
    if len(divided) == 1:
        # The whole project, of which something has changed: the cache was asked for it before.
        return [analyse_whole(*divided[0], request, reading, jobs)]
    tree_cache = TreeCache(ROOM)
    memories = {
        part: KeptAnalyses(replace(task, tree_cache=tree_cache, linker=disk), request, reading)
        for part, task, disk in divided
        if not task.project.reported.isdisjoint(part)
    }
    analyses = {part: memory.recall(part) for part, memory in memories.items()}
    missing = [part for part in memories if analyses[part] is None]
    at_once = max(min(jobs, len(missing)), 1)

    def work(part: tuple[str, ...]) -> Analysed:
        result = analyse_part(part, memories[part].task, max(jobs // at_once, 1))
        memories[part].keep(part, result)
        # What was asked of all other files is kept now: for all parts, it grows with their square.
        return replace(result, used=frozenset(), answers={})

    new_analyses = each(
        request.progress.noted("parts", work, missing),
        missing,
        [sum(sizes[path] for path in part) for part in missing],
        at_once,
    )
    analyses |= zip(missing, new_analyses, strict=True)
    return [result for result in analyses.values() if result is not None]


def analyse_whole(
    part: tuple[str, ...],
    task: Task,
    disk: Linker | None,
    request: Request,
    reading: Reading,
    jobs: int,
) -> Analysed:
    """Analyse a project that is one part, unless code has only moved in it."""
    linker = request.linker.over(disk) if request.linker is not None else disk
    task = replace(task, linker=linker)
    if disk is None or not (request.lasting or linker is disk):  # somebody asks for its values
        return analyse_part(part, task, jobs)
    memory = KeptAnalyses(task, request, reading)
    result = memory.recall(part)
    if result is None:
        result = analyse_part(part, task, jobs)
        if task.project.reported.issuperset(part):  # what a hook asks for keeps the rest
            memory.keep(part, result)
    return result


def linker_of(task: Task) -> Linker | None:
    """Links a project that is one part from what the cache keeps of it."""
    return Linker(task.store, task.project.place) if task.store is not None else None


def stated_in(
    texts: Mapping[str, Text], project: Project, configurations: Configurations
) -> tuple[StatedPrecision, ...]:
    """The precisions that the configuration files of a project ask of frameworks. JSON files are
    looked for only where the project names one that has such."""
    models = models_with(project.settings.texts_of_models)
    by_path = {path: text.text for path, text in texts.items() if not TEST_PATH.search(path)}
    if models.reads_json(by_path.values()):
        by_path |= configurations.texts(project.directory)
    return stated_precisions(models, by_path)
