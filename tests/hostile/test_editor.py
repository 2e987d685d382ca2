"""What an editor says of files of a stranger's repository: no look fails, and nothing is run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from amplint.server.documents import OpenText
from amplint.server.looking import Looker
from amplint.server.main import EditorSession, create
from amplint.server.messages import (
    HEAD,
    JudgedText,
    LogLine,
    Look,
    LookEnded,
    Open,
    framed,
    request_in,
)
from amplint.server.open_notebooks import OpenNotebook
from tests.command import LEGACY

URIS = [
    "file:///a%00.py", "file://[::1", "file:///dev/zero", "http://host/y.py", "x.py", "",
    "file:///../../etc/passwd", "file:///%ff%fe.py", "file://host/x.py", "file:///a.py?x#y",
    f"file:///{'a' * 5000}.py", "//[/x.py", "file:///nowhere/x.py",
]  # fmt: skip


def seen(looker: Looker, look: Look) -> tuple[set[str], list[str]]:
    """The codes of the findings in the text that was asked for, and what was told."""
    answers = list(looker.look(look))
    assert isinstance(answers[-1], LookEnded)
    judged = [one for one in answers if isinstance(one, JudgedText) and one.uri == look.uri]
    told = [one.text for one in answers if isinstance(one, LogLine)]
    return {item.code for one in judged for item in one.items}, told


@pytest.mark.parametrize("uri", URIS)
def test_no_address_stops_the_server(
    repository: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    """The text is looked at, or it is told why not; then the next one is."""
    looks: list[Look] = []
    monkeypatch.setattr(EditorSession, "encoding", "utf-16")  # what an editor and it agree on

    async def dialogue() -> None:
        server = create()
        server.clear = lambda _: None  # there is no editor
        server.send = lambda look: looks.append(request_in(framed(look)[HEAD.size :]))
        for each in (uri, (repository / "a.py").as_uri()):
            server.put(OpenText.opened(each, 1, f"{LEGACY}# \ud800\n"))
            assert server.timer is not None
            server.timer.cancel()
            server.look()
            server.schedule.done(looks[-1].number, [looks[-1].uri])

    asyncio.run(dialogue())
    assert [look.uri for look in looks] == [uri, (repository / "a.py").as_uri()]
    looker = Looker()
    seen(looker, looks[0])
    assert seen(looker, looks[1])[0] == {"AMP701"}


def test_half_a_pair_in_an_address_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not an address, and no message between the processes could carry it."""
    said: list[str] = []
    monkeypatch.setattr(EditorSession, "tell", lambda _, text: said.append(text))
    server = create()
    server.put(OpenText.opened("file:///a\ud800.py", 1, LEGACY))
    cell = OpenText.opened("cell:\udc00", 1, LEGACY)
    server.put(OpenNotebook("file:///a.ipynb", 1, (cell.uri,), {cell.uri: cell}))
    assert server.documents == {}
    assert len(said) == 2 and "'file:///a\\ud800.py' is not an address" in said[0]


def test_files_that_are_none_and_settings_that_cannot_be_used(repository: Path) -> None:
    looker = Looker()
    path = repository / "b.py"
    path.symlink_to("/dev/zero")
    opened = {path.as_uri(): Open(LEGACY)}
    assert seen(looker, Look(1, path.as_uri(), opened, "utf-16"))[0] == {"AMP701"}
    (repository / "pyproject.toml").write_text("a = " + "[" * 100_000)
    codes, told = seen(looker, Look(2, path.as_uri(), opened, "utf-16"))
    assert codes == set()
    assert any("nested too deeply" in text for text in told)
