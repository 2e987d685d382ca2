"""What a run shows of numbers, casts, refusals and placement: what is wrong, and what is nearly."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from amplint.knowledge.casts import LAYERS, NO_HALF
from amplint.rule import registry
from amplint.util.text import Text
from amplint_verify.observing.claims import CLAIMS, FLAGGED, OF_FUNCTION, REFUSALS
from amplint_verify.observing.findings import findings_of
from amplint_verify.recording.half_range import resolved
from amplint_verify.runs.run import Runner
from amplint_verify.runs.spec import Spec
from tests.helpers import ROOT, write

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.t(), x.t() @ grad


class Rounded(Product):
    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad.float() @ weight.t(), x.float().t() @ grad.float()


def region(device, dtype=torch.bfloat16):
    return torch.autocast(device, dtype=dtype)


def run(device):
    model = nn.Linear(4, 4).to(device)
    x = torch.ones(2, 4, device=device)
    h = x.half()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device)
"""
FIRST = HEAD.count("\n") + 1
FORWARD = HEAD[: HEAD.index("def forward")].count("\n") + 1

# On `sim` where no other back end is named: what is run, and the codes with their rows.
NUMBERS = {
    "h.masked_fill(h > 0, -1e9)": ["AMP801"],
    "h[0] = -1e9": ["AMP801"],
    "torch.full((2,), 1e5, dtype=torch.float16, device=device)": ["AMP801"],
    "torch.full_like(h, 1e5)": ["AMP801"],
    "h.new_full((2,), 70000)": ["AMP801"],
    "torch.where(h > 0, -1e9, h)": ["AMP801"],
    "F.pad(h, (0, 1), value=-1e9)": ["AMP801"],
    "h.clamp(max=1e5)": [],  # a kernel of CUDA compares in float32
    "h - 1e9": ["AMP801"],
    "x.bfloat16().masked_fill(x > 0, torch.finfo(torch.float32).min)": ["AMP801"],
    "x.masked_fill(x > 0, -1e9)": [],
    "h.masked_fill(h > 0, float('-inf'))": [],
    "h.masked_fill(h > 0, -65504.0)": [],
    "x.bfloat16().masked_fill(x > 0, -1e9)": [],
    "torch.full((70000,), 0.0, dtype=torch.float16, device=device)": [],
    "torch.zeros(70000, device=device).half()[69999] = 1.0": [],
    "torch.full((2,), 1e9, device=device)": [],
    "torch.full((2,), 300, dtype=torch.uint8, device=device)": [],
}
LAYERS_AND_OPERANDS = {
    "model(h)": ["AMP206"],
    "model.half()(x)": ["AMP206"],
    "nn.GRU(4, 4).to(device).half()(h[None], torch.zeros(1, 2, 4, device=device))": ["AMP206"],
    "nn.Conv1d(2, 2, 1).to(device)(h)": ["AMP206"],
    "nn.LSTM(4, 4).to(device)(h[None])": ["AMP206"],
    "with region(device): model(h)": [],
    "model.half()(h)": [],
    "model(x.double())": [],  # float64 is no matter of half
    "nn.Conv1d(2, 2, 1).to(device)(x.double())": [],
    "model(h.float())": [],
}
KERNELS = {
    "torch.linalg.inv(h.T @ h)": ["AMP313"],
    "h.T.matmul(h).logdet()": ["AMP313"],
    "with region(device): torch.linalg.svd(model(x))": ["AMP313"],
    "with region(device): torch.linalg.svd(model(x).float())": [],
    "with region(device): torch.cdist(model(x), x)": [],  # which CUDA's autocast casts
    "torch.linalg.inv(x.T @ x)": [],
}
PROTOCOL = {
    "scaler.scale(model(x).sum()).backward(); scaler.update()": ["AMP407"],
    "scaler.scale(model(x).sum()).backward(); scaler.step(sgd, closure=lambda: 0)": ["AMP415"],
    "scaler.scale(3.0)": ["AMP416"],
    "off = torch.amp.GradScaler(device, enabled=False)\n    model(x).sum().backward()\n"
    "    off.step(sgd)\n    sgd.step()": [],
    "scaler.scale(model(x).sum()).backward(); scaler.step(sgd); sgd.step()": ["AMP401"],
    "scaler.scale(model(x).sum()).backward(); scaler.step(sgd); sgd.zero_grad(); sgd.step()": [],
    "torch.tensor(x)": ["AMP503"],
    "x.new_tensor(h)": ["AMP503"],
    "torch.tensor([x.sum(), x.mean()])": ["AMP503"],
    "torch.tensor([n + 1 for n in torch.arange(3)])": [],  # of the host
    "torch.tensor([1.0]); torch.as_tensor(x); x.clone()": [],
}
# What a CUDA region keeps: a weight that is written to between two uses is not seen to change.
CACHE = {
    "with region(device):\n        model(x)\n        model.bias.data.mul_(2)\n        model(x)": [
        "AMP302"
    ],
    "with region(device):\n        model(x)\n        model.weight.data.mul_(2)\n        model(x)": [
        "AMP302"
    ],
    "with region(device):\n        model(x)\n        model.weight.data.mul_(2)": [],
    "with region(device):\n        model.weight.data.mul_(2)\n        model(x)": [],
    "with region(device):\n        model(x)\n    model.weight.data.mul_(2)\n"
    "    with region(device):\n        model(x)": [],
    "with torch.autocast(device, torch.bfloat16, cache_enabled=False):\n        model(x)\n"
    "        model.weight.data.mul_(2)\n        model(x)": [],
    "with torch.no_grad():\n        model(x)\n        model.weight.mul_(2)\n        model(x)": [],
}
SEVERAL_STEPS = """\
    for _ in range(3):
        {line}
        model(x).sum().backward()
        sgd.step()
"""
PLACEMENT = {
    "torch.zeros(2, 4).to(device)": ["AMP501"],
    "torch.arange(3).to(device) + 1": ["AMP501"],
    "torch.zeros(2, 4, device=device)": [],
    "torch.zeros(2, 4)": [],
    "torch.rand(2, 4).to(device)": [],  # it may stand for data
    "(torch.zeros(2) + 1).to(device)": [],
    "padded = torch.zeros(2, 4); padded[0, :2] = torch.rand(2); padded.to(device)": [],
    "torch.empty(2, 4).to(device)": [],
    "torch.amp.GradScaler(device)": ["AMP409"],
}
VALUES = {
    "torch.tensor([2049], device=device).half()": ["AMP207"],
    "torch.tensor([2048], device=device).half()": [],
    "torch.tensor([257], device=device).to(torch.bfloat16)": ["AMP207"],
    "torch.tensor([True], device=device).half()": [],
    "torch.tensor([70000], device=device).half()": ["AMP807"],
    "torch.arange(4096, device=device).half()": ["AMP805"],
    "torch.arange(4096, dtype=torch.float16, device=device)": ["AMP805"],
    "torch.arange(2048, dtype=torch.float16, device=device)": [],
    "with region(device): torch.arange(512.0, device=device)[:, None] @ x[:1]": ["AMP805"],
    "with region(device): torch.arange(256.0, device=device)[:, None] @ x[:1]": [],
    "with region(device): torch.pca_lowrank(x, q=1)": ["AMP313"],  # by its `linalg.qr`
    "torch.linspace(0, 1, 4096, device=device).half()": [],  # no positions
    "with region(device): loss = Rounded.apply(x, model.weight).sum()\n    loss.backward()": [],
}


def codes(runner: Runner, directory: object, body: str, backend: str) -> list[tuple[str, int]]:
    """The findings in a run of a program with this at its end, by code and row."""
    text = f"{HEAD}{body}"
    write({"program.py": text.encode()}, directory)  # type: ignore[arg-type]
    observation = runner.once(
        Spec(
            root=str(directory),
            target="program:run",
            backend=backend,
            args=("{device}",),
            guess=False,
            watched=True,
        )
    )
    findings = findings_of(observation, registry.own_rules(), {"program.py": Text(text)})
    return sorted({(each.code, each.span.start.row) for each in findings})


ON_SIM = {**NUMBERS, **LAYERS_AND_OPERANDS, **KERNELS, **PROTOCOL, **CACHE}


@pytest.mark.parametrize("line", ON_SIM)
def test_one_line(runner: Runner, line: str, tmp_path: object) -> None:
    found = codes(runner, tmp_path, f"    {line}\n", "sim")
    assert found == [(code, FIRST) for code in ON_SIM[line]]


@pytest.mark.parametrize("line", PLACEMENT)
def test_one_line_of_each_step(runner: Runner, line: str, tmp_path: object) -> None:
    found = codes(runner, tmp_path, SEVERAL_STEPS.format(line=line), "sim")
    assert found == [(code, FIRST + 1) for code in PLACEMENT[line]]


@pytest.mark.parametrize("line", VALUES)
def test_values(runner: Runner, line: str, tmp_path: object) -> None:
    found = codes(runner, tmp_path, f"    {line}\n", "policy")
    assert found == [(code, FIRST) for code in VALUES[line]]


def test_a_backward_pass_that_raises_is_shown_at_its_forward_pass(
    runner: Runner, tmp_path: object
) -> None:
    line = "    with region(device): loss = Product.apply(x, model.weight).sum()\n"
    line += "    loss.backward()\n"
    assert codes(runner, tmp_path, line, "policy") == [("AMP309", FORWARD)]


def test_the_functions_that_have_no_kernel_are_there() -> None:
    assert {name for _, name in resolved(NO_HALF)} == NO_HALF - {"torch.nn.CTCLoss"}


def test_each_rule_that_a_run_decides_is_in_the_docs() -> None:
    text = (ROOT / "docs" / "observe.md").read_text()
    table = text[text.index("| rule |") : text.index("Steps that a scaler leaves out")]
    shown = {word for word in table.replace(",", " ").split() if word.isdigit() and len(word) == 3}
    shown |= {word[3:] for word in table.replace(",", " ").split() if word.startswith("AMP")}
    codes = {claim.code for claim in CLAIMS.values()} | {*REFUSALS.values(), *FLAGGED.values()}
    assert {f"AMP{each}" for each in shown} == codes | {OF_FUNCTION, "AMP107"}
    assert FLAGGED.keys() >= LAYERS
