"""Fixes that use a scaler where it may be absent."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.helpers import fix

LOOP = """\
import torch


def train(model, loader, optimizer, use_amp: bool):
    scaler = {scaler}
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
{body}"""
OPTIONAL = 'torch.amp.GradScaler("cuda") if use_amp else None'
CERTAIN = 'torch.amp.GradScaler("cuda")'
SCALED = """
    if {test}:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    """
STEPPED = """
    if {test}:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    """
PLAIN_FIRST = """
    if scaler is None:
        {plain}
    else:
        {scaled}
    """
LEFT = """
    loss.backward()
    if {test}:
        optimizer.step()
        continue
    scaler.step(optimizer)
    scaler.update()
    """


def program(*lines: str, scaler: str = OPTIONAL) -> str:
    body = "".join(indent(dedent(each).strip("\n") + "\n", " " * 8) for each in lines)
    return LOOP.format(scaler=scaler, body=body)


def fixed(tmp_path: Path, text: str) -> str:
    return fix({"a.py": text.encode()}, tmp_path, True, select=("AMP401", "AMP402"))[
        "a.py"
    ].decode()


@pytest.mark.parametrize("test", ["scaler is not None", "scaler", "use_amp"])
def test_what_is_used_under_a_test_is_stepped_under_it(tmp_path: Path, test: str) -> None:
    scaled = SCALED.format(test=test)
    after = fixed(tmp_path, program(scaled, "optimizer.step()"))
    assert after == program(scaled, STEPPED.format(test=test))


@pytest.mark.parametrize("test", ["scaler is not None", "scaler", "use_amp"])
def test_what_is_stepped_under_a_test_scales_under_it(tmp_path: Path, test: str) -> None:
    stepped = STEPPED.format(test=test)
    after = fixed(tmp_path, program("loss.backward()", stepped))
    assert after == program(SCALED.format(test=test), stepped)


def test_the_branches_stand_as_those_of_the_test_do(tmp_path: Path) -> None:
    scaled = PLAIN_FIRST.format(plain="loss.backward()", scaled="scaler.scale(loss).backward()")
    stepped = "scaler.step(optimizer)\n        scaler.update()"
    after = fixed(tmp_path, program(scaled, "optimizer.step()"))
    assert after == program(scaled, PLAIN_FIRST.format(plain="optimizer.step()", scaled=stepped))


@pytest.mark.parametrize("test", ["scaler is None", "not use_amp"])
def test_no_loss_is_scaled_above_the_place_where_a_function_is_left(
    tmp_path: Path, test: str
) -> None:
    text = program(LEFT.format(test=test))
    assert fixed(tmp_path, text) == text


def test_a_scaler_that_is_there_needs_no_test(tmp_path: Path) -> None:
    scaled = "if use_amp:\n    scaler.scale(loss).backward()\nelse:\n    loss.backward()"
    after = fixed(tmp_path, program(scaled, "optimizer.step()", scaler=CERTAIN))
    step = "scaler.step(optimizer)\nscaler.update()"
    assert after == program(scaled, step, scaler=CERTAIN)
    after = fixed(tmp_path, program(LEFT.format(test="loss.isnan()"), scaler=CERTAIN))
    assert "scaler.scale(loss).backward()" in after


def test_under_the_same_test_there_is_no_second_one(tmp_path: Path) -> None:
    under = "if use_amp:\n    scaler.scale(loss).backward()\n    {}\nelse:\n    loss.backward()"
    after = fixed(tmp_path, program(under.format("optimizer.step()")))
    step = "scaler.step(optimizer)\n    scaler.update()"
    assert after == program(under.format(step))
