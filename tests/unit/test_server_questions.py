"""The server's answers to what an editor asks, with each message at its own moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from lsprotocol import types

from amplint.server.addresses import uri_of
from amplint.server.documents import OpenText
from amplint.server.looking import Looker
from amplint.server.main import create
from amplint.server.messages import Look, Open, Repaired

LEGACY = "from torch.cuda.amp import GradScaler\n\nscaler = GradScaler()\n"


def test_fixes_that_are_asked_for_with_the_findings_are_waited_for(tmp_path: Path) -> None:
    """They come up to seconds after the findings, and editors ask once."""
    (tmp_path / "a.py").write_text(LEGACY)
    (tmp_path / "requirements.txt").write_text("torch>=2.4\n")
    uri = uri_of(tmp_path / "a.py")

    async def dialogue() -> None:
        server = create()
        server.protocol.server_capabilities = types.ServerCapabilities()
        shown: list[types.PublishDiagnosticsParams] = []
        server.text_document_publish_diagnostics = shown.append  # type: ignore[method-assign]
        server.send = lambda _: None  # type: ignore[method-assign, assignment]
        ask = server.protocol.fm.features[types.TEXT_DOCUMENT_CODE_ACTION]
        everywhere = types.Range(types.Position(0, 0), types.Position(9, 0))

        def asked(text: str = uri) -> asyncio.Task[list[types.CodeAction]]:
            document = types.TextDocumentIdentifier(text)
            context = types.CodeActionContext([])
            return asyncio.create_task(ask(types.CodeActionParams(document, everywhere, context)))

        server.put(OpenText.opened(uri, 1, LEGACY))
        early = asked()
        await asyncio.sleep(0)
        server.look()
        look = Look(1, uri, {uri: Open(LEGACY)}, "utf-16")
        for answer in Looker().look(look):
            if isinstance(answer, Repaired):
                (diagnostic,) = shown[-1].diagnostics
                late = asked()
                await asyncio.sleep(0.01)
                assert not early.done()
                assert not late.done()
            server.answered(answer)
        for task in (early, late):
            fix, _ = await asyncio.wait_for(task, 5)
            assert fix.diagnostics == [diagnostic]
        # Where no look is under way, there is nothing to wait for; nor in a text that is not open.
        server.known_texts.clear()
        assert await asyncio.wait_for(asked(), 5) == []
        server.put(OpenText.opened(uri, 2, LEGACY))
        assert await asyncio.wait_for(asked(f"{uri}.other"), 5) == []
        # A text that is closed has no fixes any more.
        closed = asked()
        await asyncio.sleep(0)
        server.drop(uri)
        assert await asyncio.wait_for(closed, 5) == []
        assert server.timer is not None
        server.timer.cancel()

    asyncio.run(dialogue())
