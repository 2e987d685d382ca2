"""Half training without a scaler (AMP308), where a flag decides about one of them."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers import lint

TRAIN = """
import torch
import torch.nn.functional as F

def train(model, loader, optimizer, args, use_amp, use_cuda, dtype, fused):
    scaler = torch.amp.GradScaler("cuda"{scaler})
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"{region}):
            loss = F.mse_loss(model(x.cuda()), y.cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
# The names are those of the module, as in many a script that trains a language model.
SCRIPT = """
import torch
from torch import nn

device = {device}
dtype = {dtype}

def train(model: nn.Module, loader):
    model.to(device)
    scaler = torch.amp.GradScaler(enabled=(dtype == "float16"))
    for x in loader:
        with torch.autocast(device_type=device, dtype=getattr(torch, dtype)):
            loss = model(x.to(device)).mean()
        scaler.scale(loss).backward()
"""
BRANCH = """
import torch
import torch.nn.functional as F

def train(model, loader, optimizer, use_amp, fused):
    for x, y in loader:
        optimizer.zero_grad()
        if use_amp:
            with torch.autocast("cuda"):
                loss = F.mse_loss(model(x.cuda()), y.cuda())
        else:
            loss = F.mse_loss(model(x.cuda()), y.cuda())
{backward}
        optimizer.step()
"""
CHOOSES = """\
        if use_amp:
            fused(loss)
        else:
            loss.backward()
"""
LEAVES = """\
        if use_amp:
            fused(loss)
            continue
        loss.backward()
"""


def reported(text: str, folder: Path) -> Sequence[str]:
    outcome = lint({"train.py": textwrap.dedent(text).encode()}, folder)
    lines = text.splitlines()
    return [lines[f.span.start.row - 1].strip() for f in outcome.findings if f.code == "AMP308"]


@pytest.mark.parametrize(
    ("scaler", "region", "is_reported"),
    [
        (", enabled=False", "", True),
        (", enabled=False", ", enabled=use_amp", True),
        (", enabled=use_amp", "", False),
        (", enabled=use_amp", ", enabled=use_amp", False),
        (", enabled=False", ", dtype=torch.bfloat16", False),
        (", enabled=False", ", enabled=False", False),
        ("", ", enabled=use_amp", False),  # a scale too many, which is divided out again
    ],
)
def test_a_scaler_is_off_where_the_region_is_on(
    scaler: str, region: str, is_reported: bool, tmp_path: Path
) -> None:
    found = reported(TRAIN.format(scaler=scaler, region=region), tmp_path)
    assert found == ["scaler.scale(loss).backward()"] * is_reported


@pytest.mark.parametrize(
    ("backward", "is_reported"),
    [
        ("        loss.backward()", True),
        ("        if not use_amp:\n            loss.backward()", False),
        (CHOOSES, False),
        (LEAVES, False),
    ],
)
def test_a_loss_of_a_branch_is_half_where_that_is_taken(
    backward: str, is_reported: bool, tmp_path: Path
) -> None:
    found = reported(BRANCH.format(backward=backward), tmp_path)
    assert found == ["loss.backward()"] * is_reported


@pytest.mark.parametrize(
    ("device", "dtype", "is_reported"),
    [
        ('"cuda" if has_cuda else "mps"', '"bfloat16" if is_bf16_supported() else "float16"', True),
        ('"cuda" if has_cuda else "mps"', '"float16" if is_bf16_supported() else "float32"', False),
        ('"cuda" if has_cuda else "mps"', '"bfloat16" if is_cuda() else "float16"', False),
        ('"cuda" if has_cuda else "mps"', "dtype_of(device)", False),
        (
            '"cuda" if has_cuda else "cpu"',
            '"bfloat16" if is_bf16_supported() else "float16"',
            False,
        ),
    ],
)
def test_a_dtype_switches_the_scaler_of_another_device(
    device: str, dtype: str, is_reported: bool, tmp_path: Path
) -> None:
    script = SCRIPT.format(device=device, dtype=dtype)
    outcome = lint({"train.py": script.encode()}, tmp_path, select=["AMP316"])
    assert [each.code for each in outcome.findings] == ["AMP316"] * is_reported


@pytest.mark.parametrize(
    ("scaler", "region", "is_reported"),
    [
        (', enabled=args.dtype == "float16"', "", True),
        (", enabled=dtype == torch.float16", "", True),
        (', enabled="float16" == "float16"', "", False),
        (', enabled=args.dtype == "bfloat16"', "", False),
        (', enabled=args.dtype != "float16"', "", False),
        (', enabled=args.dtype == "float16"', ", enabled=use_amp", False),
        (', enabled=args.dtype == "float16"', ", dtype=dtype", False),
    ],
)
def test_a_region_is_float16_whatever_switches_the_scaler(
    scaler: str, region: str, is_reported: bool, tmp_path: Path
) -> None:
    lines = reported(TRAIN.format(scaler=scaler, region=region), tmp_path)
    assert lines == ['with torch.autocast("cuda"):'] * is_reported
