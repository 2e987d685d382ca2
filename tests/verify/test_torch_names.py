"""A torch that lacks a name of the tables, and one that nobody has tried."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from amplint_verify import torch_range
from amplint_verify.torch_names import UNTIL, Absent, aten

HARNESS = Path(torch_range.__file__).parent

PROGRAM = """
import torch
from torch import nn

def main(device):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler(device)
    for _ in range(2):
        x = torch.zeros(2, 4).to(device)
        with torch.autocast(device, dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), torch.zeros_like(x).argmax(1))
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return loss.detach()
"""
# Runs the program on a back end with each name absent in turn, in a process that is forked for it.
# What torch imports late is there before; the harness is imported anew, and asks for its names.
# Prints where that failed.
WITHOUT = """
import os, sys
import torch, torch.utils.data, torch._dynamo
import amplint_verify.backends.sim, amplint_verify.recording.watching

for module in [name for name in sys.modules if name.startswith("amplint_verify")]:
    del sys.modules[module]

from amplint_verify.runs import child
from amplint_verify.runs.spec import Spec
from amplint_verify.torch_names import Absent, Operations

look_up = Operations.__getattr__
root, backend, *names = sys.argv[1:]

def run(name):
    def without(self, asked):
        return Absent(asked) if asked == name else look_up(self, asked)
    Operations.__getattr__ = without
    spec = Spec(root, "program:main", backend, args=("{device}",), watched=True, timeline=True)
    seen = child.observe(spec)
    if seen.error not in ("", "NotSimulableError"):  # what needs the operation cannot be simulated
        print(name, seen.outcome, seen.error, seen.text, flush=True)

for name in names:
    forked = os.fork()
    if forked == 0:
        try:
            run(name)
        except BaseException as error:
            print(name, repr(error), flush=True)
        os._exit(0)
    os.waitpid(forked, 0)
"""


def named() -> Iterator[str]:
    """The operations that modules of the harness name."""
    for path in HARNESS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "import aten" in text:
            yield from (
                word.removeprefix("aten.")
                for word in text.replace("(", " ").replace(",", " ").replace(":", " ").split()
                if word.startswith("aten.")
            )


def operations() -> list[str]:
    return sorted({name.partition(".")[0].rstrip(")}") for name in named()} - {""})


@pytest.mark.parametrize("backend", ["sim", "policy"])
def test_the_back_ends_start_without_any_one_of_the_operations(
    backend: str, tmp_path: Path
) -> None:
    names = operations()
    assert len(names) > 60
    if backend == "policy":  # which has the same tables, and the overloads that it replaces
        names = ["cholesky", "linear", "lstm", "conv2d", "none_of_them"]
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path), backend, *names],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(HARNESS.parent)},
    )
    assert done.stdout.splitlines() == []


def test_what_the_installed_torch_lacks_is_in_the_table() -> None:
    version = torch_range.minor(torch.__version__)
    gone = {name for name, last in UNTIL.items() if torch_range.minor(last) < version}
    assert {name for name in operations() if isinstance(getattr(aten, name), Absent)} == gone


@pytest.mark.parametrize("version", ["2.4.0", "2.13.0+cpu", "2.15.0"])
def test_nothing_is_said_of_a_torch_that_was_tried(version: str) -> None:
    assert torch_range.remark(version) is None


@pytest.mark.parametrize("version", ["2.3.1", "2.99.0", "3.0.0a0+git1234"])
def test_one_line_says_that_a_torch_was_not_tried(version: str) -> None:
    said = torch_range.remark(version)
    assert said is not None
    assert version in said
    assert torch_range.NEWEST in said
    assert "\n" not in said


def test_a_torch_that_was_not_tried_and_does_not_start_is_not_supported_yet() -> None:
    said = torch_range.not_started("policy", "AttributeError: gone", "2.99.0")
    assert said == "amplint does not support torch 2.99.0 yet (AttributeError: gone)"
    said = torch_range.not_started("policy", "AttributeError: gone", torch_range.NEWEST)
    assert said == "the back end policy did not start: AttributeError: gone"
