"""Which settings hold for a file, and which files are analysed together with it.

Both follow from where the file lies, and from nothing else: not from the directory that a run is
started in, nor from the paths that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from amplint.project.config import (
    ADDED,
    AND_COMMAND_LINE,
    COMMAND_LINE,
    INLINE,
    NOTHING,
    PATTERNS,
    TOOL,
    ConfigError,
    Configuration,
    Settings,
    WrittenSettings,
    misspelled_table,
    parse,
    table_of,
    written_in,
)
from amplint.project.places import OWN_FILES, PYPROJECT, Directories
from amplint.project.torch_floor import ANY, Floor, TorchFloors
from amplint.util import files
from amplint.util.paths import inherited, join, lies_in, parent_of, slashes, upward

NO_FILE = Path()


class SettingsHierarchy:
    """The settings of every file: those of the nearest file of settings upward, with the options of
    the command line over them, and the lowest torch that its own project allows.

    Args:
        options: settings of the command line, by key; each replaces the same key of a file, or is
            added to a key (`ADDED`).
        config: a file whose settings hold for all files, instead of those nearest to them.
        inline: settings of the command line that are written as in a file; `options` are over them.
        start: what patterns are relative to for files that lie in no project; None for their own
            directory.
    """

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        config: Path | None = None,
        start: Path | None = None,
        inline: Mapping[str, object] | None = None,
    ) -> None:
        self._inline = inline or {}
        self._options = {key: value for key, value in (options or {}).items() if key not in ADDED}
        self._added = {ADDED[key]: value for key, value in (options or {}).items() if key in ADDED}
        self.notices: list[str] = []  # on files that were looked at for settings
        self._config = config
        self._start = start
        self._places = Directories()
        self._floors = TorchFloors(self._places)
        self._nearest: dict[str, Path] = {}
        self._written: dict[Path, WrittenSettings] = {}
        self._at: dict[str, Settings] = {}
        self._all: dict[SettingsKey, Settings] = {}

    def at(self, directory: str) -> Settings:
        """The settings of the files in a directory, which is given in full, with forward slashes.
        Raises ConfigError."""
        settings = self._at.get(directory)
        if settings is None:
            settings = self._at[directory] = self._of(self._key(directory))
        return settings

    def _key(self, directory: str) -> SettingsKey:
        """All that the settings of a directory are made of."""
        file = self._config or self._nearest_file(directory)
        if file is not None and self._config is None:
            root = file.parent
        else:
            root = Path(self._places.root(directory) or self._start or directory)
        return SettingsKey(file, root, self._floor(directory, file))

    def _of(self, key: SettingsKey) -> Settings:
        if key not in self._all:
            written = self._settings_in(key.file)
            values = {**written.values, **self._overrides}
            for field_name, more in self._more.items():
                # Both are lists of words, which mypy cannot follow.
                values[field_name] = (*values.get(field_name, ()), *more)  # type: ignore[misc]
            if key.floor is not None:
                values["target_torch"] = None
            bases = {
                each: file.parent.absolute()
                for each, file in written.origins.items()
                if each in PATTERNS and each not in self._own and file != key.file
            }
            origins = {each: str(file) for each, file in written.origins.items()}
            origins |= self._own
            for each in self._added.keys() - self._own.keys():
                there = each in origins
                origins[each] = origins[each] + AND_COMMAND_LINE if there else COMMAND_LINE
            # `parse` has checked each value against its key, which mypy cannot follow.
            self._all[key] = Settings(
                key.root.absolute(),
                config=key.file,
                bases=tuple(bases.items()),
                origins=tuple(origins.items()),
                torch_floor=key.floor,
                **values,  # type: ignore[arg-type]
            )
        return self._all[key]

    @cached_property
    def _own(self) -> dict[str, str]:
        """The keys that the command line has values for, and how it was given them."""
        return dict.fromkeys(self._inline, INLINE) | dict.fromkeys(self._options, COMMAND_LINE)

    @cached_property
    def _overrides(self) -> dict[str, object]:
        inline = parse(self._inline, INLINE, Path())
        return {**inline, **parse(self._options, COMMAND_LINE, Path())}

    @cached_property
    def _more(self) -> dict[str, object]:
        """The values that the command line adds to those of keys."""
        return parse(self._added, COMMAND_LINE, Path())

    def _settings_in(self, file: Path | None) -> WrittenSettings:
        if file is None:
            return NOTHING
        if file not in self._written:
            self._written[file] = written_in(file)
        return self._written[file]

    def _floor(self, directory: str, file: Path | None) -> Floor | None:
        """The lowest torch by the requirements of the project around a directory, if these count:
        a `target-torch` of the same project does, one of a project around it does not."""
        if "target-torch" in self._own:
            return None
        origin = self._settings_in(file).origins.get("target-torch")
        if origin is None:
            return self._floors.of(directory)
        start = self._floors.start(directory)
        if start is None or file == self._config:
            return None
        floor = self._floors.of(directory)
        says_lowest = floor is not None and floor.version != ANY
        is_of_project = lies_in(slashes(str(origin.parent)), start)
        return floor if says_lowest and not is_of_project else None

    def _nearest_file(self, directory: str) -> Path | None:
        file = inherited(directory, self._nearest, self._file_in, NO_FILE)
        return file if file is not NO_FILE else None

    def _file_in(self, directory: str) -> Path | None:
        """The file in a directory that has settings."""
        for name in OWN_FILES:
            if self._places.has_file(directory, name):
                return Path(directory, name)
        if not self._places.has_file(directory, PYPROJECT):
            return None
        file = Path(directory, PYPROJECT)
        try:
            if slip := misspelled_table(file):
                self.notices.append(
                    f"{file}: [tool.{slip}] is not read; amplint reads [tool.{TOOL}]"
                )
            return None if table_of(file) is None else file
        except ConfigError:
            if self._is_a_template(directory):
                return None
            raise

    def _is_a_template(self, directory: str) -> bool:
        """Whether a pyproject.toml that cannot be read is none of this project: of a template, say,
        or of a test, within a project and without a word about amplint."""
        parent = parent_of(directory)
        if parent is None or self._places.root(parent) is None:
            return False
        try:
            return b"amplint" not in files.read(join(directory, PYPROJECT), files.MOST_OF_SETTINGS)
        except OSError:
            return False


@dataclass(frozen=True)
class SettingsKey:
    """All that settings are made of, beside the command line.

    Args:
        file: where they stand.
        root: what their patterns are relative to.
        floor: the lowest torch, where requirements say it.
    """

    file: Path | None
    root: Path
    floor: Floor | None


class ProjectRoots:
    """Which files are analysed together.

    Args:
        configuration: has the settings of files.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._places = Directories()
        self._projects: dict[str, str | None] = {}

    def of(self, directory: str) -> str | None:
        """The directory of the project that the files of a directory belong to; None where they
        belong to none. Raises ConfigError.

        It is the nearest one upward where a project begins, unless the settings that hold there
        have `roots`: then these decide.
        """
        if directory not in self._projects:
            start = self._places.root(directory)
            settings = self._configuration.at(start or directory)
            self._projects[directory] = settings.root_of(directory) or start
        return self._projects[directory]

    def root(self, directory: str) -> str | None:
        """The nearest directory upward where a project begins."""
        return self._places.root(directory)

    def top(self, directory: str) -> str | None:
        """The top of the repository that a directory lies in; where there is none, the uppermost
        directory where a project begins."""
        repository = next(filter(self.is_repository, upward(directory)), None)
        return repository or self._places.uppermost(directory)

    def is_repository(self, directory: str) -> bool:
        """Whether a directory is the top of a repository of git."""
        return ".git" in self._places.names(directory)
