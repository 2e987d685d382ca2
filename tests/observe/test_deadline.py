"""A watched program ends before it is killed, and where its end cannot be lost."""

import sys
import time
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
import torch

from amplint_verify.recording import watching
from amplint_verify.runs.deadline import AT_LAST, IN_TIME, OutOfTime, ended_in_time, is_of_program

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
    assert is_of_program(stack(*places), f"{ROOT}/") is is_safe


def turns_until(place: str, watcher: Any) -> float:
    """The seconds until `OutOfTime` was raised in a loop at a place."""
    text = "def turns():\n    while True:\n        pass\n"
    names: dict[str, Any] = {}
    exec(compile(text, str(PLACES[place]), "exec"), names)
    start = time.monotonic()
    with pytest.raises(OutOfTime, match="no end within 2 s"), ended_in_time(watcher, ROOT, SECONDS):
        names["turns"]()
    return time.monotonic() - start


def test_it_is_raised_at_once_in_the_program_and_at_last_anywhere() -> None:
    watcher = SimpleNamespace(ending=None)
    assert turns_until("program", watcher) < SECONDS * AT_LAST <= turns_until("torch", watcher)
    assert watcher.ending is None


def test_one_that_is_lost_is_raised_again() -> None:
    lost = 0
    with pytest.raises(OutOfTime), ended_in_time(SimpleNamespace(), Path(__file__).parent, 1.0):
        while True:
            try:
                time.sleep(1)
            except OutOfTime:
                lost += 1
                if lost > 1:
                    raise


def test_the_next_call_of_torch_raises_it(tmp_path: Path) -> None:
    watcher = watching.Watcher(tmp_path, has_values=True)
    with watcher, watching.CallWatcher(watcher):
        torch.ones(1)
        watcher.ending = OutOfTime("so it is")
        with pytest.raises(OutOfTime):
            torch.ones(1)


def test_nothing_ends_what_ends_in_time() -> None:
    with ended_in_time(SimpleNamespace(), ROOT, 0.2):
        pass
    time.sleep(0.2 * IN_TIME + 0.1)
