"""Which files: what is reported are the paths named; what is analysed are the projects around them,
each for itself.

A directory is walked for `*.py`, `*.pyw` and `*.ipynb`, without what .gitignore, `exclude` and the
usual build and environment directories leave out. A file named by itself is read whatever it is
called, and also if it would have been left out. Links to directories are not followed in a walk, so
that a loop of links cannot hang it and no file is read twice, nor are links to files outside of the
project, for a report shows what it has read; a link that is named is followed.
"""

# Paths are strings here: `os.path` answers False where a directory may not be entered, `Path`
# raises, and a walk makes one for every file of a project.
# ruff: noqa: PTH100, PTH109, PTH110, PTH112, PTH113, PTH114, PTH120

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from amplint.project.config import ConfigError, Configuration
from amplint.project.patterns import spec
from amplint.project.places import Directories
from amplint.project.settings_hierarchy import ProjectRoots
from amplint.util import files
from amplint.util.errors import Failure
from amplint.util.paths import join, lies_in, seen_from, slashes, upward
from amplint.util.replacing import is_left, left_in

SUFFIXES = (".py", ".pyw", ".ipynb")
NEVER_ENTERED = frozenset({
    ".amplint_cache", ".bzr", ".direnv", ".eggs", ".git", ".hg", ".ipynb_checkpoints",
    ".mypy_cache", ".nox", ".pants.d", ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn",
    ".tox", ".venv", ".vscode", "__pycache__", "__pypackages__", "_build", "buck-out", "build",
    "dist", "node_modules", "site-packages", "venv",
})  # fmt: skip


@dataclass(frozen=True)
class Selection:
    """The files of a run; paths are relative to `root`, with forward slashes.

    Args:
        root: the directory that paths are relative to.
        files: all files to analyse, sorted.
        reported: those of them whose findings were asked for.
        homes: by file, the directory where its project begins, in full; files that are not in it
            lie in no project, and are analysed together.
        whole: whether `files` are all that belong together, as far as can be known.
        notices: things to be shown that change no exit status.
        problems: things that could not be done.
        leftovers: what processes have left beside files that were killed while they wrote.
    """

    root: Path
    files: tuple[str, ...]
    reported: frozenset[str]
    homes: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True
    notices: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    leftovers: frozenset[str] = frozenset()

    def home_of(self, path: str) -> str:
        """The directory of the project of a file; of one that lies in none, the root."""
        return self.homes.get(path) or slashes(str(self.root))


@dataclass(frozen=True)
class IgnoreFile:
    """The patterns that hold below one directory."""

    directory: str
    spec: pathspec.GitIgnoreSpec

    def verdict(self, path: str, is_directory: bool) -> bool | None:
        """True: left out; False: taken back by a `!` pattern; None: nothing is said."""
        if path == self.directory or not lies_in(path, self.directory):
            return None
        below = relative(path, self.directory)
        return self.spec.check_file(below + "/" * is_directory).include

    def without_those_for(self, directory: str) -> IgnoreFile:
        """The patterns of this file without those that leave out a directory."""
        below = relative(directory, self.directory) + "/"
        others = [one for one in self.spec.patterns if not (one.include and one.match_file(below))]
        return IgnoreFile(self.directory, pathspec.GitIgnoreSpec(others))


@dataclass
class Walked:
    """The result of a walk, all paths absolute with forward slashes.

    `outside`: links to files outside of the project.
    """

    files: list[str] = field(default_factory=list)
    links: set[str] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)


def select(
    paths: Sequence[Path | str],
    settings: Configuration,
    force_exclude: bool = False,
    text_is_given: bool = False,
) -> Selection:
    """Find the files to analyse and to report for the paths given on the command line.

    Args:
        paths: files and directories, as the user wrote them.
        settings: for `exclude` and `roots`.
        force_exclude: leave out also files that are named, if a walk would leave them out.
        text_is_given: the one path is a file whose text is known, be it on disk or not.
    """
    search = FileSearch(settings)
    named_files, named_directories, problems = told_apart(paths, text_is_given)
    if force_exclude:
        named_files = [file for file in named_files if not search.leaves_out(file)]
    walks = [search.walk(directory) for directory in named_directories]
    reported = {*named_files, *once(walks)}
    projects = {search.project_of(file) for file in reported} or {
        search.projects.of(directory) for directory in named_directories
    }
    roots = sorted(root for root in projects if root is not None)
    around = [search.walk(root, root) for root in roots]
    files = {*reported, *(file for one in around for file in one.files)}

    named = [*named_directories, *(os.path.dirname(file) for file in named_files), *roots]
    root = root_of(slashes(above_all(named) if named else os.getcwd()))
    for directory in sorted({place for one in walks for place in one.unreadable}):
        problems.append(f"{label(directory)}: the directory cannot be read")
    nothing = "no Python files were found, so there is nothing to check"
    notices = [nothing] if named_directories and not reported else []
    return Selection(
        root=root,
        files=tuple(sorted(relative(file, str(root)) for file in files)),
        reported=frozenset(relative(file, str(root)) for file in reported),
        homes={relative(file, str(root)): search.project_of(file) or "" for file in files},
        whole=(None not in projects or not named_files)
        and not any(one.unreadable for one in (*walks, *around)),
        notices=(*notices, *of_links(walks)),
        problems=tuple(problems),
        leftovers=frozenset(left_beside(named_files, [*walks, *around])),
    )


def told_apart(
    paths: Iterable[Path | str], text_is_given: bool
) -> tuple[list[str], list[str], list[str]]:
    """The files and the directories that are named, and what is wrong with names of nothing."""
    named_files: list[str] = []
    directories: list[str] = []
    problems: list[str] = []
    for path in paths:
        place = absolute(path)
        # A variable that is not set is no word for the current directory.
        if not path or (not text_is_given and not os.path.exists(place)):
            problems.append(f"{path or repr(path)}: there is no such file or directory")
        else:
            (directories if os.path.isdir(place) else named_files).append(place)
    return named_files, directories, problems


def of_links(walks: Iterable[Walked]) -> Iterator[str]:
    """The notice that links were not followed."""
    if outside := sorted({place for one in walks for place in one.outside}):
        yield (
            f"links that lead out of the project were not followed ({len(outside)}); to follow "
            f"one, name it: {label(outside[0])}"
        )


def above_all(directories: Sequence[str]) -> str:
    """The directory that all of these lie in. Raises Failure where none is, as on Windows."""
    try:
        return os.path.commonpath(directories)
    except ValueError:
        raise Failure("the paths are on several drives: run amplint once for each") from None


def left_beside(named_files: Iterable[str], walks: Sequence[Walked]) -> Iterator[str]:
    """The files that killed processes have left; one behind a link is written where it lies."""
    links = {link for one in walks for link in one.links}
    links.update(file for file in named_files if os.path.islink(file))
    written = {*named_files, *links} - links | {os.path.realpath(link) for link in links}
    for directory in {os.path.dirname(file) for file in written}:
        yield from left_in(directory)
    for one in walks:
        yield from one.leftovers


def lone_text(name: str) -> Selection:
    """The project of a text that belongs to no file."""
    return Selection(Path.cwd(), (name,), frozenset({name}), whole=False)


def root_of(path: str) -> Path:
    """The root of the project around a path, or the directory itself where there is none."""
    place = absolute(path)
    directory = slashes(place if os.path.isdir(place) else os.path.dirname(place))
    return Path(Directories().root(directory) or directory)


class FileSearch:
    """Finds Python files and notebooks.

    Args:
        settings: of the directories that are entered.
    """

    def __init__(self, settings: Configuration) -> None:
        self.projects = ProjectRoots(settings)
        self._settings = settings

    def project_of(self, file: str) -> str | None:
        """The directory of the project that a file belongs to."""
        return self.projects.of(slashes(os.path.dirname(file)))

    def walk(
        self, top: str, project: str | None = None, suffixes: tuple[str, ...] = SUFFIXES
    ) -> Walked:
        """All Python files and notebooks below `top`.

        Patterns from above that leave out `top` itself are not asked: it was named.

        Args:
            top: a directory.
            project: the project whose files are wanted: what belongs to others is not entered.
            suffixes: of the files that are wanted instead.
        """
        walked = Walked()
        pending = [(top, [one.without_those_for(top) for one in self._ignore_files_above(top)])]
        while pending:
            directory, ignores = pending.pop()
            try:
                with os.scandir(directory) as entries:
                    children = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                walked.unreadable.append(directory)
                continue
            settings = self._settings.at(directory)
            if self.projects.is_repository(directory) and directory != top:
                ignores = ignore_file(directory, ".git/info/exclude")  # those above are not its own
            ignores = [*ignores, *ignore_file(directory, ".gitignore")]
            for child in children:
                path = slashes(child.path)
                is_directory = child.is_dir(follow_symlinks=False)
                if is_directory and is_never_entered(path):
                    continue
                if not is_directory and not path.endswith(suffixes):
                    walked.leftovers += [path] if is_left(child.name) else []
                elif settings.excludes(path, is_directory) or is_ignored(
                    path, is_directory, ignores
                ):
                    continue
                elif not is_directory:
                    self._take(child, top, walked)
                elif project is None or not self._belongs_elsewhere(path, project):
                    pending.append((path, ignores))
        return walked

    def _take(self, entry: os.DirEntry[str], top: str, walked: Walked) -> None:
        """Add a file to what was walked below `top`, unless it is a link that leads out."""
        path = slashes(entry.path)
        if not os.path.isfile(path):
            return
        if entry.is_symlink():
            directory = slashes(os.path.dirname(path))
            if files.leads_out(path, self.projects.of(directory) or top):
                walked.outside.append(path)
                return
            walked.links.add(path)
        walked.files.append(path)

    def _belongs_elsewhere(self, directory: str, project: str) -> bool:
        """Whether a directory belongs to another project. (One whose settings cannot be read has
        them, and they are nobody else's business.)"""
        try:
            return self.projects.of(directory) != project
        except ConfigError:
            return True

    def leaves_out(self, file: str) -> bool:
        """Whether a walk from the top of its repository would not come upon this file."""
        directory = slashes(os.path.dirname(file))
        top = self.projects.top(directory) or directory
        ignores = self._ignore_files_above(top)
        *parents, _ = relative(file, top).split("/")
        directory = top
        for name in parents:
            ignores = [*ignores, *ignore_file(directory, ".gitignore")]
            below = join(directory, name)
            if (
                is_never_entered(below)
                or self._settings.at(directory).excludes(below, True)
                or is_ignored(below, True, ignores)
            ):
                return True
            directory = below
        ignores = [*ignores, *ignore_file(directory, ".gitignore")]
        return self._settings.at(directory).excludes(file, False) or is_ignored(
            file, False, ignores
        )

    def _ignore_files_above(self, directory: str) -> list[IgnoreFile]:
        """The ignore files above a directory, outermost first, from the top of its repository."""
        top = self.projects.top(directory) or directory
        ignores = ignore_file(top, ".git/info/exclude")
        inside = [up for up in upward(directory) if up != directory and lies_in(up, top)]
        for up in reversed(inside):
            ignores += ignore_file(up, ".gitignore")
        return ignores


def once(walks: Iterable[Walked]) -> Iterator[str]:
    """The files walked, without links to files that were walked under their own name."""
    walks = list(walks)
    plain = {file for one in walks for file in one.files if file not in one.links}
    real = (
        {slashes(os.path.realpath(file)) for file in plain} if any(w.links for w in walks) else ()
    )
    yield from plain
    for one in walks:
        for link in one.links:
            if slashes(os.path.realpath(link)) not in real:
                yield link


def is_never_entered(directory: str) -> bool:
    """Whether the directory is one of tools or builds, or a virtual environment of any name."""
    name = directory.rpartition("/")[2]
    return name in NEVER_ENTERED or os.path.isfile(f"{directory}/pyvenv.cfg")


def is_ignored(path: str, is_directory: bool, rules: Sequence[IgnoreFile]) -> bool:
    """The answer of the deepest ignore file that matches the path."""
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_directory)
        if verdict is not None:
            return verdict
    return False


def ignore_file(directory: str, name: str) -> list[IgnoreFile]:
    """The patterns in this file for what is below `directory`; nothing if there is no such file."""
    try:
        content = files.read(join(directory, name), files.MOST_OF_SETTINGS)
    except OSError:
        return []
    written = io.StringIO(content.decode("utf-8", "replace"), newline=None)
    return [IgnoreFile(directory, spec(written))]


def absolute(path: Path | str) -> str:
    """The path from the root of the file system, links kept."""
    return slashes(os.path.abspath(path))


def relative(path: str, root: str) -> str:
    return path[len(root.rstrip("/")) + 1 :]


def label(path: str) -> str:
    """The path as the user would write it."""
    return seen_from(".", path)
