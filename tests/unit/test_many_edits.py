"""The process of the language server that analyses does not grow with the edits."""

from __future__ import annotations

import gc
import io
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("msgspec")

from amplint.inference import memo
from amplint.server import worker
from amplint.server.looking import Looker as Looking
from amplint.server.messages import Answer, JudgedText, Look, LookEnded, Open
from benchmarks.robustness import server


class Circle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self
        self.content = [[number] for number in range(20_000)]


class Looker:
    """Leaves a circle behind with each look."""

    left: list[weakref.ref[Circle]] = []

    def __init__(self, _: object) -> None: ...

    def look(self, look: Look) -> Iterator[Answer]:
        self.left.append(weakref.ref(Circle()))
        yield LookEnded(look.number, [])


class Inbox(worker.Inbox):
    """Somebody who edits without a pause."""

    def __init__(self, looks: int) -> None:
        self._looks = iter([*(Look(number, "", {}, "utf-16") for number in range(looks)), None])

    def take(self, timeout: float | None) -> Look | None:
        del timeout
        return next(self._looks)


def test_what_looks_leave_is_cleaned_up_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "Looker", Looker)
    monkeypatch.setattr(worker, "ROOM", 1 + 200_000 / sys.getallocatedblocks())
    enabled = gc.isenabled()
    gc.disable()  # as the process that analyses does
    try:
        worker.serve(Inbox(30), io.BytesIO())
    finally:
        if enabled:
            gc.enable()
    alive = sum(one() is not None for one in Looker.left)
    assert len(Looker.left) == 30
    assert alive < 15


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_findings_after_many_edits_and_no_growth(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helpers.py").write_text(server.HELPERS)
    (tmp_path / "train.py").write_text(server.TRAIN)
    outcome = server.edited(tmp_path, 60, 120.0)
    assert outcome["failures"] == []
    assert outcome["samples"]


def test_what_edits_have_named_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values and keys of names and numbers that are in the text no more."""
    monkeypatch.setattr(memo, "LEAST", 50)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helpers.py").write_text(server.HELPERS)
    (tmp_path / "train.py").write_text(server.TRAIN)
    uri = (tmp_path / "train.py").as_uri()
    looker, findings, sizes = Looking(), set(), []
    for number, text in enumerate(server.texts(300)):
        answers = [*looker.look(Look(number, uri, {uri: Open(text)}, "utf-16"))]
        (judged,) = (each for each in answers if isinstance(each, JudgedText))
        findings.add(len(judged.items))
        known = looker._memory.linker._facts
        assert known is not None
        inference = known.inference
        sizes.append(len(inference.store.slots) + inference.memo._size)
    assert findings == {1}
    assert max(sizes[150:]) <= max(sizes[:150]) + 50


def test_growth_is_told() -> None:
    steady = [{"MB": 200, "threads": 3, "open files": 9}] * 4
    assert list(server.grown(steady)) == []
    more = [*steady, {"MB": 301, "threads": 3, "open files": 14}]
    assert list(server.grown(more)) == ["MB: 200 became 301", "open files: 9 became 14"]
