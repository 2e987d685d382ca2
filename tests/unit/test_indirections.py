"""Each indirection of the mutants leaves what a file does as it is."""

from __future__ import annotations

import sys
import types

import pytest

from benchmarks import indirections
from benchmarks.mutations import MUTATIONS, Kind, Program

torch = pytest.importorskip("torch")

TRAINING = '''"""A training file."""

import io

import torch


def train(model, optimizer, scaler, loader):
    """Runs an epoch."""
    for x, y in loader:
        with torch.autocast("cpu"):
            loss = ((model(x) - y) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    train(model, optimizer, scaler, [(torch.ones(2, 3), torch.zeros(2, 1))] * 3)
    torch.save(
        {
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
        },
        io.BytesIO(),
    )
    return model.weight
'''

MODULE = """

class Scores(torch.nn.Module):
    def forward(self, x):
        return x.softmax(-1)
"""

BEHIND = [kind for kind in MUTATIONS if kind.behind is not indirections.none]


class Accelerator:
    """What accelerate's does with a loss that nothing has scaled."""

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()


def weight(text: str, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """What training leaves of the model's weight."""
    monkeypatch.setitem(sys.modules, "accelerate", types.SimpleNamespace(Accelerator=Accelerator))
    names: dict[str, object] = {}
    module = types.ModuleType("trained")
    monkeypatch.setitem(sys.modules, "trained", module)  # where a dataclass looks its module up
    names["__name__"] = "trained"
    exec(compile(text, "trained.py", "exec"), names)
    main = names["main"]
    assert callable(main)
    result = main()
    assert isinstance(result, torch.Tensor)
    return result


@pytest.mark.parametrize("kind", BEHIND, ids=lambda kind: kind.name)
def test_the_file_trains_as_before(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = kind.behind(TRAINING)
    assert changed is not None
    assert changed != TRAINING
    if kind.behind is indirections.backward_by_engine:
        # Accelerate scales by itself: here nothing does.
        changed = changed.replace("scaler.unscale_(optimizer)", "pass")
        expected = TRAINING.replace("init_scale=4.0", "enabled=False")
        changed = changed.replace("init_scale=4.0", "enabled=False")
    else:
        expected = TRAINING
    assert torch.equal(weight(changed, monkeypatch), weight(expected, monkeypatch))


@pytest.mark.parametrize("kind", BEHIND, ids=lambda kind: kind.name)
def test_a_mutant_reads_what_the_indirection_holds(kind: Kind) -> None:
    text = TRAINING.replace(
        "            loss =",
        "            x = x.half()\n            s = torch.zeros(2, device=d)\n            loss =",
    )
    base = kind.behind(text + MODULE)
    assert base is not None
    mutants = list(kind.mutate(Program(base)))
    assert mutants
    for _, mutant in mutants:
        compile(mutant, "mutant.py", "exec")
        assert mutant != base
