"""Adam on bfloat16 parameters (AMP806) in projects that keep small steps, and clipping of sharded
models (AMP420) under tests."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers import lint

ADAM = """
import torch
import torch.nn.functional as F

def train(loader, library, mesh):
    model = torch.nn.Linear(8, 4).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    {line}
    for x, y in loader:
        F.mse_loss(model(x), y).backward()
        optimizer.step()
"""
CLIP = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

def train(net, loader, args):
    model = FSDP(net)
    for x, y in loader:
        model(x).sum().backward()
        {test}
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""


def reported(text: str, code: str, folder: Path) -> Sequence[str]:
    outcome = lint({"train.py": textwrap.dedent(text).encode()}, folder, select=(code,))
    return [finding.code for finding in outcome.findings]


@pytest.mark.parametrize("line", ["print(optimizer)", "shards = len(mesh)"])
def test_lost(line: str, tmp_path: Path) -> None:
    assert reported(ADAM.format(line=line), "AMP806", tmp_path) == ["AMP806"]


@pytest.mark.parametrize(
    "line",
    [
        "library.use_stochastic_rounding(optimizer)",
        "optimizer.add_master_weights()",
        "library.fully_shard(mesh, mp_policy=library.policy)",
        "library.KahanSum(optimizer)",
    ],
)
def test_kept(line: str, tmp_path: Path) -> None:
    assert not reported(ADAM.format(line=line), "AMP806", tmp_path)


@pytest.mark.parametrize("test", ["if args.max_norm > 0:", "with torch.no_grad():"])
def test_sharded(test: str, tmp_path: Path) -> None:
    assert reported(CLIP.format(test=test), "AMP420", tmp_path) == ["AMP420"]


@pytest.mark.parametrize(
    "test",
    [
        "if not args.fsdp:",
        "if args.strategy == 'ddp':",
        "if not hasattr(model, 'clip_grad_norm_'):",
        "if not isinstance(model, FSDP):",
    ],
)
def test_perhaps_whole(test: str, tmp_path: Path) -> None:
    assert not reported(CLIP.format(test=test), "AMP420", tmp_path)
