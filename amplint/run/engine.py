"""A run over a project: what was found before if nothing has changed since, else an analysis.

Nothing heavy is imported here: a run that is in the cache needs neither LibCST nor the rules.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from amplint.project import observations
from amplint.project.config import Settings
from amplint.project.configurations import Configurations
from amplint.project.reading import Reading, Texts, read
from amplint.run import cache as caching
from amplint.run import observation_findings
from amplint.run.cache import Cache
from amplint.run.request import AnalysisResult, Outcome, Request
from amplint.util.errors import how_to_report
from amplint.util.paths import seen_from


def run(request: Request) -> Outcome:
    """Analyse the project and report on the files that were asked for.

    Raises ConfigError for settings that name a rule which does not exist.
    """
    reading = read(request.selection, request.overlays, request.progress)
    seen = observation_findings.found(request)
    told, key = told_of(request, reading)
    if seen.functions:
        again = observation_findings.with_observations(request, seen)
        other, key_of_other = told_of(again, reading)
        told, key = (
            observation_findings.joined(told, other, seen),
            caching.key_of(key, key_of_other),
        )
    told = replace(told, notices=(*told.notices, *seen.notices))
    return replace(outcome(request, reading, told), key=key)


def told_of(request: Request, reading: Reading) -> tuple[AnalysisResult, str]:
    """The result of one analysis, from the cache if it is there, and the digest of all that decides
    about it; an empty one where nothing is kept."""
    # A text that is on no disk is not seen again, unless it is to be written. And who keeps values
    # in memory is about to have another text.
    lasts = request.lasting or not (request.overlays or request.linker)
    cache = request.cache if lasts else None
    if cache is None:
        return analysed(request, reading), ""
    key = key_of(request, reading)
    told = remembered(request, cache, reading, key)
    if told.configurations:
        key = caching.key_of("configured", key, told.configurations)
    return told, key


def outcome(request: Request, reading: Reading, told: AnalysisResult) -> Outcome:
    """The outcome of a run with this result."""
    selection = request.selection
    problems = [*selection.problems, *reading.problems, *dict.fromkeys(told.problems)]
    if told.blames_amplint:
        problems.append(how_to_report(repeating(told.problems, request, reading)))
    noticed = dict.fromkeys(request.cache.notices) if request.cache is not None else ()
    return Outcome(
        root=selection.root,
        findings=told.findings,
        problems=tuple(problems),
        notices=(*selection.notices, *told.notices, *noticed),
        files=tuple(sorted(selection.reported)),
        texts=Texts(reading, selection.reported),
        limited=told.limited,
        off=told.off,
        all_texts=Texts(reading, frozenset(reading.paths)),
    )


def repeating(faults: Sequence[str], request: Request, reading: Reading) -> str:
    """The command that brings up one of these faults again: they begin with what they are about."""
    about = (path for path in reading.paths if any(f.startswith(f"{path}:") for f in faults))
    path = seen_from(".", request.selection.root / next(about, "."))
    return f"amplint check --no-cache {shlex.quote(path)}"


def remembered(request: Request, cache: Cache, reading: Reading, key: str) -> AnalysisResult:
    """The result of the same run in the cache, or of a check of all files, else of an analysis."""
    told = kept(request, cache, key) or kept_of_all(request, cache, reading)
    if told is None:
        told = analysed(request, reading)
        if not told.problems:
            cache.put(key, told)
    return told


def kept(request: Request, cache: Cache, key: str) -> AnalysisResult | None:
    """The result in the cache, if nothing has changed since."""
    told = cache.get(key, AnalysisResult)
    if told is not None and told.configurations:
        now = Configurations(request.selection, request.settings).digest
        told = told if told.configurations == now else None
    return told


def kept_of_all(request: Request, cache: Cache, reading: Reading) -> AnalysisResult | None:
    """The findings in the files of this run from a check of all files of their project: a hook is
    given those of a commit, which its author has often checked with the rest just before."""
    selection = request.selection
    every = frozenset(selection.files)
    if selection.reported >= every:
        return None
    of_all = replace(request, selection=replace(selection, reported=every))
    told = kept(of_all, cache, key_of(of_all, reading))
    if told is None or told.notices:  # these do not say which file each is about
        return None
    found = (finding for finding in told.findings if finding.path in selection.reported)
    off = ((path, code) for path, code in told.off if path in selection.reported)
    return replace(told, findings=tuple(found), off=tuple(off))


def key_of(request: Request, reading: Reading) -> str:
    """The digest of all that decides what is found."""
    selection = request.selection
    return caching.key_of(
        "run",
        caching.environment(),
        caching.outside_rules(),
        identity(request),
        {path: reading.digest(path) for path in reading.paths},
        sorted(selection.reported.intersection(reading.paths)),
        [selection.whole, len(selection.files) == len(reading.paths)],
        observations.digest_of(request.observed),
    )


def identity(request: Request) -> list[object]:
    """A key of the settings of all files, and of which are analysed together: both are the same for
    all files of a directory. It is the same wherever the root of the selection lies."""
    selection = request.selection
    files = {path.rpartition("/")[0]: path for path in selection.files}
    found: dict[tuple[Settings, str], list[str]] = {}
    for directory, path in sorted(files.items()):
        key = request.settings_of(path), request.project_of(path).place
        found.setdefault(key, []).append(directory)
    return [
        [settings.identity(selection.root), part, where]
        for (settings, part), where in found.items()
    ]


def analysed(request: Request, reading: Reading) -> AnalysisResult:
    from amplint.run.session import analyse  # noqa: PLC0415  (imports LibCST and all rules)

    result = analyse(request, reading)
    return observation_findings.reached(result, request, reading) if request.observed else result
