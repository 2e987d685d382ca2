"""The projects of a run: which files are analysed together, and what holds for them as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from amplint.project.config import Configuration, Settings
from amplint.project.discover import Selection
from amplint.util.paths import seen_from, slashes


@dataclass(frozen=True)
class Project:
    """One project of a run. Its files are analysed together, and apart from all others.

    Args:
        directory: where it begins, in full; for files that lie in no project, the root of the run.
        place: the directory as seen from the root of the run.
        settings: those of its directory, which hold for it as a whole: `assume-autocast`,
            `models`, `observations`. The settings of rules are those of each file.
        files: all of its files, in the order of the run.
        reported: those of them whose findings were asked for.
    """

    directory: str
    place: str
    settings: Settings = field(compare=False)
    files: tuple[str, ...] = field(compare=False)
    reported: frozenset[str] = field(compare=False)

    @property
    def prefix(self) -> str:
        """The beginning that the paths of its files have in the run, and not in the project."""
        return f"{self.place}/" if self.place != "." else ""


def projects_of(selection: Selection, configuration: Configuration) -> dict[str, Project]:
    """The projects of a run by directory: at least one, which has no files where there are none.

    Raises ConfigError.
    """
    root = slashes(str(selection.root))
    files: dict[str, list[str]] = {}
    for path in selection.files:
        files.setdefault(selection.home_of(path), []).append(path)
    return {
        directory: Project(
            directory,
            seen_from(root, directory),
            configuration.at(directory),
            tuple(paths),
            selection.reported.intersection(paths),
        )
        for directory, paths in (files or {root: []}).items()
    }
