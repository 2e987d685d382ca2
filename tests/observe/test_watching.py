"""What is watched, on small programs: each mistake, and what looks like it and is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers import programs

pytest.importorskip("torch")

Seen = Callable[..., list[tuple[str, int]]]

HEAD = """\
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_


def run(device):
    model, other = nn.Linear(8, 8).to(device), nn.Linear(8, 8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device)
    x = torch.ones(4, 8, device=device)
"""
LINES = HEAD.count("\n")


def program(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


def rows(found: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The findings, with the rows counted from the first line after HEAD."""
    return [(code, row - LINES) for code, row in found]


STEP = ("scaler.step(optimizer)", "scaler.update()", "optimizer.zero_grad()")

# Of each program: the codes that are found, with their rows.
PROTOCOL = """
a clip of scaled gradients | AMP404 2
    scaler.scale(model(x).sum()).backward()
    clip_grad_norm_(model.parameters(), 1.0)
a clip of one parameter | AMP404 2
    scaler.scale(model(x).sum()).backward()
    clip_grad_norm_(model.weight, 1.0)
a clip after unscale_
    scaler.scale(model(x).sum()).backward()
    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), 1.0)
    STEP
a clip of the gradients of another model
    scaler.scale(model(x).sum()).backward()
    other(x).sum().backward()
    clip_grad_norm_(other.parameters(), 1.0)
    second.step()
    STEP
a clip after the gradients are gone
    scaler.scale(model(x).sum()).backward()
    optimizer.zero_grad()
    model(x).sum().backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
gradients that a scaler which is off has let pass
    scaler = torch.amp.GradScaler(device, enabled=False)
    scaler.scale(model(x).sum()).backward()
    clip_grad_norm_(model.parameters(), 1.0)
    STEP
a step past the scaler | AMP401 2
    scaler.scale(model(x).sum()).backward()
    optimizer.step()
a loss that is divided after it is scaled
    loss = scaler.scale(model(x).sum()) / 4
    loss.backward()
    STEP
a loss that is not scaled | AMP402 2
    scaler.scale(model(x).sum())
    model(x).mean().backward()
    scaler.step(optimizer)
two losses that are scaled one after the other
    one, two = model(x).sum(), other(x).sum()
    one, two = scaler.scale(one), scaler.scale(two)
    one.backward()
    two.backward()
    scaler.step(second)
    STEP
a loss that is scaled in a helper
    scale = lambda loss: scaler.scale(loss)
    for _ in range(2):
        scale(model(x).sum()).backward()
    STEP
a backward pass and a step in a region | AMP301 2, AMP303 3
    with torch.autocast(device, dtype=torch.bfloat16):
        model(x).sum().backward()
        optimizer.step()
a backward pass in a region that is off
    with torch.autocast(device, dtype=torch.bfloat16, enabled=False):
        model(x).sum().backward()
        optimizer.step()
"""
CASES = {name: (text, told) for (name, *told), text in programs(PROTOCOL)}


@pytest.mark.parametrize("name", CASES)
def test_the_protocol_of_a_scaler(seen: Seen, name: str) -> None:
    text, told = CASES[name]
    found = rows(seen(program(*text.replace("STEP", "\n".join(STEP)).splitlines())))
    assert ", ".join(f"{code} {row}" for code, row in found) == "".join(told)


LOOP = ("for step in range(10):", "    loss = model(x).sum()", "    loss.backward()")
WAITS = {
    "loss.item()": "AMP101",
    "float(loss)": "AMP101",
    "x.cpu()": "AMP101",
    "x.tolist()": "AMP101",
    "if loss > 0: pass": "AMP103",
    "assert not loss.isnan()": "AMP103",
    "torch.equal(x, x)": "AMP103",
    "f'{loss:.2f}'": "AMP104",
    "print(loss)": "AMP104",
    "torch.full((2,), loss.detach(), device=device)": "AMP105",
    "x[x > 0]": "AMP106",
    "x.nonzero()": "AMP106",
    "max(x[0])": "AMP107",
    "torch.cuda.synchronize()": "AMP108",
    "torch.cuda.empty_cache()": "AMP111",
}


@pytest.mark.parametrize("line", WAITS)
def test_a_wait_in_each_step(seen: Seen, line: str) -> None:
    found = rows(seen(program(*LOOP, "    optimizer.step()", f"    {line}")))
    assert found == [(WAITS[line], 5)]


QUIET = (
    "if step % 5 == 0: loss.item()",  # two of ten steps
    "x.shape[0]; len(x); x.device; x.dtype; x.numel()",
    "x.to(device)",
    "torch.where(x > 0, x, 0.0)",
    "torch.zeros(3).tolist()",  # it is on the host
    "torch.zeros(3)[0].item()",
    "torch.linalg.svd(x)",  # it looks by itself whether it came to an end
    "x.detach().to('cpu', non_blocking=True)",
)


@pytest.mark.parametrize("line", QUIET)
def test_no_wait_in_each_step(seen: Seen, line: str) -> None:
    assert seen(program(*LOOP, "    optimizer.step()", f"    {line}")) == []


def test_one_step_says_nothing_of_each(seen: Seen) -> None:
    text = program("loss = model(x).sum()", "loss.backward()", "optimizer.step()", "loss.item()")
    assert seen(text) == []


IN_REGION = ("with torch.autocast(device, dtype=torch.float16):", "    h = model(x)")
DTYPES = {
    "torch.where(h > 0, h, torch.zeros(8, device=device))": [("AMP203", 3)],
    "h.where(h > 0, x)": [("AMP203", 3)],
    "torch.where(h > 0, h, torch.zeros((), device=device))": [],  # without dimensions
    "torch.where(h > 0, h, torch.zeros_like(h))": [],
    "torch.where(x > 0, x, torch.zeros_like(x))": [],
    "x * torch.ones(8, dtype=torch.float64, device=device)": [("AMP208", 3)],
    "x * torch.ones((), dtype=torch.float64, device=device)": [],
    "torch.ones(8, dtype=torch.float64, device=device).sum()": [],
}


@pytest.mark.parametrize("line", DTYPES)
def test_dtypes_in_a_region(seen: Seen, line: str) -> None:
    assert rows(seen(program(*IN_REGION, f"    {line}"))) == DTYPES[line]


RANGES = {
    "h * 1e4 * 1e4": [("AMP807", 3)],
    "(x * 1e5).half()": [("AMP807", 3)],
    "(h + 300) @ (h + 300).T": [("AMP807", 3)],
    "h.masked_fill(h > -9, float('-inf'))": [],  # the argument is infinite
    "torch.full_like(h, float('inf')) * 2": [],
    "(h * 1e9).clamp(max=1.0)": [("AMP807", 3)],
    "torch.empty_like(h)": [],
    "nn.Dropout(0.5)(h)": [],
    "(h / 0).relu()": [],  # infinite in float32, too
    "x * 1e9": [],
}


@pytest.mark.parametrize("line", RANGES)
def test_the_range_of_half(seen: Seen, line: str) -> None:
    assert rows(seen(program(*IN_REGION, f"    {line}"), "policy")) == RANGES[line]


def test_the_overflow_of_a_scaled_backward_pass_is_the_scalers(seen: Seen) -> None:
    text = program(
        *IN_REGION, "    loss = h.float().square().sum() * 1e6", "scaler.scale(loss).backward()"
    )
    assert seen(text, "policy") == []


def test_steps_that_the_scaler_leaves_out_are_counted(
    observe: Callable[..., Any],
) -> None:
    text = program(
        "scaler.scale(model(x).sum()).backward()",
        "model.weight.grad.fill_(float('inf'))",
        *STEP,
        "scaler.scale(model(x).sum()).backward()",
        *STEP,
    )
    told, _ = observe(text, "policy")
    assert (told.skipped, told.steps) == (1, 1)
