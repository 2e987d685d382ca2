"""What a run has not reached is said: places that `check` reports, and functions like them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.util.text import Text
from amplint_verify.observing.unreached import (
    ReportedPlace,
    RunQuestions,
    UnreachedFunction,
    asked_of,
    functions_of,
    unreached,
)
from amplint_verify.recording import reached
from amplint_verify.recording.observation import Observation, RunOutcome
from amplint_verify.recording.reached import Reach, reaching
from tests.command import Amplint
from tests.helpers import lint, write

TRAIN = b"""\
import os

import torch
from torch import nn

import losses


def train():
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = losses.mean(model(torch.ones(2, 4).cuda()))
        loss.backward()
        optimizer.step()
        if os.environ.get("INSIDE"):
            with torch.autocast("cuda"):
                losses.mean(model(torch.ones(2, 4).cuda())).backward()


class Trainer:
    def validate(self, loader):
        for x in loader:
            self.total += self.model(x).item()

    def rename(self):
        return "".join([])


if __name__ == "__main__":
    train()
"""
FILES = {
    "train.py": TRAIN,
    "losses.py": b"import torch\n\n\ndef mean(x):\n    return x.mean()\n",
    "export.py": b"import torch\n\n\ndef export(x):\n    return x.tolist()\n",
    "pyproject.toml": b"",
}
ROW = TRAIN[: TRAIN.index(b".backward()\n\n")].count(b"\n") + 1


def test_a_run_says_what_it_has_not_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(write(FILES, tmp_path))
    ran = Amplint(capfd)("observe", "--backend", "sim", "--script", "train.py")
    assert f"1 of the 2 places that check reports was not reached: train.py:{ROW}" in ran.err
    assert (
        "1 of the 2 functions with calls that a run can judge was not entered: "
        "Trainer.validate (train.py:22)" in ran.err
    )
    assert "1 file with such calls was not imported: export.py" in ran.err
    assert ran.err.count("train.py:") == 2


SHAPES = """\
import functools

import torch


@functools.cache
def one(x):
    y = (
        x.item()
    )
    return y


def two(x, flag=False):
    if flag:
        return x.item()
    for _ in range(3):
        x = x.tolist()
    with torch.autocast(
        "cuda",
    ):
        def inner():
            return x.item()
    return inner
"""


def test_the_functions_that_a_run_could_judge() -> None:
    found = [(each.name, each.entry) for each in functions_of("a.py", SHAPES)]
    assert found == [("one", 6), ("two", 14), ("two.inner", 22)]
    assert list(functions_of("a.py", SHAPES.replace("torch", "numpy"))) == []


def test_rows_and_entries_are_those_that_ran() -> None:
    rows = range(1, SHAPES.count("\n") + 1)
    namespace: dict[str, object] = {}
    code = compile(SHAPES.replace("import torch", "class torch: pass"), "a.py", "exec")
    reach = Reach(lambda code: code.co_filename, {"a.py": rows})
    with reaching(reach):
        exec(code, namespace)
        with pytest.raises(AttributeError):
            namespace["two"](None)  # type: ignore[operator]
    seen = reach.fields()
    assert {14, 6} <= set(seen["reached"]["a.py"])
    assert {15, 17, 18} <= set(seen["reached"]["a.py"])
    assert {9, 11, 16, 19, 23, 24}.isdisjoint(seen["reached"]["a.py"])
    assert 14 in seen["entered"]["a.py"]
    assert {6, 22}.isdisjoint(seen["entered"]["a.py"])


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="what ran once costs nothing there")
def test_a_long_loop_is_not_watched_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reached, "PATIENCE", 10)
    text = "def f(n):\n    for i in range(n):\n        if i < 0:\n            g()\n"
    namespace: dict[str, object] = {}
    exec(compile(text, "a.py", "exec"), namespace)
    for steps, expected in ((2, ()), (100, (4,))):
        reach = Reach(lambda code: code.co_filename, {"a.py": (4,)})
        with reaching(reach):
            namespace["f"](steps)  # type: ignore[operator]
        assert reach.fields()["reached"].get("a.py", ()) == expected


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="coverage has a number of its own there")
def test_where_another_tracer_takes_over_nothing_is_known() -> None:
    reach = Reach(lambda code: code.co_filename, {__file__: (1,)})

    def measured() -> None:
        sys.settrace(lambda *_: None)

    before = sys.gettrace()
    with reaching(reach):
        measured()
    sys.settrace(before)
    assert reach.fields() == {"reached": {}, "entered": {}}


def observation(**fields: object) -> Observation:
    return Observation("sim", "", RunOutcome.OK, **fields)  # type: ignore[arg-type]


ASKED = RunQuestions(
    [ReportedPlace("a.py", 3, (3, 4)), ReportedPlace("a.py", 9, (), entry=8)],
    [UnreachedFunction("a.py", "f", 8), UnreachedFunction("b.py", "g", 1)],
)


def test_several_runs_reach_together() -> None:
    one = observation(entered={"a.py": (1,)}, reached={"a.py": (4,)})
    other = observation(entered={"a.py": (8,), "b.py": (1,)})
    assert list(unreached(ASKED, [one, other])) == []
    assert list(unreached(ASKED, [one])) == [
        "1 of the 2 places that check reports was not reached: a.py:9",
        "1 of the 1 function with calls that a run can judge was not entered: f (a.py:8)",
        "1 file with such calls was not imported: b.py",
    ]


def test_of_a_run_that_was_killed_nothing_is_known() -> None:
    assert list(unreached(ASKED, [observation()])) == []


def test_many_are_counted() -> None:
    places = [ReportedPlace("a.py", row, (row,)) for row in range(1, 6)]
    [said] = unreached(RunQuestions(places, []), [observation(entered={"a.py": (1,)})])
    assert said.endswith("were not reached: a.py:1, a.py:2, a.py:3 and 2 more")


def test_a_finding_asks_for_the_rows_of_its_statement(tmp_path: Path) -> None:
    text = (
        b"import torch\n\n\ndef f(x):\n    for _ in range(9):\n"
        b"        y = (\n            x.item()\n        )\n"
    )
    found = lint({"a.py": text}, tmp_path).findings
    places = asked_of(found, {"a.py": Text(text.decode())}, ["a.py"]).places
    assert {place.rows for place in places if place.row == 7} <= {(6, 7, 8)}
