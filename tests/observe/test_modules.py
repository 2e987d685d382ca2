"""The messages say in which modules something was seen, and in which step first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

Said = Callable[..., list[str]]

HEAD = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, fails=False):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.fails = fails

    def forward(self, x):
        h = self.fc(x)
        if self.fails:
            raise ValueError
        return torch.where(h > 0, h, torch.zeros(4, device=x.device))


class Net(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


"""
MIXED = (
    "`torch.where(h > 0, h, torch.zeros(4, device=x.device))` mixed float16 and float32: "
    "the result is float32"
)


def run(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in ("x = torch.ones(2, 4, device=device)", *lines))
    return f"{HEAD}def run(device):\n{body}"


def test_a_line_of_several_modules_is_one_finding(said: Said) -> None:
    text = run(
        "net = Net([Block(), Block(), Block()]).to(device)",
        "with torch.autocast(device, dtype=torch.float16):",
        "    net(x)",
    )
    [message] = said(text)
    assert message == f"{MIXED} (3 times), in `layers.0` (Block) and 2 more modules"


def test_a_root_is_named_by_its_class(said: Said) -> None:
    text = run(
        "block = Block().to(device)",
        "with torch.autocast(device, dtype=torch.float16):",
        "    block(x)",
    )
    assert said(text) == [f"{MIXED} (once), in `Block`"]


def test_what_is_called_again_by_a_backward_pass_is_the_same_module(said: Said) -> None:
    text = run(
        "net = Net([Block()])",
        "with torch.autocast(device, dtype=torch.float16):",
        "    net(x)",
        "    net.layers[0](x)",
    )
    [message] = said(text.replace("Net([Block()])", "Net([Block()]).to(device)"))
    assert message == f"{MIXED} (2 times), in `layers.0` (Block)"


def test_a_module_that_its_root_does_not_hold(said: Said) -> None:
    text = run(
        "net = nn.Sequential(Block()).to(device)",
        "hidden = [Block().to(device)]",
        "net[0].forward = lambda x: hidden[0](x)",
        "with torch.autocast(device, dtype=torch.float16):",
        "    net(x)",
    )
    assert said(text) == [f"{MIXED} (once), in `0` (Block)"]


def test_an_error_in_a_module_leaves_it(said: Said) -> None:
    text = run(
        "net = Net([Block(fails=True)]).to(device)",
        "try:",
        "    net(x)",
        "except ValueError:",
        "    pass",
        "with torch.autocast(device, dtype=torch.float16):",
        "    torch.where(x > 0, x, x.half())",
    )
    [message] = said(text)
    assert message.endswith("(once)")


def test_the_first_step_is_said_where_it_is_not_the_first_of_all(said: Said) -> None:
    text = run(
        "fc = nn.Linear(4, 4).to(device)",
        "optimizer = torch.optim.SGD(fc.parameters(), lr=0.1)",
        "for step in range(4):",
        "    fc(x).sum().backward()",
        "    optimizer.step()",
        "    if step == 1:",
        "        torch.where(x > 0, x, x.half())",
        "    x.sum().item()",
    )
    read, mixed = said(text)
    assert mixed.endswith("(once in 4 steps), first in step 3")
    assert read == "`x.sum().item()` made the host wait (4 times in 4 steps)"


def test_an_overflow_is_of_the_module_that_computes_it(said: Said) -> None:
    text = run(
        "net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))",
        "nn.init.constant_(net[1].weight, 3e4)",
        "nn.init.constant_(net[0].weight, 3e4)",
        "with torch.autocast('cpu', dtype=torch.float16):",
        "    net(x)",
    )
    [message] = said(text, "policy")
    assert message.endswith("finite (once), in `0` (Linear)")
