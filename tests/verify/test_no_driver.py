"""A build of torch for CUDA on a machine without a driver: programs still run on the CPU back ends.

Seen with such a build of torch 2.15: a step of Adam asked `torch.accelerator` for its stream, and a
loader's thread pinned memory; each raised, so that every fix was inconclusive.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplint_verify.recording.observation import RunOutcome
from amplint_verify.runs.spec import Spec

pytest.importorskip("torch")

# What such a build does: it says that it is one for CUDA, and raises where CUDA is asked for.
WITHOUT_DRIVER = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def no_driver(*_, **__):
    raise RuntimeError("Found no NVIDIA driver on your system.")


asks = [each for each in dir(torch._C) if each.startswith(("_cuda_get", "_accelerator_"))]
asks += ["_cuda_init", "_cuda_getDevice", "_cuda_setDevice", "_cuda_isCurrentStreamCapturing"]
for name in asks:
    setattr(torch._C, name, no_driver)
torch._C._accelerator_getAccelerator = lambda: torch.device("cuda")
torch.version.cuda = "13.0"
torch.backends.cuda.is_built = lambda: True
"""
PROGRAMS = {
    "adam": '''
def run(device):
    model = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=1.0)  # else the step is skipped
    with torch.autocast("cuda"):
        loss = model(torch.ones(3, 4, device=device)).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.item()
''',
    "pinned": '''
def run(device):
    data = TensorDataset(torch.arange(4.0))
    loader = DataLoader(data, batch_size=2, pin_memory=True, num_workers=1)
    return sum(x.to(device, non_blocking=True).sum().item() for (x,) in loader)
''',
    "state of generators": '''
def run(device):
    torch.cuda.manual_seed_all(1)
    state = torch.cuda.get_rng_state()
    with torch.random.fork_rng():
        torch.randn(2)
    torch.cuda.set_rng_state(state)
    torch.cuda.empty_cache()
    return torch.randn(2, device=device)
''',
    "without a GPU": '''
def run(device):
    model = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
        loss = model(torch.ones(3, 4, device=device)).sum()
    loss.backward()
    with torch.random.fork_rng(enabled=False):
        optimizer.step()
    return loss.item()
''',
    "accelerator": '''
def run(device):
    kind = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    torch.accelerator.synchronize()
    with torch.cuda.device(0):
        return torch.ones(2, device=kind) * 2
''',
    "number of a device": '''
def run(device):
    first = torch.device(torch.cuda.current_device())
    return torch.ones(2).to(first) + torch.zeros(2, device=first)
''',
}  # fmt: skip


@pytest.mark.parametrize("backend", ["sim", "policy"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_runs_where_cuda_raises(name: str, backend: str, tmp_path: Path, runner: Any) -> None:
    (tmp_path / "program.py").write_text(WITHOUT_DRIVER + PROGRAMS[name])
    seen = runner.run(Spec(str(tmp_path), "program:run", backend, ("{device}",)))
    assert (seen.outcome, seen.text) == (RunOutcome.OK, "")


def test_on_the_cpu_a_program_that_names_no_gpu_runs(tmp_path: Path, runner: Any) -> None:
    (tmp_path / "program.py").write_text(WITHOUT_DRIVER + PROGRAMS["without a GPU"])
    seen = runner.run(Spec(str(tmp_path), "program:run", "cpu", ("{device}",)))
    assert (seen.outcome, seen.text) == (RunOutcome.OK, "")
