"""A run over a project: what was found before if nothing has changed since, else an analysis.

Nothing heavy is imported here: a run that is in the cache needs neither LibCST nor the rules.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from amplint.core.finding import Finding
from amplint.core.progress import SILENT, Progress
from amplint.core.text import Text
from amplint.project.config import Settings
from amplint.project.discover import Project
from amplint.project.reading import Reading, Texts, read
from amplint.run import cache as caching
from amplint.run.cache import Cache

if TYPE_CHECKING:
    from amplint.core.rule import Rule
    from amplint.ir.file_index import File
    from amplint.run.timing import Timing


@dataclass(frozen=True)
class Request:
    """What to do.

    Args:
        project: the files.
        settings: what the user wants reported.
        rules: all rules that exist.
        overlays: texts to take instead of those on disk, by root-relative path.
        cache: what was found before; None to find all of it now, and to keep nothing.
        indexed: files indexed in an earlier run of this request, so that the rounds of fixing read
            again only what they have changed.
        timing: to be filled in with what the run takes; None not to measure it.
        progress: to be told how far the run is.
    """

    project: Project
    settings: Settings
    rules: Sequence[Rule]
    overlays: Mapping[str, str] = field(default_factory=dict)
    cache: Cache | None = field(default=None, compare=False, repr=False)
    indexed: dict[tuple[str, str], File] = field(default_factory=dict, compare=False, repr=False)
    timing: Timing | None = field(default=None, compare=False, repr=False)
    progress: Progress = field(default=SILENT, compare=False, repr=False)


@dataclass(frozen=True)
class Told:
    """What an analysis has to say, as it is kept."""

    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    notices: tuple[str, ...]


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
    """Analyse the project and report on the files that were asked for.

    Raises ConfigError for settings that name a rule which does not exist.
    """
    project = request.project
    begun = time.process_time()
    reading = read(project, request.overlays, request.progress)
    if request.timing is not None:
        request.timing.read = time.process_time() - begun
        request.timing.files = len(reading.paths)
    # A text that is on no disk is not seen again: the rounds of fixing each have others.
    cache = request.cache if not request.overlays else None
    told = analysed(request, reading) if cache is None else remembered(request, cache, reading)
    noticed = dict.fromkeys(request.cache.notices) if request.cache is not None else ()
    return Outcome(
        root=project.root,
        findings=told.findings,
        problems=(*project.problems, *reading.problems, *told.problems),
        notices=(*project.notices, *told.notices, *noticed),
        files=tuple(sorted(project.reported)),
        texts=Texts(reading, project.reported),
    )


def remembered(request: Request, cache: Cache, reading: Reading) -> Told:
    """What the cache tells of the same run, else what an analysis tells."""
    key = key_of(request, reading)
    told = cache.get(key, Told)
    if told is None:
        told = analysed(request, reading)
        if not told.problems:
            cache.put(key, told)
    return told


def key_of(request: Request, reading: Reading) -> str:
    """The digest of all that decides what is found."""
    project = request.project
    return caching.key_of(
        "run",
        caching.environment(),
        request.settings.identity(project.root),
        {path: reading.digest(path) for path in reading.paths},
        sorted(project.reported.intersection(reading.paths)),
        [project.whole, len(project.files) == len(reading.paths)],
    )


def analysed(request: Request, reading: Reading) -> Told:
    from amplint.run.session import analyse  # noqa: PLC0415  (imports LibCST and all rules)

    return analyse(request, reading)
