"""What a finding says to do fits the place: helps that differ from that of the rule."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.helpers import lint

LOOP = """
import math, sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import wandb
from align.core import maximum_path
from scipy.optimize import linear_sum_assignment


def train(model: nn.Module, loader, optimizer):
    for x, lengths in loader:
        x, lengths = x.cuda(), lengths.cuda()
        norm = x.norm()
        {line}
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
REGION = """
import torch
import torch.nn as nn
import torch.nn.functional as F

layer = nn.Linear(8, 8).cuda()


def forward(x: torch.Tensor, eps: float):
    with torch.autocast("cuda", dtype=torch.float16):
        h = layer(x.cuda())
        {line}
"""
NO_REGION = REGION.replace("dtype=torch.float16", "enabled=False")
# Of rules and programs: how the help begins, and the lines to which it is given.
HELPS: Mapping[tuple[str, str], Mapping[str, Sequence[str]]] = {
    ("AMP105", LOOP): {
        "keep lengths on the host as a list": ["y = x[: lengths.max()]"],
        "compute the number on the host": ["y = x[lengths.max()]"],
    },
    ("AMP802", REGION): {
        "divide in float32": [
            "return h / (h.mean(-1, keepdim=True) + 1e-8)",
            "low = h.abs() + 1e-8; return x / low",
        ],
        "compute this in float32": ["return torch.log(h + 1e-8)", "return (h + 1e-8) / x.cuda()"],
    },
    ("AMP802", NO_REGION): {
        "pass `x.float()`": ["return F.cosine_similarity(h.half(), h.half())"],
    },
}
CASES = [
    pytest.param(code, program, line, beginning, id=f"{code}: {line}")
    for (code, program), helps in HELPS.items()
    for beginning, lines in helps.items()
    for line in lines
]


def helps(code: str, source: str, directory: Path) -> list[str]:
    findings = lint({"m.py": source.encode()}, directory, select=(code,)).findings
    return [finding.help for finding in findings]


@pytest.mark.parametrize(("code", "program", "line", "beginning"), CASES)
def test_the_advice_is_by_what_happens_with_the_value(
    code: str, program: str, line: str, beginning: str, tmp_path: Path
) -> None:
    found = helps(code, program.format(line=line), tmp_path)
    assert found and all(each.startswith(beginning) for each in found)


@pytest.mark.parametrize(
    ("outer", "beginning"),
    [("", "open the region inside"), ("with torch.autocast('cuda'):", "remove this outer region")],
)
def test_frozen_training_is_undone_where_it_is_caused(
    outer: str, beginning: str, tmp_path: Path
) -> None:
    source = f"""
import torch


def train(model, loader, criterion, optimizer):
    with torch.autocast("cuda"):
        for x, y in loader:
            {outer or "if True:"}
                loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""
    found = lint({"m.py": source.encode()}, tmp_path, select=("AMP302",)).findings
    assert [finding.help.startswith(beginning) for finding in found] == [True]
    assert found[0].message.endswith("reuses its first casts of the weights: nothing is learned")


@pytest.mark.parametrize(
    ("line", "error", "beginning"),
    [
        ("with torch.autocast(x.device): pass", "ValueError", "pass the type of the device"),
        ("with torch.autocast('cuda', dtype='half'): pass", "TypeError", "pass a dtype"),
        ("with torch.autocast('cuda', True): pass", "TypeError", "write `with"),
        ("with torch.autocast('gpu'): pass", "RuntimeError", "write `with"),
        ("torch.autocast('cuda')", "nothing enters it", "enter it with `with`"),
    ],
)
def test_a_miscalled_autocast_names_its_error(
    line: str, error: str, beginning: str, tmp_path: Path
) -> None:
    source = f"import torch\n\nx = torch.ones(2)\n{line}\n"
    found = lint({"m.py": source.encode()}, tmp_path, select=("AMP307",)).findings
    assert [finding.help.startswith(beginning) for finding in found] == [True]
    assert error in found[0].message
