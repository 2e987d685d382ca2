"""`observe --save`: what is written is what the program gave, at the place where it gave it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from amplint.project import observations
from amplint.project.observations import ObservedFunction
from amplint_verify.observing.saving import both, joined, merged
from tests.command import Amplint
from tests.helpers import write

PROGRAM = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, batch, *, scale=None):
        weight = self.layer.weight
        x = batch["x"] * 2
        h = (
            self.layer(x)
            .relu()
        )
        first = h[0]
        many = list(map(self.double, [h, x]))
        top = max([h.sum(), h.mean()], key=self.key)
        return {"h": h, "all": (first, many[1], weight, 1), "top": top}

    @torch.no_grad()
    def double(self, value):
        return value + value

    def key(self, value):
        return value.float()


def items(x):
    yield x
    yield x.double()


def run(steps=3):
    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        x = torch.ones(2, 4, device="cuda")
        with torch.autocast("cuda", torch.float16):
            out = net({"x": x, "n": 3}, scale=None)
        for each in items(x):
            each.sum()
        out["h"].float().sum().backward()
        optimizer.step()


run()
"""
HALF, FULL, PLACE = "float16 cuda 1", "float32 cuda 1", "float16 cuda 0"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("project")
    return write({"train.py": PROGRAM.encode(), "pyproject.toml": b"[tool.amplint]\n"}, directory)


@pytest.fixture
def amplint(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: Path
) -> Amplint:
    monkeypatch.chdir(root)
    return Amplint(capfd)


@pytest.fixture
def saved(amplint: Amplint, root: Path) -> dict[str, Any]:
    """The functions in the file, which is written once."""
    if not (root / observations.FILE).exists():
        done = amplint("observe", ".", "--save", "--script", "train.py")
        assert done.status in (0, 1), done.err
        assert "functions is in .amplint/observations.json" in done.err
    functions: dict[str, Any] = json.loads((root / observations.FILE).read_text())["functions"]
    return functions


def at(saved: dict[str, Any], function: str, text: str, kind: str) -> Any:
    """What an expression of a function gave; the text stands once in it."""
    lines = PROGRAM.splitlines()
    head = f"def {function.rpartition('.')[2]}("
    first = next(n for n, line in enumerate(lines) if head in line)
    row = next(n for n in range(first, len(lines)) if text in lines[n])
    column = lines[row].index(text)
    location = row + 1, column, row + 1, column + len(text)
    place = observations.place(kind, location, first + 1)
    return saved[f"train.py::{function}"].get("expressions", {}).get(place)


def test_parameters(saved: dict[str, Any]) -> None:
    forward = saved["train.py::Net.forward"]
    assert forward["parameters"] == {"batch": [{"n": "other", "x": FULL}]}
    assert forward["regions"] == ["float16"]
    assert forward["every_step"]
    assert saved["train.py::Net.double"]["parameters"] == {"value": [HALF, FULL]}
    assert not saved["train.py::Net.double"].get("every_step")  # without gradients


@pytest.mark.parametrize(
    ("function", "text", "kind", "given"),
    [
        ("Net.forward", "self.layer.weight", "attribute", [FULL]),
        ("Net.forward", 'batch["x"] * 2', "operation", [FULL]),
        ("Net.forward", "self.layer(x)", "call", [HALF]),
        ("Net.forward", ".relu()", "call", [HALF]),
        ("Net.forward", "h[0]", "subscript", [HALF]),
        ("Net.forward", "list(map(self.double, [h, x]))", "call", None),
        ("Net.forward", "max([h.sum(), h.mean()], key=self.key)", "call", None),
        ("Net.double", "value + value", "operation", [HALF, FULL]),
        (
            "run", 'net({"x": x, "n": 3}, scale=None)', "call",
            [{"all": [HALF, FULL, FULL, "other"], "h": HALF, "top": "float32 cuda 0"}],
        ),
        ("run", "items(x)", "call", None),
        ("run", 'torch.ones(2, 4, device="cuda")', "call", [FULL]),
        ("run", 'out["h"].float()', "call", [FULL]),
    ],
)  # fmt: skip
def test_expressions(
    saved: dict[str, Any], function: str, text: str, kind: str, given: object
) -> None:
    assert at(saved, function, text, kind) == given


def test_nothing_of_the_machine_is_in_the_file(saved: dict[str, Any], root: Path) -> None:
    text = (root / observations.FILE).read_text()
    assert str(root) not in text
    assert "/tmp" not in text
    assert [each["runs"] for each in saved.values()] == [["python train.py"]] * len(saved)


def test_a_second_run_changes_nothing(saved: dict[str, Any], amplint: Amplint, root: Path) -> None:
    before = (root / observations.FILE).read_bytes()
    amplint("observe", ".", "--save", "--script", "train.py")
    assert saved
    assert (root / observations.FILE).read_bytes() == before


def seen(text: str, **fields: Any) -> ObservedFunction:
    return ObservedFunction(text, ["python a.py"], **fields)


def test_runs_are_joined() -> None:
    one = seen("1", parameters={"x": [HALF]}, regions=["float16"])
    other = ObservedFunction("1", ["pytest"], parameters={"x": [FULL], "y": [FULL]})
    found = both(one, other)
    assert found.runs == ["python a.py", "pytest"]
    assert found.parameters == {"x": [HALF, FULL], "y": [FULL]}
    assert both(found, one) == found


def test_what_has_changed_is_dropped_and_what_is_gone() -> None:
    before = {"a.py::f": seen("1"), "a.py::g": seen("2"), "a.py::h": seen("3")}
    new = {"a.py::f": seen("4")}
    assert joined(before, new, {"a.py::f": "4", "a.py::g": "2", "a.py::h": "5"}) == {
        "a.py::f": seen("4"), "a.py::g": seen("2"),
    }  # fmt: skip


def test_a_run_that_tells_no_device_adds_none() -> None:
    assert merged([HALF], ["float16 ? 1"]) == [HALF]
    assert merged(["float16 ? 1"], [HALF]) == [HALF]
    assert merged([HALF], ["float32 ? 1"]) == [HALF, "float32 ? 1"]
    assert merged([{"x": HALF}], [{"x": "float16 ? 1"}]) == [{"x": HALF}]
