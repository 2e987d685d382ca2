"""Requests to a run, and results: plain data that the other modules of a run share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from amplint.facts.limits import Limited
from amplint.findings.finding import Finding
from amplint.project.config import DEFAULT_SELECT, Configuration, Settings
from amplint.project.discover import Selection
from amplint.project.observations import ObservedFunction
from amplint.run.cache import Cache
from amplint.run.project import Project, projects_of
from amplint.run.public_functions import Offered
from amplint.util.paths import join, slashes
from amplint.util.progress import SILENT, Progress
from amplint.util.text import Text

if TYPE_CHECKING:
    from amplint.ir.file_index import File
    from amplint.rule.rule import Rule
    from amplint.run.linking import LiveLinker


@dataclass(frozen=True)
class Request:
    """The request to a run.

    Args:
        selection: the files.
        settings: what the user wants reported, of each file.
        rules: all rules that exist.
        overlays: what to take instead of what files hold, by root-relative path.
        cache: what was found before; None to find all of it now, and to keep nothing.
        indexed: files indexed in an earlier run of this request, so that the rounds of fixing read
            again only what they have changed.
        linker: knows the values of the files from earlier runs of this request, in memory.
        progress: informed how far the run is.
        jobs: how many processes may work on it; None for as many as there are processors.
        observed: what runs of the program have shown of functions, by id.
        is_second: whether it is the second of the two analyses under a mode: see `Assumption`.
        lasting: whether the texts of `overlays` are going to be on the disk, so that what is found
            in them is kept, too.
    """

    selection: Selection
    settings: Configuration
    rules: Sequence[Rule]
    overlays: Mapping[str, str] = field(default_factory=dict)
    cache: Cache | None = field(default=None, compare=False, repr=False)
    indexed: dict[tuple[str, str], File] = field(default_factory=dict, compare=False, repr=False)
    linker: LiveLinker | None = field(default=None, compare=False, repr=False)
    progress: Progress = field(default=SILENT, compare=False, repr=False)
    jobs: int | None = field(default=None, compare=False)
    lasting: bool = field(default=False, compare=False)
    observed: Mapping[str, ObservedFunction] = field(default_factory=dict, repr=False)
    is_second: bool = False

    @cached_property
    def projects(self) -> Mapping[str, Project]:
        """The projects of the files, by directory. Raises ConfigError."""
        return projects_of(self.selection, self.settings)

    def project_of(self, path: str) -> Project:
        """The project of a file. Raises ConfigError."""
        return self.projects[self.selection.home_of(path)]

    def settings_of(self, path: str) -> Settings:
        """The settings of a file. Raises ConfigError."""
        return self.settings.at(self.directory_of(path))

    def directory_of(self, path: str) -> str:
        """The directory of a file, in full."""
        return join(slashes(str(self.selection.root)), path).rpartition("/")[0]

    def settings_in_use(self) -> dict[Settings, list[str]]:
        """The settings of the files that are reported, and of which files; where there is no file,
        those of the root. Raises ConfigError."""
        by_settings: dict[Settings, list[str]] = {}
        for path in sorted(self.selection.reported):
            by_settings.setdefault(self.settings_of(path), []).append(path)
        return by_settings or {self.settings_of(""): []}

    def rules_of(self, settings: Settings) -> tuple[Rule, ...]:
        """The rules that judge files with these settings."""
        return tuple(
            rule for rule in settings.rules(self.rules) if rule.checks and settings.may_report(rule)
        )

    def rules_off(self, settings: Settings) -> tuple[Rule, ...]:
        """The rules that are off by default, and would judge files with these settings: none for
        settings that have chosen the rules themselves."""
        if settings.select != DEFAULT_SELECT:
            return ()
        return tuple(
            rule
            for rule in settings.rules(self.rules)
            if rule.checks and not settings.may_report(rule) and not settings.ignores(rule)
        )


@dataclass(frozen=True)
class AnalysisResult:
    """The result of an analysis, as the cache keeps it.

    Its problems are amplint's own, or else those of rules that other packages bring.
    `configurations`: the digest of the JSON files of the projects; empty where it rests on none.
    `off`: of each finding of a rule that is off by default, the path and the code.
    `offered`: the functions that users are assumed to call under a mode.
    """

    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    notices: tuple[str, ...]
    limited: Limited = field(default_factory=dict)
    blames_amplint: bool = False
    configurations: str = ""
    off: tuple[tuple[str, str], ...] = ()
    offered: Offered = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Args:
        root: the directory that paths are relative to.
        findings: what to report, by path and place.
        problems: what amplint could not do; with any, the exit status is 2.
        notices: to be shown; no exit status depends on them.
        files: the files that were asked for, sorted.
        texts: those of them that could be read.
        limited: the functions that reached a limit of the analysis.
        all_texts: those of all files of the project: a finding may name places in each.
        left_out: phrases that count the findings which are found and not reported.
        off: the path and the code of each finding of a rule that is off by default.
        offered: the functions that users are assumed to call under a mode.
        key: the digest of all that decides what is found; empty where nothing is kept.
    """

    root: Path
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    notices: tuple[str, ...]
    files: tuple[str, ...]
    texts: Mapping[str, Text]
    limited: Limited = field(default_factory=dict)
    all_texts: Mapping[str, Text] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    off: tuple[tuple[str, str], ...] = ()
    offered: Offered = field(default_factory=dict)
    key: str = field(default="", compare=False)

    @property
    def status(self) -> int:
        """The exit status: 2 for problems, else 1 for findings, else 0."""
        return 2 if self.problems else 1 if self.findings else 0
