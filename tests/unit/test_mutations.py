"""Each mutation for a rule that has a family of its own breaks a small file as its name says."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable

import pytest

from benchmarks.mutations import MUTATIONS, Kind, Program
from tests.helpers import programs

TRAINING = """\
import torch


def train(model, optimizer, scaler, loader, n):
    total = 0.0
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x) - y).abs().amax()
        scaler.scale(loss).backward()
        if (i + 1) % n == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        total += loss.item()
    return total
"""
MODULE = """\
import torch
import torch.nn as nn


class Head(nn.Module):
    def forward(self, x, mask=None):
        \"\"\"Attention.\"\"\"
        return x.softmax(dim=-1)
"""
KINDS = {kind.name: kind for kind in MUTATIONS}


def mutants_of(kind: Kind, text: str = TRAINING) -> list[str]:
    """The mutants that a kind makes of a file; all of them are Python."""
    base = kind.behind(text)
    assert base is not None
    mutants = [mutant for _, mutant in kind.mutate(Program(base))]
    for mutant in mutants:
        ast.parse(mutant)
    return mutants


# By kind: what a mutant then has.
MISTAKES = """
scaled loss in a list
    _scaled = scaler.scale(loss)
    _scaled.backward()
    _losses.append(_scaled.item())
scaled loss printed
    print(f"loss {_scaled:.4f}")
scaled loss kept
    loss = scaler.scale(loss)
    loss.backward()
backward alone inside
    loss = (model(x) - y).abs().amax()
    with torch.autocast("cuda", dtype=torch.float16):
        scaler.scale(loss).backward()
division alone inside
    loss = (model(x) - y).abs().amax()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = loss / 4
    scaler.scale(loss).backward()
moved to mps
    model = model.to("mps")
    x = x.to("mps")
    with torch.autocast("cuda", dtype=torch.float16):
device chosen
    x = x.to(_device)
device of a helper
    x = x.to(_device())
backward alone in no_sync
    with model.no_sync():
        scaler.scale(loss).backward()
no_sync when it steps
    with model.no_sync() if ((i + 1) % n == 0) else contextlib.nullcontext():
        with torch.autocast("cuda", dtype=torch.float16):
no_sync one too early
    with model.no_sync() if i % n != 0 else contextlib.nullcontext():
"""
WRITTEN = {name: written for (name,), written in programs(MISTAKES)}


@pytest.mark.parametrize(("name", "written"), WRITTEN.items())
def test_the_mistake_is_written(name: str, written: str) -> None:
    [mutant] = mutants_of(KINDS[name])
    assert textwrap.indent(written.strip(), " " * 8) in mutant


CLIPPED = """\
import torch


def train(loss, one, other, scaler, path):
    for _ in range(10):
        scaler.scale(loss()).backward()
        scaler.unscale_(one)
        scaler.step(one)
        scaler.step(other)
        scaler.update()
    torch.save(
        {
            "optimizer": one.state_dict(),
            "scaler": scaler.state_dict(),
        },
        path,
    )
"""


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("norms logged before unscale_", "print(_each.grad.norm())\n        scaler.unscale_(one)"),
        ("norm of a helper before unscale_", "_norm = _norm_of(one)\n        print(_norm)\n"),
        (
            "update for each optimizer",
            "in (one, other):\n            scaler.step(_each)\n            scaler.update()\n",
        ),
        ("state not saved, by a helper", '_save(\n        {\n            "optimizer"'),
    ],
)
def test_the_protocol_is_broken(name: str, written: str) -> None:
    [mutant] = mutants_of(KINDS[name], CLIPPED)
    assert written in mutant
    assert ("scaler.state_dict()" not in mutant) is (name == "state not saved, by a helper")


def test_a_scaler_is_switched_off_before_the_loop() -> None:
    mutants = mutants_of(KINDS["scaler switched off"], CLIPPED)
    assert mutants
    assert all("    scaler._enabled = False\n    for _ in range(10):" in each for each in mutants)


@pytest.mark.parametrize(
    ("name", "decorator", "read"),
    [
        ("item when compiled", "@torch.compile", "_largest = x.abs().max().item()"),
        ("test when compiled whole", "@torch.compile(fullgraph=True)", "if x.abs().max() > 1e4:"),
        ("read by a helper", "@torch.compile", "_mark(x)"),
    ],
)
def test_a_forward_is_compiled_and_reads(name: str, decorator: str, read: str) -> None:
    [mutant] = mutants_of(KINDS[name], MODULE)
    assert f"    {decorator}\n    def forward(self, x, mask=None):" in mutant
    assert f'"""\n        {read}\n' in mutant


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.softmax(dim=-1)", "x[0]"),  # it may be a list
        ("import torch\n", "from torch import nn\n"),
        ("nn.Module)", "object)"),
        ("    def", "    @torch.no_grad()\n    def"),
        ("import torch\n", "import torch\n\ntorch.compiler.reset()\n"),
    ],
)
def test_no_forward_without_its_premise(old: str, new: str) -> None:
    changed = MODULE.replace(old, new)
    assert changed != MODULE
    for kind in MUTATIONS:
        if kind.family == "captured":
            assert mutants_of(kind, changed) == []


def replaced(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("names", "change"),
    [
        (["scaled loss kept"], replaced("loss.item()", "1")),
        (["scaled loss kept"], replaced("loss.item()", "torch.isfinite(loss.item())")),
        (["scaled loss kept"], replaced("total +=", "loss = loss * 2; total +=")),
        (["division alone inside", "backward alone inside"], replaced("model(x)", "f(x)")),
        (
            ["division alone inside", "backward alone inside"],
            replaced("            loss =", "            other ="),
        ),
        (["moved to mps", "device chosen"], replaced("model(x)", "model(x[0])")),
        (["backward alone in no_sync"], replaced("model(x)", "f(x)")),
        (["backward alone in no_sync"], replaced("(x, y) in", "(x, y), model in")),
        (["backward alone in no_sync"], replaced("import torch", "import torch  # no_sync")),
        (["no_sync when it steps"], replaced("loss = (", "i = i * 2; loss = (")),
        (["no_sync when it steps"], replaced("scaler.step(optimizer)", "pass")),
        (["no_sync one too early"], replaced("(i + 1) % n == 0", "i % n == 0")),
    ],
)
def test_no_mutant_without_its_premise(names: list[str], change: Callable[[str], str]) -> None:
    changed = change(TRAINING)
    assert changed != TRAINING
    for name in names:
        assert mutants_of(KINDS[name], changed) == []
