"""`amplint`, run in this process as a user would."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from amplint.cli import main as cli

LEGACY = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"
MODERN = 'import torch\n\nwith torch.amp.autocast("cuda"):\n    pass\n'
READ = """\
import torch

def train(model, loader):
    for x in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
        print(loss.item())
"""


class Ran(NamedTuple):
    status: int
    out: str
    err: str


class Amplint:
    """Runs `amplint` in this process, in the current directory."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: str) -> Ran:
        self._capfd.readouterr()
        status = cli.main(arguments)
        out, err = self._capfd.readouterr()
        return Ran(status, out, err)
