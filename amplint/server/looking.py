"""A look at the project around an open text: a run in which open texts stand for their files."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from amplint.ir.file_index import File
from amplint.project import discover
from amplint.project.config import Settings
from amplint.project.discover import Selection
from amplint.project.notebooks import SUFFIX, Notebook
from amplint.project.reading import text_of
from amplint.project.settings_hierarchy import ProjectRoots, SettingsHierarchy
from amplint.rule import registry
from amplint.run import engine
from amplint.run.cache import NAME, Cache
from amplint.run.linking import LiveLinker
from amplint.run.request import Request
from amplint.server.addresses import path_of
from amplint.server.messages import Answer, JudgedText, LogLine, Look, LookEnded, Open, Repaired
from amplint.server.showing import Showing
from amplint.util.errors import Failure, describe
from amplint.util.escaping import lines_without_controls
from amplint.util.paths import slashes
from amplint.util.text import UndecodableError

UNTITLED = "untitled"
# A cell of a notebook that an editor has opened as a text of its own, for it does not synchronise
# notebooks: without the other cells, and with magics, it is no program.
CELL = "vscode-notebook-cell:"


class SupersededError(BaseException):
    """The texts that are looked at are no longer those in the editor.

    It is no `Exception`, for it is nobody's fault: an analysis reports those, and goes on.
    """


@dataclass
class ProjectMemory:
    """All that is kept in memory of a project between two looks.

    Args:
        linker: has its values.
        indexed: its files, by path and text.
        readable: by path, the last text of an open file that Python could read.
    """

    linker: LiveLinker
    indexed: dict[tuple[str, str], File] = field(default_factory=dict)
    readable: dict[str, str] = field(default_factory=dict)

    def forget_old_texts(self) -> None:
        """Forget the files as they were before they were edited."""
        files = self.linker.files.items()
        current = {(path, file.text): file for path, file in files}
        self.indexed.clear()
        self.indexed.update(current)

    def can_be_read(self, path: str, text: str) -> bool:
        """Whether Python can read a text; if so, it is remembered, and indexed: to parse it once
        for this and once for the analysis took a sixth of the time of an edit of a large file."""
        if self.readable.get(path) != text:
            try:
                if path.endswith(SUFFIX):  # JSON; what is indexed of it is the module that it makes
                    ast.parse(text)
                else:
                    self.indexed[path, text] = File(path, text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return False
            self.readable[path] = text
        return True


@dataclass
class Looker:
    """Looks at projects. The one that was looked at last stays in memory.

    Args:
        check: raises SupersededError where nobody waits for the answer any more.
    """

    check: Callable[[], None] = lambda: None
    _group: str | None = None
    _memory: ProjectMemory = field(init=False)

    def look(self, look: Look) -> Iterator[Answer]:
        """The findings in a text, then those in the other open ones of its project, then the end.

        What goes wrong is reported. A text that was not judged is none of those that the end names.
        """
        done = [look.uri]
        try:
            for answer in self._looked(look):
                if isinstance(answer, JudgedText) and answer.uri != look.uri:
                    done.append(answer.uri)
                yield answer
        except SupersededError:
            done = []
        except Failure as error:
            yield log_line(look, error.message, True)
        except Exception as error:
            self._group = None  # what is kept may be the reason
            yield log_line(look, f"amplint failed on {look.uri}: {describe(error)}", True)
        yield LookEnded(look.number, done)

    def _looked(self, look: Look) -> Iterator[Answer]:
        opened = look.opened[look.uri]
        if look.uri.startswith(CELL):
            yield JudgedText(look.number, look.uri, [], {})
            return
        path = file_of(look.uri, opened)
        if not path:
            run = alone(opened)
            yield from self._judged(look, run, dict.fromkeys(run.selection.files, look.uri))
            return
        settings = SettingsHierarchy()
        projects = ProjectRoots(settings)
        group = group_of(path, projects)
        together = open_in(group, look.opened, projects)
        selection = discover.select([*together], settings, force_exclude=True, text_is_given=True)
        uris = {name_of(path, selection): uri for path, uri in together.items()}
        for name in uris.keys() - selection.reported:
            yield JudgedText(look.number, uris[name], [], {})
            yield Repaired(look.number, uris[name], {}, {})
        if group != self._group:
            self._group, self._memory = group, ProjectMemory(LiveLinker(self.check))
        memory = self._memory
        texts = {name: look.opened[uris[name]].text for name in selection.reported}
        refused = {name for name, text in texts.items() if not memory.can_be_read(name, text)}
        run = Request(
            selection,
            settings,
            registry.all_rules(),
            overlays_of(selection, texts),
            Cache(selection.root / NAME),
            memory.indexed,
            memory.linker,
        )
        first = next(name for name, uri in uris.items() if uri == look.uri)
        if first in refused:
            yield from self._judged(look, by_itself(run, first), uris)
            return
        # While a text cannot be read, somebody is typing. The others are judged as if it were what
        # it was before: without its functions, they would be shown what is not so.
        before = {name: memory.readable[name] for name in refused & memory.readable.keys()}
        overlays = {name: text for name, text in run.overlays.items() if name not in refused}
        reported = selection.reported - refused
        run = replace(
            run, selection=replace(selection, reported=reported), overlays={**overlays, **before}
        )
        yield from self._judged(look, run, uris)
        memory.forget_old_texts()

    def _judged(self, look: Look, run: Request, uris: Mapping[str, str]) -> Iterator[Answer]:
        """Judge the text that was asked for, then all others."""
        reported = run.selection.reported
        cells = {name: look.opened[uri].cells for name, uri in uris.items()}
        in_cells = {name: each for name, each in cells.items() if each is not None}
        first = frozenset(name for name in reported if uris[name] == look.uri)
        for names in (first, reported - first):
            if not names:
                continue
            self.check()
            part = replace(run, selection=replace(run.selection, reported=names))
            outcome = engine.run(part)
            showing = Showing(look.number, outcome, part, uris, in_cells, look.encoding)
            for name in sorted(names):
                yield showing.judged(name)
            yield from (log_line(look, one, True) for one in outcome.problems)
            yield from (log_line(look, one, False) for one in outcome.notices)
            for name in sorted(names):
                self.check()
                yield showing.repaired(name)


def log_line(look: Look, text: str, is_error: bool) -> LogLine:
    """A sentence for the log. Names of files may hold what no message carries."""
    return LogLine(look.number, lines_without_controls(text), is_error)


def file_of(uri: str, opened: Open) -> str:
    """The path of an open text; "" for one that is in no file yet."""
    path = path_of(uri)
    return path if opened.cells is None or path.endswith(SUFFIX) else ""


def group_of(path: str, projects: ProjectRoots) -> str:
    """The directory of the project of a file: the open texts with the same are looked at together.
    Raises ConfigError."""
    directory = discover.absolute(path).rpartition("/")[0]
    return projects.of(directory) or directory


def open_in(group: str, opened: Mapping[str, Open], projects: ProjectRoots) -> dict[str, str]:
    """The addresses of the open texts of a project, by path. Raises ConfigError."""
    return {
        path: uri
        for uri, each in opened.items()
        if (path := file_of(uri, each)) and group_of(path, projects) == group
    }


def by_itself(run: Request, name: str) -> Request:
    """The request to judge a file without the project around it."""
    selection = replace(run.selection, files=(name,), reported=frozenset({name}), whole=False)
    return replace(run, selection=selection, cache=None, indexed={}, linker=None)


def alone(opened: Open) -> Request:
    """The request to judge a text that is in no file."""
    name = UNTITLED + (".py" if opened.cells is None else SUFFIX)
    selection = replace(discover.lone_text(name), root=Path.home(), reported=frozenset({name}))
    return Request(selection, Settings(selection.root), registry.all_rules(), {name: opened.text})


def name_of(path: str, selection: Selection) -> str:
    """The path of a file relative to the root of its project."""
    return discover.relative(discover.absolute(path), slashes(str(selection.root)))


def overlays_of(selection: Selection, texts: Mapping[str, str]) -> dict[str, str]:
    """The texts that are not those of the files on disk.

    With none, a run is the same as that of `amplint check`, and the same cache serves both.
    """
    return {name: text for name, text in texts.items() if not is_on_disk(selection, name, text)}


def is_on_disk(selection: Selection, name: str, text: str) -> bool:
    """Whether a file holds this text."""
    try:
        on_disk = text_of(name, selection.root, {})
        return (on_disk.document if isinstance(on_disk, Notebook) else on_disk.text) == text
    except (OSError, UndecodableError):
        return False
