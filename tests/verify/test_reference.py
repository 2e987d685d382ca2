"""The float64 run: everything is float64, and it is the same program."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from amplint_verify.runs.reference import in_float64  # noqa: E402
from amplint_verify.runs.rng import normalised  # noqa: E402


def train(low: torch.dtype) -> dict[str, torch.Tensor]:
    """Two steps with all that makes dtypes: autocast, casts, factories, a scaler, dropout."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(), nn.Linear(8, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(2):
        x = torch.randn(16, 8)
        y = torch.randint(0, 4, (16,))
        with torch.autocast("cpu", dtype=low):
            out = model(x)
            mask = torch.zeros(16, 4, dtype=low).fill_(0.5)
            loss = nn.functional.cross_entropy((out * mask).float(), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return {"out": out, "loss": loss, "weight": model[0].weight.detach()}


def test_everything_is_float64() -> None:
    with in_float64():
        results = train(torch.bfloat16)
    assert {each.dtype for each in results.values()} == {torch.float64}


def test_it_is_the_same_program() -> None:
    """The less is rounded, the nearer the results are."""
    with in_float64():
        exact = train(torch.bfloat16)
    errors = []
    for low in (torch.bfloat16, torch.float16):
        with normalised():
            rounded = train(low)
        errors.append(
            (rounded["weight"].double() - exact["weight"]).norm() / exact["weight"].norm()
        )
    assert 0 < errors[1] < errors[0] < 0.02


def test_dtype_by_default_and_afterwards() -> None:
    with in_float64():
        assert torch.zeros(1).dtype == torch.float64
        assert torch.zeros(1).half().dtype == torch.float64
    assert torch.zeros(1).dtype == torch.float32


def test_what_comes_from_outside() -> None:
    """A tensor made before is cast where it is used, and written where it is written."""
    weight = torch.ones(3)
    with in_float64():
        out = weight * torch.full((3,), 0.1)
        weight -= 1
    assert out.dtype == torch.float64
    assert weight.dtype == torch.float32
    assert weight.tolist() == [0, 0, 0]
