"""The language server: what the editor says, and what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from amplint import __version__
from amplint.server import presentation
from amplint.server.analyst import Analyst
from amplint.server.documents import Change, Document
from amplint.server.messages import (
    Answer,
    Done,
    Judged,
    Look,
    Open,
    Repaired,
    Supersede,
    Told,
    reserved_output,
)
from amplint.server.positions import ENCODINGS, Encoding
from amplint.server.presentation import Found, own_place, own_range
from amplint.server.schedule import Schedule

PAUSE = 0.1  # seconds without a keystroke, after which a text is looked at
PATIENCE = 2.0  # seconds that a request for the fixes of a text waits for a look at it
SUFFIXES = (".py", ".pyw")
WATCHED = ("**/*.py", "**/*.pyw", "**/pyproject.toml", "**/.gitignore")


class Protocol(LanguageServerProtocol):
    """The protocol, without the texts that pygls keeps.

    It ends lines where `str.splitlines` does, and then moves the places of a change into the lines
    that it has, in the message itself: nobody after it sees what the editor has said.
    """

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: types.DidChangeTextDocumentParams
    ) -> Generator[Any, Any, None]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None


class Server(LanguageServer):
    """The state of a session with an editor."""

    def __init__(self) -> None:
        super().__init__("amplint", __version__, protocol_cls=Protocol)
        self.documents: dict[str, Document] = {}
        self.found: dict[str, Found] = {}
        self.schedule = Schedule()
        self.analyst = Analyst(self.answered, self.analyst_ended)
        self.sent: dict[str, int] = {}  # by URI: the version that is looked at
        self.timer: asyncio.TimerHandle | None = None
        self.sending: set[asyncio.Task[None]] = set()
        self.judged = asyncio.Event()  # set, and replaced, whenever fixes have come

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

    def put(self, document: Document) -> None:
        """Take a text as it is now."""
        self.documents[document.uri] = document
        self.touch(document.uri)

    def drop(self, uri: str) -> None:
        """Forget a text that is no longer open; what rests on it rests on its file now."""
        self.documents.pop(uri, None)
        self.found.pop(uri, None)
        self.schedule.forget(uri)
        self.clear(uri)
        self.touch_all()

    def gone(self, old: Iterable[str]) -> None:
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
            opened = {
                uri: Open(file_of(uri), encodable(document.content.text))
                for uri, document in self.documents.items()
            }
            self.send(Look(number, uri, opened, self.encoding))

    def send(self, request: Look | Supersede) -> None:
        task = asyncio.get_running_loop().create_task(self.analyst.send(request))
        self.sending.add(task)
        task.add_done_callback(self.sending.discard)

    def answered(self, answer: Answer) -> None:
        """Show an answer, if the text is still the one that it is about."""
        if isinstance(answer, Told):
            self.tell(answer.text, answer.is_error)
        elif isinstance(answer, Done):
            self.schedule.done(answer.number, answer.uris)
            self.look()
        elif self.is_current(answer.uri):
            if isinstance(answer, Judged):
                self.show(answer)
            else:
                self.offer(answer)

    def is_current(self, uri: str) -> bool:
        document = self.documents.get(uri)
        return document is not None and document.version == self.sent.get(uri)

    def show(self, judged: Judged) -> None:
        version = self.documents[judged.uri].version
        found = Found(judged.uri, version, judged.items, judged.pages)
        self.found[judged.uri] = found
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(
                judged.uri, presentation.diagnostics(found), version=version
            )
        )

    def offer(self, repaired: Repaired) -> None:
        known = self.found.get(repaired.uri)
        if known is not None and known.version == self.documents[repaired.uri].version:
            self.found[repaired.uri] = replace(
                known, repairs=repaired.repairs, all_safe=repaired.all_safe, is_complete=True
            )
        self.judged.set()
        self.judged = asyncio.Event()

    def analyst_ended(self, status: int | None) -> None:
        self.tell(f"the analysis ended with status {status}; the next change starts it again")
        self.schedule.failed()
        self.look()

    def tell(self, text: str, is_error: bool = True) -> None:
        """Write a sentence into the log of the editor."""
        kind = types.MessageType.Error if is_error else types.MessageType.Info
        self.window_log_message(types.LogMessageParams(kind, text))

    def known(self, uri: str) -> Found | None:
        """The findings in a text as it is now; None where it was not looked at since it changed."""
        found, document = self.found.get(uri), self.documents.get(uri)
        if found is None or document is None or found.version != document.version:
            return None
        return found

    async def settled(self, uri: str) -> Found | None:
        """The findings in a text and their fixes, once they are known; None if that takes long."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while (found := self.known(uri)) is None or not found.is_complete:
            left = deadline - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(self.judged.wait(), left)
            except asyncio.TimeoutError:
                return None
        return found


def file_of(uri: str) -> str:
    """The path of the file that an editor names; "" for what is in no file."""
    try:
        return uris.to_fs_path(uri) or ""
    except ValueError:  # of a host that is none
        return ""


def encodable(text: str) -> str:
    """The text with another character in the place of each half of a pair, which UTF-8 lacks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def create() -> Server:
    """A server that answers all that an editor asks it."""
    server = Server()
    for register in (texts, files, questions):
        register(server)
    return server


def texts(server: Server) -> None:
    """Register what is done when a text is opened, changed, saved or closed."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        opened = params.text_document
        if opened.language_id == "python" or opened.uri.endswith(SUFFIXES):
            server.put(Document.opened(opened.uri, opened.version, opened.text))

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        uri, version = params.text_document.uri, params.text_document.version
        document = server.documents.get(uri)
        if document is not None:
            changes = map(own_change, params.content_changes)
            server.put(document.changed(version, changes, server.encoding))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        server.touch(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        if params.text_document.uri in server.documents:
            server.drop(params.text_document.uri)


def files(server: Server) -> None:
    """Register what is done when files or settings change behind the open texts."""
    python = types.FileOperationFilter(types.FileOperationPattern("**/*.{py,pyw}"), "file")
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
        server.gone(file.old_uri for file in params.files)

    @server.feature(types.WORKSPACE_DID_DELETE_FILES, of_files)
    def did_delete(params: types.DeleteFilesParams) -> None:
        server.gone(file.uri for file in params.files)


def questions(server: Server) -> None:
    """Register the answers to what the editor asks."""
    kinds = [types.CodeActionKind.QuickFix, presentation.FIX_ALL]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(kinds))
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri, only = params.text_document.uri, params.context.only
        asked = [str(getattr(kind, "value", kind)) for kind in only] if only is not None else None
        if asked and all(kind.startswith("source") for kind in asked):
            found = await server.settled(uri)  # the editor is about to save, and waits
        else:
            found = server.known(uri)
        if found is None:
            return []
        return presentation.actions(found, own_range(params.range), asked)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        found = server.known(params.text_document.uri)
        return presentation.hover(found, own_place(params.position)) if found else None

    @server.feature(types.SHUTDOWN)
    def shutdown(_: None) -> None:
        server.analyst.stop()


def own_change(change: types.TextDocumentContentChangeEvent) -> Change:
    """A change of a text, as `documents` has it."""
    if isinstance(change, types.TextDocumentContentChangePartial):
        return Change(change.text, own_range(change.range))
    return Change(change.text)


def serve() -> None:
    """Serve the editor until it says goodbye, or goes."""
    with reserved_output() as output:
        create().start_io(stdout=output)
