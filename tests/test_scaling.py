"""The paths of a training step: what is followed, and where amplint rather says nothing."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from amplint import paths
from tests.helpers import lint

TRAIN = """\
import torch
from torch.nn.utils import clip_grad_norm_

def train(model, loader, optimizer, flags, scaler: torch.amp.GradScaler):
    for i, (x, y) in enumerate(loader):
{body}
"""


def found(body: str, directory: Path) -> list[str]:
    """The codes of the protocol that are found in the body of a loop."""
    program = TRAIN.format(body=indent(dedent(body), " " * 8))
    outcome = lint({"train.py": program.encode()}, directory)
    assert not outcome.problems
    return [f.code for f in outcome.findings if f.code.startswith("AMP4")]


def test_more_paths_than_are_followed(tmp_path: Path) -> None:
    """With few flags it is found; with many, nothing is said."""
    few, many = (
        "".join(f"if flags.f{n}:\n    optimizer.zero_grad()\n" for n in range(count))
        + "scaler.scale(model(x)).backward()\nclip_grad_norm_(model.parameters(), 1.0)\n"
        + "scaler.step(optimizer)\nscaler.update()\n"
        for count in (2, 12)
    )
    assert paths.LIMITS["paths"] < 2**12
    assert found(few, tmp_path / "few") == ["AMP404"]
    assert found(many, tmp_path / "many") == []


@pytest.mark.parametrize(
    "test",
    [
        "flags.amp",
        "not flags.amp",
        "flags.amp is None",
        "flags.mode == 'amp'",
        "flags.a and flags.b",
    ],
)
def test_the_same_test_is_decided_the_same_way(test: str, tmp_path: Path) -> None:
    body = f"""
        scaler.scale(model(x)).backward()
        if {test}:
            scaler.unscale_(optimizer)
        if {test}:
            clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        """
    assert found(body, tmp_path) == []
    forgotten = body.replace("scaler.unscale_(optimizer)", "pass")
    assert found(forgotten, tmp_path / "forgotten") == ["AMP404"]


@pytest.mark.parametrize("leaves", ["continue", "return", "raise ValueError", "break"])
def test_paths_end_where_the_code_says_so(leaves: str, tmp_path: Path) -> None:
    body = """
        optimizer.zero_grad()
        model(x).mean().backward()
        {leaves}
        scaler.step(optimizer)
        scaler.update()
        """
    assert found(body.format(leaves=leaves), tmp_path) == []
    sometimes = f"if i > 3:\n            {leaves}"
    assert found(body.format(leaves=sometimes), tmp_path / "sometimes") == ["AMP402"]


@pytest.mark.parametrize(
    "call", ["flags.hook(optimizer)", "flags.callbacks.on_after_backward(model)", "flags.f(scaler)"]
)
def test_what_an_unknown_function_does_is_in_order(call: str, tmp_path: Path) -> None:
    body = """
        scaler.scale(model(x)).backward()
        {call}
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        """
    assert found(body.format(call=call), tmp_path) == []
    assert found(body.format(call="print(x)"), tmp_path / "harmless") == ["AMP404"]
