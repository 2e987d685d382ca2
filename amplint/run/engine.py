"""A run over a project: what was found before if nothing has changed since, else an analysis.

Nothing heavy is imported here: a run that is in the cache needs neither LibCST nor the rules.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from amplint.project import observations
from amplint.project.config import Settings
from amplint.project.configurations import Configurations
from amplint.project.reading import Reading, Texts, read
from amplint.run import cache as caching
from amplint.run import observation_findings
from amplint.run.cache import Cache
from amplint.run.joining import assumed, joined
from amplint.run.request import AnalysisResult, Outcome, Request
from amplint.util.errors import how_to_report
from amplint.util.paths import seen_from


def run(request: Request) -> Outcome:
    """Analyse the project and report on the files that were asked for.

    Raises ConfigError for settings that name a rule which does not exist.
    """
    reading = read(request.selection, request.overlays, request.progress)
    runs = observation_findings.observations_of(request)
    result, key = result_of_mode(request, reading)
    if runs.functions:
        again = observation_findings.with_observations(request, runs)
        other, key_of_other = result_of_mode(again, reading)
        mark = partial(observation_findings.marked, runs=runs)
        result, key = joined(result, other, mark), caching.key_of(key, key_of_other)
    result = replace(result, notices=(*result.notices, *runs.notices))
    return replace(outcome(request, reading, result), key=key)


def result_of_mode(request: Request, reading: Reading) -> tuple[AnalysisResult, str]:
    """The result of `result_of`; where the settings assume a mode, of two analyses: see
    `Assumption`."""
    result, key = result_of(request, reading)
    if all(project.settings.mode is None for project in request.projects.values()):
        return result, key
    linker = request.linker and request.linker.beside("second")
    other, key_of_other = result_of(replace(request, is_second=True, linker=linker), reading)
    mark = partial(assumed, request=request)
    return joined(result, other, mark), caching.key_of(key, key_of_other)


def result_of(request: Request, reading: Reading) -> tuple[AnalysisResult, str]:
    """The result of one analysis, from the cache if it is there, and the digest of all that decides
    about it; an empty one where nothing is kept."""
    # A text that is on no disk is not seen again, unless it is to be written. And who keeps values
    # in memory is about to have another text.
    lasts = request.lasting or not (request.overlays or request.linker)
    cache = request.cache if lasts else None
    if cache is None:
        return analysed(request, reading), ""
    key = key_of(request, reading)
    result = remembered(request, cache, reading, key)
    if result.configurations:
        key = caching.key_of("configured", key, result.configurations)
    return result, key


def outcome(request: Request, reading: Reading, result: AnalysisResult) -> Outcome:
    """The outcome of a run with this result."""
    selection = request.selection
    problems = [*selection.problems, *reading.problems, *dict.fromkeys(result.problems)]
    if result.blames_amplint:
        problems.append(how_to_report(repeating(result.problems, request, reading)))
    noticed = dict.fromkeys(request.cache.notices) if request.cache is not None else ()
    return Outcome(
        root=selection.root,
        findings=result.findings,
        problems=tuple(problems),
        notices=(*selection.notices, *result.notices, *noticed),
        files=tuple(sorted(selection.reported)),
        texts=Texts(reading, selection.reported),
        limited=result.limited,
        off=result.off,
        offered=result.offered,
        all_texts=Texts(reading, frozenset(reading.paths)),
    )


def repeating(faults: Sequence[str], request: Request, reading: Reading) -> str:
    """The command that brings up one of these faults again: they begin with what they are about."""
    about = (path for path in reading.paths if any(f.startswith(f"{path}:") for f in faults))
    path = seen_from(".", request.selection.root / next(about, "."))
    return f"amplint check --no-cache {shlex.quote(path)}"


def remembered(request: Request, cache: Cache, reading: Reading, key: str) -> AnalysisResult:
    """The result of the same run in the cache, or of a check of all files, else of an analysis."""
    result = recall(request, cache, key) or recall_from_all(request, cache, reading)
    if result is None and is_watched(request):
        result = recall(request, cache, key) or recall_from_all(request, cache, reading)
    if result is None:
        result = analysed(request, reading)
        if not result.problems:
            cache.put(key, result)
    return result


def recall(request: Request, cache: Cache, key: str) -> AnalysisResult | None:
    """The result in the cache, if nothing has changed since."""
    result = cache.get(key, AnalysisResult)
    if result is not None and result.configurations:
        now = Configurations(request.selection, request.settings).digest
        result = result if result.configurations == now else None
    return result


def recall_from_all(request: Request, cache: Cache, reading: Reading) -> AnalysisResult | None:
    """The findings in the files of this run from a check of all files of their project: a hook is
    given those of a commit, which its author has often checked with the rest just before."""
    selection = request.selection
    if selection.reported.issuperset(selection.files):
        return None
    of_all = whole(request)
    result = recall(of_all, cache, key_of(of_all, reading))
    if result is None or result.notices:  # these do not say which file each is about
        return None
    findings = (finding for finding in result.findings if finding.path in selection.reported)
    off = ((path, code) for path, code in result.off if path in selection.reported)
    return replace(result, findings=tuple(findings), off=tuple(off))


def is_watched(request: Request) -> bool:
    """Whether somebody who watches the whole project has checked it as it is now."""
    if request.linker is not None or request.overlays:
        return False
    from amplint.run import watched  # noqa: PLC0415  (sockets)

    request.progress.at("waiting for `check --watch`", lambda: (0, 1))
    return watched.is_checked(request.selection.root, analysis_of(whole(request)))


def whole(request: Request) -> Request:
    """A request about all files of the project of another."""
    selection = request.selection
    return replace(request, selection=replace(selection, reported=frozenset(selection.files)))


def key_of(request: Request, reading: Reading) -> str:
    """The digest of all that decides what is found."""
    selection = request.selection
    return caching.key_of(
        "run",
        analysis_of(request),
        {path: reading.digest(path) for path in reading.paths},
        sorted(selection.reported.intersection(reading.paths)),
        len(selection.files) == len(reading.paths),
    )


def analysis_of(request: Request) -> str:
    """The digest of all but the texts, and which of them there are, that decides what is found."""
    selection = request.selection
    return caching.key_of(
        "analysis",
        caching.environment(),
        caching.outside_rules(),
        identity(request),
        [selection.whole, selection.reported.issuperset(selection.files)],
        observations.digest_of(request.observed),
        request.is_second,
    )


def identity(request: Request) -> list[object]:
    """A key of the settings of all files, and of which are analysed together: both are the same for
    all files of a directory. It is the same wherever the root of the selection lies."""
    selection = request.selection
    files = {path.rpartition("/")[0]: path for path in selection.files}
    directories: dict[tuple[Settings, str], list[str]] = {}
    for directory, path in sorted(files.items()):
        key = request.settings_of(path), request.project_of(path).place
        directories.setdefault(key, []).append(directory)
    return [
        [settings.identity(selection.root), part, where]
        for (settings, part), where in directories.items()
    ]


def analysed(request: Request, reading: Reading) -> AnalysisResult:
    from amplint.run.session import analyse  # noqa: PLC0415  (imports LibCST and all rules)

    result = analyse(request, reading)
    return observation_findings.reached(result, request, reading) if request.observed else result
