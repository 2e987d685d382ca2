"""A dialogue with the language server, by a client that starts it as an editor does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("pytest_lsp")

import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0

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
        capabilities = types.ClientCapabilities(general=general)
        folder = types.WorkspaceFolder(self.root.as_uri(), "project")
        return await self.client.initialize_session(
            types.InitializeParams(capabilities, workspace_folders=[folder])
        )

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

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
    tmp_path.joinpath("train.py").write_text(QUIET, encoding="utf-8")
    tmp_path.joinpath("helpers.py").write_text(HELPERS)
    return tmp_path


def has(code: str) -> Callable[[list[str]], bool]:
    return lambda found: code in found


def is_empty(found: list[str]) -> bool:
    return not found


@pytest.mark.asyncio
async def test_unsaved_text_is_judged(client: LanguageClient, project: Path) -> None:
    editor = Editor(client, project)
    await editor.begin()
    editor.open("train.py", QUIET)
    await editor.codes("train.py", is_empty)
    editor.write("train.py", WAITS)
    await editor.codes("train.py", has("AMP101"))
    editor.write("train.py", QUIET)
    await editor.codes("train.py", is_empty)
    assert project.joinpath("train.py").read_text(encoding="utf-8") == QUIET
