"""Which statements make the host wait, asked of a GPU.

    python -m benchmarks.waits_on_gpu [--out DIRECTORY]

Each line of waits_on_gpu.txt is a statement. It runs after `SETUP` on the GPU, under PyTorch's sync
debug mode, which warns each time that the host waits for the device.
Writes waits-GPU-torchVERSION.json: how often each statement waited. tests/oracles/test_waits.py
holds what the rules report against that, on machines without a GPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.verify_on_gpu import machine

HERE = Path(__file__).parent
STATEMENTS = HERE / "waits_on_gpu.txt"
IMPORTS = """\
import copy
import io

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
"""
SETUP = """\
d = "cuda"
x = torch.rand(4, 4, device=d)
y = torch.rand(4, 4, device=d)
v = torch.rand(4, device=d)
m = v > 0.5
i = torch.tensor([0, 1, 2, 3], device=d)
z = torch.tensor(2, device=d)
f = torch.tensor(0.5, device=d)
cpu = torch.rand(4, 4)
pin = torch.rand(4, 4).pin_memory()
arr = np.ones(4, dtype=np.float32)
w = torch.rand(4, 4, device=d, requires_grad=True)
lens = torch.tensor([2, 2, 2, 2], device=d)
model = nn.Linear(4, 4).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
adam = torch.optim.AdamW(model.parameters(), lr=0.1)
adamf = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
scaler = torch.amp.GradScaler("cuda")
model(x).sum().backward()
"""


def statements() -> list[str]:
    return STATEMENTS.read_text(encoding="utf-8").splitlines()


def waits(call: Callable[[], object]) -> int:
    """How often the host waits for the device in a call."""
    torch: Any = importlib.import_module("torch")
    text = importlib.import_module("amplint_verify.backends.cuda").DEBUG_MODE
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum(text in str(warning.message) for warning in caught)


def measured() -> dict[str, int]:
    """How often each statement waits. They run in one module, one after the other."""
    names: dict[str, Any] = {}
    exec(IMPORTS + SETUP, names)
    found = {}
    for line in statements():
        code = compile(line, line, "exec")
        found[line] = waits(partial(exec, code, names))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args(arguments)
    torch: Any = importlib.import_module("torch")
    result = {
        "torch": torch.__version__,
        "GPU": torch.cuda.get_device_name(0),
        "synchronizations": measured(),
    }
    text = json.dumps(result, indent=1)
    (options.out / f"waits-{machine()}.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
