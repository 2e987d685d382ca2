"""A dialogue with the language server, by a client that starts it as an editor does."""

from __future__ import annotations

import ast
import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("pytest_lsp")

import pytest_asyncio
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient

pytestmark = pytest.mark.asyncio

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30.0

TRAIN = """\
import torch

from helpers import total


def train(model, loader, optimizer):
    running = 0.0
    for batch in loader:
        loss = total(model(batch.cuda()))
        loss.backward()
        optimizer.step()
        {read}
    return running
"""
WAITS = TRAIN.format(read="running += loss.item()  # 😀")
QUIET = TRAIN.format(read="running += loss.detach()  # 😀")
HELPERS = "def total(losses):\n    return losses.mean()\n"


@pytest_lsp.fixture(
    config=ClientServerConfig(
        server_command=[sys.executable, "-m", "amplint", "server"],
        server_env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
)
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
    yield
    await lsp_client.shutdown_session()


class Editor:
    """A client with a project that lies in a directory."""

    def __init__(self, client: LanguageClient, root: Path) -> None:
        self.client = client
        self.root = root
        self.versions: dict[str, int] = {}

    async def begin(self, encodings: Sequence[str] | None = None) -> types.InitializeResult:
        kinds = [types.PositionEncodingKind(each) for each in encodings or ()]
        general = types.GeneralClientCapabilities(position_encodings=kinds) if kinds else None
        cells = types.NotebookDocumentSyncClientCapabilities()
        capabilities = types.ClientCapabilities(
            general=general, notebook_document=types.NotebookDocumentClientCapabilities(cells)
        )
        folder = types.WorkspaceFolder(self.root.as_uri(), "project")
        return await self.client.initialize_session(
            types.InitializeParams(capabilities, workspace_folders=[folder])
        )

    def uri(self, name: str) -> str:
        return name if name.startswith(("untitled:", "cell:")) else (self.root / name).as_uri()

    async def logged(self, text: str) -> None:
        """Wait until the server has written a text into the log."""
        await until(lambda: any(text in each.message for each in self.client.log_messages))

    def open(self, name: str, text: str) -> None:
        uri = self.uri(name)
        self.versions[uri] = 1
        document = types.TextDocumentItem(uri, "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))

    def change(self, name: str, *changes: types.TextDocumentContentChangeEvent) -> None:
        uri = self.uri(name)
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))

    def write(self, name: str, text: str) -> None:
        self.change(name, types.TextDocumentContentChangeWholeDocument(text))

    def open_notebook(self, name: str, **cells: str) -> None:
        kinds = types.NotebookCellKind
        listed = [types.NotebookCell(kinds.Code, self.uri(f"cell:{cell}")) for cell in cells]
        notebook = types.NotebookDocument(self.uri(name), "jupyter-notebook", 1, listed)
        texts = [self.cell(cell, text) for cell, text in cells.items()]
        self.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(notebook, texts))

    def cell(self, name: str, text: str, language: str = "python") -> types.TextDocumentItem:
        uri = self.uri(f"cell:{name}")
        self.versions[uri] = 1
        return types.TextDocumentItem(uri, language, 1, text)

    def change_cells(
        self,
        name: str,
        start: int = 0,
        removed: int = 0,
        cells: Sequence[str] = (),
        opened: Sequence[types.TextDocumentItem] = (),
        closed: Sequence[str] = (),
        **texts: str,
    ) -> None:
        """Change a notebook as VS Code does; its version stays, as an editor's may."""
        array = types.NotebookCellArrayChange(
            start,
            removed,
            [
                types.NotebookCell(types.NotebookCellKind.Code, self.uri(f"cell:{cell}"))
                for cell in cells
            ],
        )
        structure = types.NotebookDocumentCellChangeStructure(
            array,
            opened,
            [types.TextDocumentIdentifier(self.uri(f"cell:{cell}")) for cell in closed],
        )
        content = []
        for cell, text in texts.items():
            uri = self.uri(f"cell:{cell}")
            self.versions[uri] += 1
            content.append(
                types.NotebookDocumentCellContentChanges(
                    types.VersionedTextDocumentIdentifier(self.versions[uri], uri),
                    [types.TextDocumentContentChangeWholeDocument(text)],
                )
            )
        change = types.NotebookDocumentCellChanges(
            structure if removed or cells else None, text_content=content
        )
        self.client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(1, self.uri(name)),
                types.NotebookDocumentChangeEvent(cells=change),
            )
        )

    async def finding(self, name: str, code: str) -> types.Diagnostic:
        """The only finding of a file, once it is that of this rule."""
        await self.codes(name, has(code))
        [found] = self.client.diagnostics[self.uri(name)]
        return found

    async def codes(self, name: str, wanted: Callable[[list[str]], bool]) -> list[str]:
        """The codes of the diagnostics of a file, once they are as they should be."""
        found: list[str] = []
        for _ in range(int(SECONDS / 0.05)):
            diagnostics = self.client.diagnostics.get(self.uri(name))
            if diagnostics is not None:
                found = [str(each.code) for each in diagnostics]
                if wanted(found):
                    return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"{name} has {found}; {[m.message for m in self.client.log_messages]}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    tmp_path.joinpath("pyproject.toml").write_text("[tool.amplint]\n")
    (tmp_path / "requirements.txt").write_text("torch>=2.4")
    tmp_path.joinpath("train.py").write_text(QUIET, encoding="utf-8")
    tmp_path.joinpath("helpers.py").write_text(HELPERS)
    return tmp_path


@pytest_asyncio.fixture
async def editor(client: LanguageClient, project: Path) -> Editor:
    """One that has begun."""
    made = Editor(client, project)
    await made.begin()
    return made


def has(code: str) -> Callable[[list[str]], bool]:
    return lambda found: code in found


def is_empty(found: list[str]) -> bool:
    return not found


async def test_unsaved_text_is_judged(editor: Editor) -> None:
    editor.open("train.py", QUIET)
    await editor.codes("train.py", is_empty)
    editor.write("train.py", WAITS)
    await editor.codes("train.py", has("AMP101"))
    editor.write("train.py", QUIET)
    await editor.codes("train.py", is_empty)
    assert editor.root.joinpath("train.py").read_text(encoding="utf-8") == QUIET


async def test_a_fact_of_another_unsaved_file_counts(editor: Editor) -> None:
    editor.open("train.py", QUIET)
    editor.open("helpers.py", HELPERS)
    await editor.codes("helpers.py", is_empty)
    await editor.codes("train.py", is_empty)
    # It is called in the loop of the other file, on a tensor of the device.
    editor.write("helpers.py", "def total(losses):\n    print(losses.item())\n    return losses\n")
    finding = await editor.finding("helpers.py", "AMP101")
    assert editor.uri("train.py") in {
        related.location.uri for related in finding.related_information or ()
    }
    editor.write("train.py", "from helpers import total\n")
    await editor.codes("train.py", is_empty)
    await editor.codes("helpers.py", is_empty)


@pytest.mark.parametrize(
    ("encodings", "columns"),
    [
        (None, (20, 31)),
        (["utf-16"], (20, 31)),
        (["utf-8", "utf-16"], (22, 33)),
        (["utf-32"], (19, 30)),
    ],
)
async def test_places_are_counted_as_the_editor_counts(
    encodings: list[str] | None, columns: tuple[int, int], client: LanguageClient, project: Path
) -> None:
    text = TRAIN.format(read='print("😀", loss.item())')
    editor = Editor(client, project)
    found = await editor.begin(encodings)
    assert found.capabilities.position_encoding == (encodings or ["utf-16"])[0]
    editor.open("train.py", text)
    finding = await editor.finding("train.py", "AMP101")
    assert finding.range.start.line == finding.range.end.line == 11
    assert (finding.range.start.character, finding.range.end.character) == columns


async def test_edits_of_ranges(editor: Editor) -> None:
    """Behind a character of two units, and behind a form feed, which ends no line."""
    text = TRAIN.format(read='note("😀 \f", loss.detach())')
    editor.open("train.py", text)
    await editor.codes("train.py", is_empty)
    at = 'note("😀 \f", loss.'
    start = 8 + len(at) + 1
    here = types.Range(types.Position(11, start), types.Position(11, start + len("detach")))
    editor.change("train.py", types.TextDocumentContentChangePartial(here, "item"))
    finding = await editor.finding("train.py", "AMP101")
    assert "loss.item()" in finding.message


async def actions(
    editor: Editor, name: str, only: list[str] | None = None
) -> list[types.CodeAction]:
    everywhere = types.Range(types.Position(0, 0), types.Position(1000, 0))
    document = types.TextDocumentIdentifier(editor.uri(name))
    kinds = [types.CodeActionKind(kind) if kind == "quickfix" else kind for kind in only or ()]
    context = types.CodeActionContext([], only=kinds if only else None)
    found = await editor.client.text_document_code_action_async(
        types.CodeActionParams(document, everywhere, context)
    )
    return [action for action in found or () if isinstance(action, types.CodeAction)]


def after(text: str, action: types.CodeAction) -> str:
    """The text once an editor has made the edits of an action."""
    assert action.edit is not None and action.edit.document_changes is not None
    [change] = action.edit.document_changes
    assert isinstance(change, types.TextDocumentEdit)
    return edited(text, change)


def edited(text: str, change: types.TextDocumentEdit) -> str:
    lines = text.splitlines(keepends=True)
    offsets = [0, *itertools.accumulate(map(len, lines))]
    for edit in sorted(change.edits, key=lambda edit: -edit.range.start.line):
        assert isinstance(edit, types.TextEdit)
        start = offsets[edit.range.start.line] + edit.range.start.character
        end = offsets[edit.range.end.line] + edit.range.end.character
        text = text[:start] + edit.new_text + text[end:]
    return text


LEGACY = """\
from torch.cuda.amp import GradScaler

scaler = GradScaler()
"""


async def test_fixes_are_offered_with_their_safety(editor: Editor) -> None:
    editor.open("legacy.py", LEGACY)
    found = await editor.finding("legacy.py", "AMP702")
    assert list(found.tags or ()) == [types.DiagnosticTag.Deprecated]
    assert found.severity == types.DiagnosticSeverity.Warning
    [everything] = await actions(editor, "legacy.py", ["source.fixAll"])
    assert everything.title == "Fix all safe amplint problems"
    assert everything.kind == "source.fixAll.amplint"
    [fix] = await actions(editor, "legacy.py", ["quickfix"])
    assert "AMP702, safe" in fix.title and fix.is_preferred
    assert await actions(editor, "legacy.py", ["refactor"]) == []
    assert len(await actions(editor, "legacy.py")) == 2
    fixed = after(LEGACY, everything)
    assert fixed == after(LEGACY, fix)
    # The import changes, too, as with `amplint fix`.
    assert fixed == 'from torch.amp import GradScaler\n\nscaler = GradScaler("cuda")\n'
    editor.write("legacy.py", fixed)
    await editor.codes("legacy.py", is_empty)


async def test_the_page_of_a_rule(editor: Editor) -> None:
    editor.open("train.py", WAITS)
    await editor.codes("train.py", has("AMP101"))
    document = types.TextDocumentIdentifier(editor.uri("train.py"))
    shown = await editor.client.text_document_hover_async(
        types.HoverParams(document, types.Position(11, 22))
    )
    assert shown is not None and isinstance(shown.contents, types.MarkupContent)
    assert shown.contents.kind == types.MarkupKind.Markdown
    assert "AMP101 host-read-in-hot-path" in shown.contents.value
    assert "Fix safety:" in shown.contents.value
    assert not await editor.client.text_document_hover_async(
        types.HoverParams(document, types.Position(0, 0))
    )


async def explain(editor: Editor, name: str, line: int) -> str:
    """Run the action that explains a line; its title."""
    here = types.Position(line, 2)
    found = await editor.client.text_document_code_action_async(
        types.CodeActionParams(
            types.TextDocumentIdentifier(editor.uri(name)),
            types.Range(here, here),
            types.CodeActionContext([], only=["source.explainLine"]),
        )
    )
    [action] = found or ()
    # The client's library takes an action that has a command for a command, and the one in it for
    # its name.
    assert isinstance(action, types.Command)
    command = ast.literal_eval(action.command)
    await editor.client.workspace_execute_command_async(
        types.ExecuteCommandParams(command["command"], command["arguments"])
    )
    return action.title


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(int(SECONDS / 0.05)):
        if is_so():
            return
        await asyncio.sleep(0.05)
    raise AssertionError


async def test_a_line_is_explained_in_a_message(editor: Editor) -> None:
    """Of the text that is not saved; an editor that opens no texts shows it as a message."""
    editor.open("train.py", "# new\n" + QUIET)
    title = await explain(editor, "train.py", 12)
    assert title == "Explain line 13: what amplint knows about it, and why it is silent"
    await until(lambda: bool(editor.client.messages))
    [message] = editor.client.messages
    assert message.type == types.MessageType.Info
    first, *_ = message.message.splitlines()
    assert first == "train.py:13: running += loss.detach()  # 😀"
    assert "for every batch of training" in message.message
    assert "AMP901 loss-accumulated-with-graph, nearly: " in message.message
    # The looks go on as before.
    editor.write("train.py", WAITS)
    await editor.codes("train.py", has("AMP101"))


async def test_a_line_is_explained_in_a_text_of_its_own(
    client: LanguageClient, project: Path
) -> None:
    editor = Editor(client, project)
    shows = types.ShowDocumentClientCapabilities(support=True)
    window = types.WindowClientCapabilities(work_done_progress=True, show_document=shows)
    await client.initialize_session(types.InitializeParams(types.ClientCapabilities(window=window)))
    editor.open("train.py", WAITS)
    await editor.codes("train.py", has("AMP101"))
    await explain(editor, "train.py", 11)
    await until(lambda: bool(client.shown_documents))
    [shown] = client.shown_documents
    file = project / ".amplint_cache" / "explained.txt"
    assert (shown.uri, shown.take_focus) == (file.as_uri(), True)
    assert "AMP101 host-read-in-hot-path: reports" in file.read_text(encoding="utf-8")
    [told] = client.progress_reports.values()
    kinds = [type(each) for each in told]
    assert kinds == [types.WorkDoneProgressBegin, types.WorkDoneProgressEnd]
    # Another one takes its place.
    await explain(editor, "train.py", 0)
    await until(lambda: len(client.shown_documents) == 2)
    assert file.read_text(encoding="utf-8").startswith("train.py:1: import torch\n")
    assert client.messages == []


async def test_lines_of_cells_and_of_texts_without_a_file_are_explained(editor: Editor) -> None:
    editor.open_notebook("a.ipynb", loop=LOOP, reads=READS)
    editor.open("untitled:new", QUIET)
    await explain(editor, "cell:reads", 0)
    await until(lambda: len(editor.client.messages) == 1)
    assert editor.client.messages[0].message.startswith("a.ipynb:cell 2:1: ")
    await explain(editor, "untitled:new", 0)
    await until(lambda: len(editor.client.messages) == 2)
    assert editor.client.messages[1].message.startswith("untitled.py:1: import torch\n")
    # An empty line has nothing to explain, and a selection of several lines is none.
    for start, end in ((1, 1), (0, 3)):
        where = types.Range(types.Position(start, 0), types.Position(end, 0))
        params = types.CodeActionParams(
            types.TextDocumentIdentifier("untitled:new"), where, types.CodeActionContext([])
        )
        assert not await editor.client.text_document_code_action_async(params)


async def test_where_nothing_is_explained_it_says_why(editor: Editor) -> None:
    editor.root.joinpath("venv").mkdir()
    editor.open("venv/legacy.py", LEGACY)
    editor.open("broken.py", "x = (\n")
    await explain(editor, "venv/legacy.py", 0)
    await until(lambda: len(editor.client.messages) == 1)
    assert "this file is excluded" in editor.client.messages[0].message
    await explain(editor, "broken.py", 0)
    await until(lambda: len(editor.client.messages) == 2)
    assert "not checked: " in editor.client.messages[1].message


async def test_what_cannot_be_read_costs_nobody_else_a_thing(editor: Editor) -> None:
    """While somebody types, the text is no Python most of the time."""
    editor.open("helpers.py", "def total(losses):\n    print(losses.item())\n    return losses\n")
    editor.open("train.py", QUIET)
    await editor.codes("helpers.py", has("AMP101"))
    editor.write("train.py", QUIET + "x = (\n")
    assert await editor.codes("train.py", has("AMP000")) == ["AMP000"]
    editor.write(
        "helpers.py", "def total(losses):\n    print(losses.tolist())\n    return losses\n"
    )
    # It is still called in the loop.
    found = editor.client.diagnostics
    await until(lambda: "losses.tolist()" in str(found[editor.uri("helpers.py")]))
    editor.write("train.py", QUIET)
    await editor.codes("train.py", is_empty)


async def test_settings_files_and_closing(editor: Editor) -> None:
    editor.open("train.py", WAITS)
    await editor.codes("train.py", has("AMP101"))

    def write(settings: str) -> None:
        file = editor.root / "pyproject.toml"
        file.write_text(f"[tool.amplint]\n{settings}\n")
        event = types.FileEvent(file.as_uri(), types.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))

    write('ignore = ["AMP101"]')
    await editor.codes("train.py", is_empty)

    write('ignore = ["AMP1O1"]')
    await editor.logged("there is no rule `AMP1O1`")
    editor.open("other.py", "x = 1\n")  # for which they are read once more
    write('ignore = ["AMP1O2"]')
    await editor.logged("there is no rule `AMP1O2`")
    said = [message.message for message in editor.client.log_messages]
    assert [sum(code in each for each in said) for code in ("AMP1O1", "AMP1O2")] == [1, 1]

    write("")
    await editor.codes("train.py", has("AMP101"))

    # What `total` does is not known any more, and so it makes no tensor.
    editor.root.joinpath("helpers.py").rename(editor.root / "renamed.py")
    renamed = types.FileRename(editor.uri("helpers.py"), editor.uri("renamed.py"))
    editor.client.workspace_did_rename_files(types.RenameFilesParams([renamed]))
    document = types.TextDocumentIdentifier(editor.uri("train.py"))
    editor.client.text_document_did_save(types.DidSaveTextDocumentParams(document))
    await editor.codes("train.py", has("AMP101"))

    editor.client.text_document_did_close(types.DidCloseTextDocumentParams(document))
    await editor.codes("train.py", is_empty)
    assert editor.root.joinpath("train.py").read_text(encoding="utf-8") == QUIET


async def test_several_projects_and_a_text_in_none(
    editor: Editor, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    other.joinpath("pyproject.toml").write_text('[tool.amplint]\nignore = ["AMP702"]\n')
    outside = tmp_path_factory.mktemp("outside")
    editor.open("legacy.py", LEGACY)
    editor.open(str(other / "legacy.py"), LEGACY)
    editor.open(str(outside / "legacy.py"), LEGACY)
    untitled = types.TextDocumentItem("untitled:Untitled-1", "python", 1, LEGACY)
    editor.client.text_document_did_open(types.DidOpenTextDocumentParams(untitled))
    await editor.codes("legacy.py", has("AMP702"))
    await editor.codes(str(other / "legacy.py"), is_empty)
    await editor.codes(str(outside / "legacy.py"), has("AMP702"))
    await editor.codes("untitled:Untitled-1", has("AMP702"))


READS = "def total(losses):\n    print(losses.item())\n    return losses"
LOOP = "for batch in loader:\n    loss = total(model(batch.cuda()).mean())\n    loss.backward()"
IMPORT = "import torch\nfrom torch.cuda.amp import GradScaler"
SCALER = "%time scaler = GradScaler()"


async def test_a_notebook_is_one_program_in_cells(client: LanguageClient, project: Path) -> None:
    editor = Editor(client, project)
    found = await editor.begin()
    announced = found.capabilities.notebook_document_sync
    assert isinstance(announced, types.NotebookDocumentSyncOptions) and announced.save
    editor.open_notebook("a.ipynb", reads=READS, loop=LOOP)
    finding = await editor.finding("cell:reads", "AMP101")
    assert finding.range.start == types.Position(1, 10)
    related = {each.location.uri for each in finding.related_information or ()}
    assert related == {"cell:loop"}
    await editor.codes("cell:loop", is_empty)

    editor.change_cells("a.ipynb", loop="for batch in loader:\n    pass")
    await editor.codes("cell:reads", is_empty)
    editor.change_cells("a.ipynb", loop=LOOP)
    await editor.codes("cell:reads", has("AMP101"))
    # A cell that cannot be read is left out, as `amplint check` leaves it out.
    editor.change_cells("a.ipynb", 2, 0, ["open"], [editor.cell("open", "x = (")])
    await editor.codes("cell:open", has("AMP000"))
    await editor.codes("cell:reads", has("AMP101"))
    # The loop is in a cell of its own, which goes.
    editor.change_cells("a.ipynb", 1, 2, closed=["loop", "open"])
    await editor.codes("cell:open", is_empty)
    await editor.codes("cell:reads", is_empty)

    editor.change_cells("a.ipynb", 0, 0, ["loop"], [editor.cell("loop", LOOP)])
    await editor.codes("cell:reads", has("AMP101"))
    notebook = types.NotebookDocumentIdentifier(editor.uri("a.ipynb"))
    client.notebook_document_did_save(types.DidSaveNotebookDocumentParams(notebook))
    cells = [types.TextDocumentIdentifier(f"cell:{name}") for name in ("reads", "loop")]
    client.notebook_document_did_close(types.DidCloseNotebookDocumentParams(notebook, cells))
    await editor.codes("cell:reads", is_empty)
    assert not project.joinpath("a.ipynb").exists()


async def test_cells_that_move(editor: Editor) -> None:
    """The loop calls `total` as the last definition above it has it."""
    quiet = "def total(losses):\n    return losses"
    editor.open_notebook("a.ipynb", reads=READS, quiet=quiet, loop=LOOP)
    await editor.codes("cell:reads", is_empty)
    editor.change_cells("a.ipynb", 0, 2, ["quiet", "reads"])
    await editor.codes("cell:reads", has("AMP101"))
    editor.change_cells("a.ipynb", 0, 3, ["reads", "quiet", "loop"])
    await editor.codes("cell:reads", is_empty)


async def test_fixes_in_cells(editor: Editor) -> None:
    editor.open_notebook("a.ipynb", imports=IMPORT, scaler=SCALER)
    await editor.codes("cell:scaler", has("AMP702"))
    await editor.codes("cell:imports", is_empty)
    [everything] = await actions(editor, "cell:scaler", ["notebook.source.fixAll"])
    assert everything.kind == "notebook.source.fixAll.amplint"
    [fix] = await actions(editor, "cell:scaler", ["quickfix"])
    assert "AMP702, safe" in fix.title
    assert await actions(editor, "cell:imports", ["quickfix"]) == []
    assert everything.edit == fix.edit and fix.edit is not None
    changes = fix.edit.document_changes or ()
    changed = {}
    for change in changes:
        assert isinstance(change, types.TextDocumentEdit)
        uri, version = change.text_document.uri, change.text_document.version
        assert version == editor.versions[uri]
        text = {"cell:imports": IMPORT, "cell:scaler": SCALER}[uri]
        changed[uri.removeprefix("cell:")] = edited(text, change)
    assert changed == {
        "imports": "import torch\nfrom torch.amp import GradScaler",
        "scaler": '%time scaler = GradScaler("cuda")',
    }
    # It changes two cells, so that it is no fix of one.
    assert await actions(editor, "cell:scaler", ["source.fixAll"]) == []
    document = types.TextDocumentIdentifier("cell:scaler")
    place = types.Position(0, len(SCALER) - 3)
    shown = await editor.client.text_document_hover_async(types.HoverParams(document, place))
    assert shown is not None and isinstance(shown.contents, types.MarkupContent)
    assert "AMP702" in shown.contents.value
    editor.change_cells("a.ipynb", **changed)
    await editor.codes("cell:scaler", is_empty)


async def test_a_cell_that_is_opened_as_a_text_as_well(editor: Editor) -> None:
    """Some versions of VS Code open each cell twice, in either order."""
    editor.open("cell:loop", LOOP)
    editor.open_notebook("a.ipynb", reads=READS, loop=LOOP)
    editor.open("cell:reads", "")
    await editor.codes("cell:reads", has("AMP101"))
    document = types.TextDocumentIdentifier("cell:reads")
    editor.client.text_document_did_close(types.DidCloseTextDocumentParams(document))
    editor.client.text_document_did_close(
        types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(editor.uri("a.ipynb")))
    )
    editor.change_cells("a.ipynb", loop="")
    await editor.codes("cell:reads", is_empty)


async def test_a_file_with_any_name(editor: Editor) -> None:
    """Its neighbour is found, so that its path is known; and what is told of it can be sent."""
    names = [os.fsdecode(name) for name in (b"a #%41;?.py", b"caf\xe9.py", "größe😀.py".encode())]
    for name in names:
        editor.open(name, WAITS)
        # What `total` gives is known from `helpers.py`, so that the loss is one.
        finding = await editor.finding(name, "AMP101")
        related = {each.location.uri for each in finding.related_information or ()}
        assert related == {editor.uri(name)}
    editor.open("untitled:\ud800", WAITS)
    editor.change(names[1], types.TextDocumentContentChangeWholeDocument(QUIET))
    await editor.codes(names[1], is_empty)


async def test_excluded_files_are_left_alone(editor: Editor) -> None:
    editor.root.joinpath("venv").mkdir()
    editor.open("venv/legacy.py", LEGACY)
    await editor.codes("venv/legacy.py", is_empty)


async def test_the_server_outlives_its_analysis(editor: Editor) -> None:
    editor.open("train.py", WAITS)
    await editor.codes("train.py", has("AMP101"))
    kill_children_of(editor.client)
    await editor.logged("the analysis ended")
    editor.write("train.py", QUIET)
    await editor.codes("train.py", is_empty)


def kill_children_of(client: LanguageClient) -> None:
    """Kill the process that analyses, as a system does that is out of memory."""
    assert client._server is not None
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(client._server.pid)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for pid in map(int, listed.stdout.split()):
        os.kill(pid, signal.SIGKILL)
