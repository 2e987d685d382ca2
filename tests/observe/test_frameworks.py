"""The protocol of a scaler, seen through frameworks; the examples of the docs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.command import Amplint
from tests.helpers import ROOT, write

ACCELERATE = b"""\
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(mixed_precision="fp16")
    model = nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(torch.randn(32, 8), torch.randn(32, 1)), batch_size=8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        CLIP(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


main()
"""
LIGHTNING = b"""\
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 1)
        self.history = []

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.history.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


loader = DataLoader(TensorDataset(torch.randn(32, 8), torch.randn(32, 1)), batch_size=8)
L.Trainer(
    max_epochs=1, precision="16-mixed", accelerator="gpu", devices=1, logger=False,
    enable_checkpointing=False, enable_progress_bar=False,
).fit(Model(), loader)
"""
PROGRAMS = {
    "clipped past accelerate": (
        "accelerate",
        ACCELERATE.replace(b"CLIP", b"nn.utils.clip_grad_norm_"),
        "train.py:16:9: AMP404",
    ),
    "clipped by accelerate": (
        "accelerate",
        ACCELERATE.replace(b"CLIP", b"accelerator.clip_grad_norm_"),
        "",
    ),
    "a read in a step of Lightning": ("lightning", LIGHTNING, "train.py:16:29: AMP101"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_framework_makes_the_calls(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    framework, program, expected = PROGRAMS[name]
    pytest.importorskip(framework)
    monkeypatch.chdir(write({"train.py": program, "pyproject.toml": b""}, tmp_path))
    ran = Amplint(capfd)(
        "observe", "--backend", "sim", "--format", "concise", "--script", "train.py"
    )
    assert ran.out.startswith(expected)
    assert len(ran.out.splitlines()) == (1 if expected else 0), ran.err
    assert "saw 4 steps of training" in ran.err


PAGE = (ROOT / "docs" / "observe.md").read_text(encoding="utf-8")
EXAMPLES = {
    "A plain loop": (
        "torch",
        ("-m", "amplint", "observe", "--backend", "sim", "--steps", "3", "--script", "train.py"),
    ),
    "accelerate": (
        "accelerate",
        ("-m", "pytest", "-p", "amplint_verify.observing.plugin", "-q", "--amplint-observe"),
    ),
    "Lightning": ("lightning", ("train.py",)),
}
CHANGES = re.compile(r"in a copy of .*|passed in .*")


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_of_the_docs_says_what_it_says_there(title: str, tmp_path: Path) -> None:
    framework, arguments = EXAMPLES[title]
    pytest.importorskip(framework)
    example = PAGE.partition(f"\n### {title}, ")[2].partition("\n### ")[0]
    files = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", example, re.DOTALL))
    write(
        {"pyproject.toml": b"", **{name: text.encode() for name, text in files.items()}}, tmp_path
    )
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "80"},
        check=False,
    )
    (shown,) = re.findall(r"```console\n\$ .*?\n(.*?)```", example, re.DOTALL)
    said = set(CHANGES.sub("", done.stdout + done.stderr).splitlines())
    assert [line for line in CHANGES.sub("", shown).splitlines() if line not in said] == []
