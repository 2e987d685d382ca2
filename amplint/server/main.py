"""The language server: the editor's requests, and the replies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from amplint import __version__
from amplint.server import presentation
from amplint.server.analyst import Analyst
from amplint.server.documents import OpenText, TextChange, encodable
from amplint.server.explainer import Explainer
from amplint.server.messages import (
    Answer,
    Explained,
    JudgedText,
    LogLine,
    Look,
    LookEnded,
    Open,
    Repaired,
    Supersede,
    reserved_output,
)
from amplint.server.open_notebooks import OpenNotebook
from amplint.server.presentation import KnownText, own_place, own_range
from amplint.server.protocol_positions import ENCODINGS, Encoding
from amplint.server.schedule import Schedule
from amplint.server.under_way import UnderWay

PAUSE = 0.1  # seconds without a keystroke, after which a text is looked at
# Seconds that a request for the fixes of a text waits for a look at it: where the editor is about
# to save; and where it goes on meanwhile, and takes the request back once nobody wants to know.
SAVE_PATIENCE = 2.0
PATIENCE = 30.0
SUFFIXES = (".py", ".pyw")
WATCHED = (
    "**/*.py", "**/*.pyw", "**/*.ipynb", "**/*.toml", "**/.gitignore", "**/setup.cfg",
    "**/requirements*.txt", "**/requirements/*.txt",
)  # fmt: skip
CELLS = types.NotebookDocumentSyncOptions(
    [
        types.NotebookDocumentFilterWithNotebook(
            types.NotebookDocumentFilterNotebookType("jupyter-notebook"),
            [types.NotebookCellLanguage("python")],
        )
    ],
    save=True,
)


class LanguageProtocol(LanguageServerProtocol):
    """The protocol, without the texts that pygls keeps.

    It ends lines where `str.splitlines` does, and then moves the places of a change into the lines
    that it has, in the message itself: nobody after it sees what the editor has said.
    """

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: types.DidChangeTextDocumentParams
    ) -> Generator[Any, Any, None]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(
        self, params: types.DidOpenNotebookDocumentParams
    ) -> Generator[Any, Any, None]:
        yield self.fm.features[types.NOTEBOOK_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(
        self, params: types.DidChangeNotebookDocumentParams
    ) -> Generator[Any, Any, None]:
        yield self.fm.features[types.NOTEBOOK_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(
        self, params: types.DidCloseNotebookDocumentParams
    ) -> Generator[Any, Any, None]:
        yield self.fm.features[types.NOTEBOOK_DOCUMENT_DID_CLOSE], (params,), None


class EditorSession(LanguageServer):
    """The state of a session with an editor."""

    def __init__(self) -> None:
        super().__init__(
            "amplint", __version__, protocol_cls=LanguageProtocol, notebook_document_sync=CELLS
        )
        self.documents: dict[str, OpenText | OpenNotebook] = {}
        self.known_texts: dict[str, KnownText] = {}
        self.schedule = Schedule()
        self.analyst = Analyst(self.answered, self.analyst_ended)
        self.explainer = Explainer(self.explained, self.explainer_ended)
        self.under_way = UnderWay(self.work_done_progress)
        self.sent: dict[str, int] = {}  # by URI: the version that is looked at
        self.timer: asyncio.TimerHandle | None = None
        self.sending: set[asyncio.Task[None]] = set()
        self.news = asyncio.Event()  # set, and replaced, whenever `settled` may know more
        self.last_sentence = ""  # the last sentence of a look, until one finds something

    @property
    def encoding(self) -> Encoding:
        """How the editor counts places."""
        agreed = self.server_capabilities.position_encoding
        return next((one for one in ENCODINGS if one == agreed), "utf-16")

    # -- texts

    def touch(self, *touched: str) -> None:
        """Have texts looked at, after a pause."""
        self.schedule.touch(uri for uri in touched if uri in self.documents)
        if self.timer is not None:
            self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(PAUSE, self.look)

    def touch_all(self) -> None:
        """Have all texts looked at: something has changed that they may depend on."""
        self.touch(*self.documents)

    def put(self, document: OpenText | OpenNotebook) -> None:
        """Take a text as it is now."""
        if any(encodable(uri) != uri for uri in (document.uri, *document.versions)):
            self.tell(f"{document.uri!a} is not an address, or has a cell without one")
            return
        before = self.documents.get(document.uri)
        old_uris = before.versions.keys() - document.versions.keys() if before is not None else ()
        self.documents[document.uri] = document
        for uri in old_uris:
            self.clear(uri)
        self.touch(document.uri)

    def drop(self, uri: str) -> None:
        """Forget a text that is no longer open; what rests on it rests on its file now."""
        versions = self.documents.pop(uri).versions
        self.known_texts.pop(uri, None)
        self.schedule.forget(uri)
        self.wake()
        for each in versions:
            self.clear(each)
        self.touch_all()

    def document_of(self, uri: str) -> OpenText | OpenNotebook | None:
        """The open text or notebook that is shown under an address."""
        document = self.documents.get(uri)
        if document is not None:
            return document
        return next((each for each in self.documents.values() if uri in each.versions), None)

    def forget_files(self, old: Iterable[str]) -> None:
        """Take back what was said of files that have another name, or are no more."""
        for uri in old:
            if uri not in self.documents:  # else the editor closes it
                self.clear(uri)
        self.touch_all()

    def clear(self, uri: str) -> None:
        """Take back what was said of a file."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    # -- looks

    def look(self) -> None:
        """Look at what waits for it, or stop a look that is no longer of use."""
        superseded = self.schedule.superseded()
        if superseded is not None:
            self.send(Supersede(superseded))
        begun = self.schedule.next()
        if begun is not None:
            number, uri = begun
            self.sent = {uri: document.version for uri, document in self.documents.items()}
            self.send(Look(number, uri, self.opened(), self.encoding))

    def opened(self) -> dict[str, Open]:
        """All texts that are open, for a process that analyses."""
        return {uri: document.as_open() for uri, document in self.documents.items()}

    def send(self, request: Look | Supersede) -> None:
        task = asyncio.get_running_loop().create_task(self.analyst.send(request))
        self.sending.add(task)
        task.add_done_callback(self.sending.discard)

    def answered(self, answer: Answer) -> None:
        """Show an answer, if the text is still the one that it is about."""
        if isinstance(answer, LogLine):
            if answer.text != self.last_sentence:  # a wrong setting is met once for each open text
                self.tell(answer.text, answer.is_error)
            self.last_sentence = answer.text
        elif isinstance(answer, LookEnded):
            self.schedule.done(answer.number, answer.uris)
            self.wake()
            self.look()
        elif isinstance(answer, JudgedText | Repaired) and self.is_current(answer.uri):
            self.last_sentence = ""
            if isinstance(answer, JudgedText):
                self.show(answer)
            else:
                self.offer(answer)

    def is_current(self, uri: str) -> bool:
        document = self.documents.get(uri)
        return document is not None and document.version == self.sent.get(uri)

    def show(self, judged: JudgedText) -> None:
        document = self.documents[judged.uri]
        facts = KnownText(
            judged.uri, document.version, document.versions, judged.items, judged.pages
        )
        self.known_texts[judged.uri] = facts
        for uri, version in facts.versions.items():
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(
                    uri, presentation.diagnostics(facts, uri), version=version
                )
            )

    def offer(self, repaired: Repaired) -> None:
        facts = self.known_texts.get(repaired.uri)
        if facts is not None and facts.version == self.documents[repaired.uri].version:
            self.known_texts[repaired.uri] = replace(
                facts, repairs=repaired.repairs, all_safe=repaired.all_safe, is_complete=True
            )
        self.wake()

    def wake(self) -> None:
        """Have those look again who wait for fixes."""
        self.news.set()
        self.news = asyncio.Event()

    def analyst_ended(self, status: int | None) -> None:
        self.tell(f"the analysis ended with status {status}; the next change starts it again")
        self.schedule.failed()
        self.wake()
        self.look()

    # -- explanations

    def explain(self, uri: str, line: int) -> None:
        """Have a line of an open text explained."""
        document = self.document_of(uri)
        if document is not None:
            window = self.client_capabilities.window
            if window and window.work_done_progress:
                self.under_way.begin("amplint: explaining a line")
            self.explainer.ask(document.uri, uri, line, self.opened())

    def explained(self, explained: Explained) -> None:
        """Show an explanation: as a text of its own where the editor can open one, for it has more
        lines than a message has room for."""
        self.under_way.end()
        window = self.client_capabilities.window
        if explained.file and window and window.show_document and window.show_document.support:
            self.window_show_document(types.ShowDocumentParams(explained.file, take_focus=True))
        else:
            params = types.ShowMessageParams(types.MessageType.Info, explained.text)
            self.window_show_message(params)

    def explainer_ended(self, status: int | None) -> None:
        self.under_way.end()
        self.tell(f"the explanation ended with status {status}")

    def tell(self, text: str, is_error: bool = True) -> None:
        """Write a sentence into the log of the editor."""
        kind = types.MessageType.Error if is_error else types.MessageType.Info
        self.window_log_message(types.LogMessageParams(kind, text))

    def known_text(self, uri: str) -> KnownText | None:
        """The findings in a text as it is now; None where it was not looked at since it changed."""
        document = self.document_of(uri)
        facts = self.known_texts.get(document.uri) if document is not None else None
        if facts is None or document is None or facts.version != document.version:
            return None
        return facts

    def is_settled(self, uri: str) -> bool:
        """Whether the fixes of a text are known, or no look will find any."""
        if self.document_of(uri) is None or not self.schedule.is_waited_for:
            return True
        facts = self.known_text(uri)
        return facts is not None and facts.is_complete

    async def settled(self, uri: str, patience: float) -> KnownText | None:
        """The findings in a text and their fixes, once they are known.

        Findings are shown before their fixes are computed, and editors ask for these at once. After
        `patience` seconds, what is known by then.
        """
        deadline = asyncio.get_running_loop().time() + patience
        while not self.is_settled(uri):
            remaining = deadline - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(self.news.wait(), remaining)
            except asyncio.TimeoutError:
                break
        return self.known_text(uri)


def create() -> EditorSession:
    """A server that answers all that an editor asks it."""
    server = EditorSession()
    for register in (texts, notebooks, files, questions):
        register(server)
    return server


def texts(server: EditorSession) -> None:
    """Register what is done when a text is opened, changed, saved or closed."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        opened = params.text_document
        is_python = opened.language_id == "python" or opened.uri.endswith(SUFFIXES)
        # Some versions of VS Code open a cell as a text, too, which is in its notebook already.
        is_cell = isinstance(server.document_of(opened.uri), OpenNotebook)
        if is_python and not is_cell:
            server.put(own_document(opened))

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        uri, version = params.text_document.uri, params.text_document.version
        document = server.documents.get(uri)
        if isinstance(document, OpenText):
            changes = map(own_change, params.content_changes)
            server.put(document.changed(version, changes, server.encoding))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        server.touch(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        if isinstance(server.documents.get(params.text_document.uri), OpenText):
            server.drop(params.text_document.uri)


def notebooks(server: EditorSession) -> None:
    """Register what is done when a notebook is opened, changed, saved or closed cell by cell."""

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenNotebookDocumentParams) -> None:
        texts = python_cells(params.cell_text_documents)
        for uri in [params.notebook_document.uri, *(text.uri for text in texts)]:
            if uri in server.documents:  # as a text
                server.drop(uri)
        added = [cell.document for cell in params.notebook_document.cells]
        notebook = OpenNotebook(params.notebook_document.uri, 0, (), {})
        server.put(notebook.rearranged(0, 0, added, texts))

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeNotebookDocumentParams) -> None:
        notebook = server.documents.get(params.notebook_document.uri)
        if isinstance(notebook, OpenNotebook):
            server.put(changed_notebook(notebook, params.change.cells, server.encoding))

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveNotebookDocumentParams) -> None:
        server.touch(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseNotebookDocumentParams) -> None:
        if isinstance(server.documents.get(params.notebook_document.uri), OpenNotebook):
            server.drop(params.notebook_document.uri)


def files(server: EditorSession) -> None:
    """Register what is done when files or settings change behind the open texts."""
    python = types.FileOperationFilter(types.FileOperationPattern("**/*.{py,pyw,ipynb}"), "file")
    folders = types.FileOperationFilter(
        types.FileOperationPattern("**", types.FileOperationPatternKind.Folder), "file"
    )
    of_files = types.FileOperationRegistrationOptions([python, folders])

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        workspace = server.client_capabilities.workspace
        watching = workspace and workspace.did_change_watched_files
        if watching and watching.dynamic_registration:
            watchers = [types.FileSystemWatcher(pattern) for pattern in WATCHED]
            registration = types.Registration(
                "amplint-files",
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                types.DidChangeWatchedFilesRegistrationOptions(watchers),
            )
            server.client_register_capability(types.RegistrationParams([registration]))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_files(_: types.DidChangeWatchedFilesParams) -> None:
        server.touch_all()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def did_change_configuration(_: types.DidChangeConfigurationParams) -> None:
        server.touch_all()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def did_change_folders(_: types.DidChangeWorkspaceFoldersParams) -> None:
        server.touch_all()

    @server.feature(types.WORKSPACE_DID_CREATE_FILES, of_files)
    def did_create(_: types.CreateFilesParams) -> None:
        server.touch_all()

    @server.feature(types.WORKSPACE_DID_RENAME_FILES, of_files)
    def did_rename(params: types.RenameFilesParams) -> None:
        server.forget_files(file.old_uri for file in params.files)

    @server.feature(types.WORKSPACE_DID_DELETE_FILES, of_files)
    def did_delete(params: types.DeleteFilesParams) -> None:
        server.forget_files(file.uri for file in params.files)


def questions(server: EditorSession) -> None:
    """Register the answers to what the editor asks."""
    quick_fix = types.CodeActionKind.QuickFix
    kinds = [
        quick_fix,
        presentation.FIX_ALL,
        presentation.NOTEBOOK_FIX_ALL,
        presentation.EXPLAIN_LINE,
    ]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(kinds))
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri, only = params.text_document.uri, params.context.only
        names = [str(getattr(kind, "value", kind)) for kind in only] if only is not None else None
        of_source = ("source", "notebook.source")
        saves = bool(names) and all(kind.startswith(of_source) for kind in names or ())
        facts = await server.settled(uri, SAVE_PATIENCE if saves else PATIENCE)
        at = own_range(params.range)
        fixes = presentation.actions(facts, uri, at, names) if facts is not None else []
        document = server.document_of(uri)
        text = document.text_in(uri) if document is not None else None
        return [*fixes, *presentation.explanations(text, uri, at, names)]

    @server.command(presentation.EXPLAIN)
    def explain(uri: str, line: int) -> None:
        server.explain(uri, line)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        facts = server.known_text(uri)
        return presentation.hover(facts, uri, own_place(params.position)) if facts else None

    @server.feature(types.SHUTDOWN)
    def shutdown(_: None) -> None:
        server.analyst.stop()
        server.explainer.stop()


def own_document(item: types.TextDocumentItem) -> OpenText:
    """A text, as `documents` has it."""
    return OpenText.opened(item.uri, item.version, item.text)


def python_cells(items: Iterable[types.TextDocumentItem]) -> list[OpenText]:
    """The texts of those cells that hold Python."""
    return [own_document(item) for item in items if item.language_id == "python"]


def changed_notebook(
    notebook: OpenNotebook, change: types.NotebookDocumentCellChanges | None, encoding: Encoding
) -> OpenNotebook:
    """A notebook after a change of its cells; of their order first, as the protocol has it."""
    if change is None:  # of what amplint does not read
        return notebook
    if change.structure is not None:
        array = change.structure.array
        added = [cell.document for cell in array.cells or ()]
        opened = python_cells(change.structure.did_open or ())
        closed = [cell.uri for cell in change.structure.did_close or ()]
        notebook = notebook.rearranged(array.start, array.delete_count, added, opened, closed)
    for text in change.text_content or ():
        uri, version = text.document.uri, text.document.version
        changes = map(own_change, text.changes)
        notebook = notebook.changed(uri, version, changes, encoding)
    return notebook


def own_change(change: types.TextDocumentContentChangeEvent) -> TextChange:
    """A change of a text, as `documents` has it."""
    if isinstance(change, types.TextDocumentContentChangePartial):
        return TextChange(change.text, own_range(change.range))
    return TextChange(change.text)


def serve() -> None:
    """Serve the editor until it says goodbye, or goes."""
    # It warns of each shutdown, and editors show all that a server logs as an error.
    logging.getLogger("pygls").setLevel(logging.ERROR)
    with reserved_output() as output:
        create().start_io(stdout=output)
