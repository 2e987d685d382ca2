"""A line of an open text, explained as `amplint explain --at` does it: what is known of it, and why
rules say nothing there."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.output import inspection_text as page
from amplint.project import discover
from amplint.project.notebooks import Notebook
from amplint.project.reading import read
from amplint.project.settings_hierarchy import ProjectRoots, SettingsHierarchy
from amplint.rule import registry
from amplint.run.cache import NAME, Cache
from amplint.run.inspection import inspect, row_in
from amplint.run.request import Request
from amplint.server.addresses import uri_of
from amplint.server.looking import alone, file_of, group_of, name_of, open_in, overlays_of
from amplint.server.messages import Answer, Explain, Explained
from amplint.util.errors import Failure, describe
from amplint.util.escaping import lines_without_controls
from amplint.util.positions import Position
from amplint.util.text import Text, UndecodableError

FILE = "explained.txt"  # in the cache, one for each project


def explain(request: Explain) -> Iterator[Answer]:
    """The explanation. What goes wrong is one, too."""
    file = ""
    try:
        run, name = run_of(request)
        text = explained(request, run, name)
        written = run.cache.show(FILE, text) if run.cache is not None else None
        file = uri_of(written) if written is not None else ""
    except Failure as error:
        text = error.message
    except Exception as error:
        text = f"amplint failed on {request.uri}: {describe(error)}"
    yield Explained(request.number, lines_without_controls(text), file)


def run_of(request: Explain) -> tuple[Request, str]:
    """The run in which open texts stand for their files, and what it calls the text that is asked
    for. Raises Failure."""
    opened = request.opened[request.uri]
    path = file_of(request.uri, opened)
    if not path:
        run = alone(opened)
        return run, run.selection.files[0]
    settings = SettingsHierarchy()
    projects = ProjectRoots(settings)
    together = open_in(group_of(path, projects), request.opened, projects)
    selection = discover.select([*together], settings, force_exclude=True, text_is_given=True)
    uris = {name_of(other, selection): uri for other, uri in together.items()}
    texts = {name: request.opened[uris[name]].text for name in selection.reported}
    overlays = overlays_of(selection, texts)
    cache = Cache(selection.root / NAME)
    return Request(selection, settings, registry.all_rules(), overlays, cache), name_of(
        path, selection
    )


def explained(request: Explain, run: Request, name: str) -> str:
    """The explanation of a line. Raises Failure."""
    if name not in run.selection.reported:
        raise Failure(f"{name}: this file is excluded, by `exclude` or .gitignore")
    reading = read(run.selection, run.overlays)
    try:
        text = reading.text(name)
    except (KeyError, UndecodableError) as error:
        raise Failure(f"{name}: the text cannot be read: {describe(error)}") from error
    row = row_of(text, request)
    if row is None:
        raise Failure(f"{name}: there is no Python code in this line")
    return page.render(inspect(run, reading, name, row), reading)


def row_of(text: Text, request: Explain) -> int | None:
    """The row in a text, of a notebook in that of all its cells, that a line of the editor is."""
    cells = request.opened[request.uri].cells
    line = request.line + 1
    if not isinstance(text, Notebook):
        return row_in(text, line)
    if cells is not None:
        return row_in(text, cells.index(request.shown) + 1, line)
    # The JSON is open. The rows that mark the beginning of a cell stand nowhere in it.
    rows = (row for row in range(1, text.rows + 1) if row > text.part(row).above)
    return next((row for row in rows if text.in_file(Position(row, 1)).row == line), None)
