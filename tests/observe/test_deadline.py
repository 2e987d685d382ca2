"""A watched program ends before it is killed, and where its end cannot be lost."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from amplint_verify.recording import watching
from amplint_verify.recording.raised import OutOfTime
from amplint_verify.runs import deadline
from amplint_verify.runs.deadline import ended_in_time, is_of_program

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such timer here")

ROOT = Path(__file__).parent / "program"
PLACES = {
    "program": ROOT / "train.py",
    "torch": Path(torch.__file__).parent / "_library" / "simple_registry.py",
    "amplint": Path(watching.__file__),
    "library": Path("/lib/numpy/core.py"),
}
SECONDS = 2.0


def stack(*places: str) -> FrameType:
    """The innermost frame of calls from place to place."""
    text = "def call(calls):\n    return calls[0](calls[1:]) if calls else frame()\n"
    calls = []
    for place in places:
        names: dict[str, Any] = {"frame": lambda: sys._getframe(1)}
        exec(compile(text, str(PLACES[place]), "exec"), names)
        calls.append(names["call"])
    found: FrameType = calls[0](calls[1:])
    return found


@pytest.mark.parametrize(
    ("places", "is_safe"),
    [
        (["program"], True),
        (["program", "library"], True),
        (["torch", "program"], True),  # such as `forward`
        (["program", "torch"], False),
        (["program", "torch", "library"], False),
        (["program", "amplint"], False),
        (["program", "amplint", "library"], False),
    ],
)
def test_where_an_exception_reaches_the_program(places: list[str], is_safe: bool) -> None:
    assert is_of_program(stack(*places), f"{ROOT}{os.sep}") is is_safe


def turns_until(place: str, watcher: Any) -> float:
    """The seconds until `OutOfTime` was raised in a loop at a place."""
    text = "def turns():\n    while True:\n        pass\n"
    names: dict[str, Any] = {}
    exec(compile(text, str(PLACES[place]), "exec"), names)
    start = time.monotonic()
    with (
        pytest.raises(OutOfTime, match="no end within 2 s"),
        ended_in_time(watcher, ROOT, start, SECONDS),
    ):
        names["turns"]()
    return time.monotonic() - start


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take a while between the two."""
    monkeypatch.setattr(deadline, "IN_TIME", 0.2)
    monkeypatch.setattr(deadline, "AT_LAST", 0.7)


@pytest.mark.usefixtures("early")
def test_it_is_raised_at_once_in_the_program_and_at_last_anywhere() -> None:
    watcher = SimpleNamespace(out_of_time="")
    assert turns_until("program", watcher) < SECONDS * 0.7 <= turns_until("torch", watcher)
    assert watcher.out_of_time == ""


@pytest.mark.usefixtures("early")
def test_one_that_is_lost_is_raised_again() -> None:
    begun = time.monotonic()
    lost = 0
    with ended_in_time(SimpleNamespace(), Path(__file__).parent, begun, SECONDS):
        for _ in range(3):
            try:
                time.sleep(SECONDS)
            except OutOfTime:
                lost += 1
    assert lost == 3
    assert time.monotonic() - begun < SECONDS


@pytest.mark.usefixtures("early")
def test_nothing_is_raised_or_left_after_the_block() -> None:
    """An observation is put together then, and written down."""
    before = signal.getsignal(signal.SIGALRM)
    begun = time.monotonic()
    watcher = SimpleNamespace(out_of_time="")
    with (
        contextlib.suppress(OutOfTime),
        ended_in_time(watcher, Path(__file__).parent, begun, 0.5),
    ):
        time.sleep(0.5)
    time.sleep(0.5)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert watcher.out_of_time == ""


def test_the_next_call_of_torch_raises_it(tmp_path: Path) -> None:
    watcher = watching.Watcher(tmp_path, has_values=True)
    with watcher, watching.CallWatcher(watcher):
        torch.ones(1)
        watcher.out_of_time = "so it is"
        with pytest.raises(OutOfTime, match="so it is"):
            torch.ones(1)
