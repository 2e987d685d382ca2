"""The messages say in which modules something was seen, and in which step first."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent

import pytest

from tests.helpers import programs

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
HALVED = MIXED.replace("h > 0, h, torch.zeros(4, device=x.device)", "x > 0, x, x.half()")


# Of each program: what is said of its first mistake, and the end of what is said of a second one.
PROGRAMS = """
a line of several modules is one finding | MIXED (3 times), in `layers.0` (Block) and 2 more modules
    net = Net([Block(), Block(), Block()]).to(device)
    with torch.autocast(device, dtype=torch.float16):
        net(x)
a root is named by its class | MIXED (once), in `Block`
    block = Block().to(device)
    with torch.autocast(device, dtype=torch.float16):
        block(x)
what is called again by a backward pass is the same module | MIXED (2 times), in `layers.0` (Block)
    net = Net([Block()]).to(device)
    with torch.autocast(device, dtype=torch.float16):
        net(x)
        net.layers[0](x)
a module that its root does not hold | MIXED (once), in `0` (Block)
    net = nn.Sequential(Block()).to(device)
    hidden = [Block().to(device)]
    net[0].forward = lambda x: hidden[0](x)
    with torch.autocast(device, dtype=torch.float16):
        net(x)
an error in a module leaves it | HALVED (once)
    net = Net([Block(fails=True)]).to(device)
    try:
        net(x)
    except ValueError:
        pass
    with torch.autocast(device, dtype=torch.float16):
        torch.where(x > 0, x, x.half())
the first step is said where it is not the first of all
| `x.sum().item()` made the host wait (4 times in 4 steps)
| HALVED (once in 4 steps), first in step 3
    fc = nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(fc.parameters(), lr=0.1)
    for step in range(4):
        fc(x).sum().backward()
        optimizer.step()
        if step == 1:
            torch.where(x > 0, x, x.half())
        x.sum().item()
"""
CASES = [pytest.param(body, told, id=title) for (title, *told), body in programs(PROGRAMS)]


def program(body: str) -> str:
    head = "def run(device):\n    x = torch.ones(2, 4, device=device)\n"
    return f"{HEAD}{head}{indent(body, '    ')}"


@pytest.mark.parametrize(("body", "told"), CASES)
def test_what_is_said_of_modules_and_steps(said: Said, body: str, told: list[str]) -> None:
    words = {"MIXED": MIXED, "HALVED": HALVED}
    expected = [" ".join(words.get(word, word) for word in each.split()) for each in told]
    assert said(program(body)) == expected


def test_an_overflow_is_of_the_module_that_computes_it(said: Said) -> None:
    body = """\
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
nn.init.constant_(net[1].weight, 3e4)
nn.init.constant_(net[0].weight, 3e4)
with torch.autocast('cpu', dtype=torch.float16):
    net(x)
"""
    [message] = said(program(body), "policy")
    assert message.endswith("finite (once), in `0` (Linear)")
