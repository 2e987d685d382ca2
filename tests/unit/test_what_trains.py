"""Code that runs a backward pass or a `forward`, and is no step of training."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import counts, lint

CHECK = """
import torch

def check(layer, size):
    x = torch.rand(2, size, device="cuda", requires_grad=True)
    loss = layer(x).sum()
    loss.backward()
    print(loss.item())

def main(layer{parameters}):
    for size in {sizes}:
        check(layer, size)
"""


@pytest.mark.parametrize(
    ("sizes", "parameters", "found"),
    [
        ("[8, 16, 64]", "", 0),
        ("(8, 16)", "", 0),
        ("[(8, torch.float16), (16, torch.float32)]", "", 0),
        ("loader", ", loader", 1),
        ("[(8, loader), (16, loader)]", ", loader", 1),
    ],
)
def test_a_loop_over_constants_that_are_written_out_is_not_over_batches(
    sizes: str, parameters: str, found: int, tmp_path: Path
) -> None:
    text = CHECK.format(sizes=sizes, parameters=parameters)
    assert counts(lint({"check.py": text.encode()}, tmp_path).findings)["AMP101"] == found


def test_two_losses_that_are_written_out_stand_in_a_loop_over_batches(tmp_path: Path) -> None:
    text = """
import torch

def train(model, loader, optimizer):
    for x in loader:
        for scale in (1.0, 0.5):
            loss = model(x.cuda() * scale).sum()
            loss.backward()
            print(loss.item())
        optimizer.step()
"""
    assert counts(lint({"train.py": text.encode()}, tmp_path).findings)["AMP101"] == 1


DETECTOR = """
import torch
from torch import nn

class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, x, return_loss=True):
        if return_loss:
            return self.forward_train(x)
        return self.{other}(x)

    def forward_train(self, x):
        return self.head(x).sum()

    def {other}(self, x):
        return self.head(x).max().item()
"""


@pytest.mark.parametrize(
    ("other", "training", "evaluation"),
    [("forward_test", 0, 1), ("simple_test", 0, 1), ("aug_test", 0, 1), ("forward_all", 1, 0)],
)
def test_what_forward_runs_beside_the_loss_is_evaluation_by_its_name(
    other: str, training: int, evaluation: int, tmp_path: Path
) -> None:
    text = DETECTOR.format(other=other)
    found = counts(lint({"model.py": text.encode()}, tmp_path).findings)
    assert (found["AMP101"], found["AMP102"]) == (training, evaluation)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("onnx_export.py", 0),
        ("export_torch_script.py", 0),
        ("model_onnx.py", 0),
        ("net/export.py", 0),
        ("exporter.py", 1),
        ("model.py", 1),
    ],
)
def test_the_network_of_an_export_is_not_trained(path: str, found: int, tmp_path: Path) -> None:
    text = DETECTOR.format(other="forward_all")
    assert counts(lint({path: text.encode()}, tmp_path).findings)["AMP101"] == found


AGENT = """
import torch
from torch import nn

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def forward(self, x):
        return self.net(x)

    def act(self, observation):
        return self(torch.from_numpy(observation).float()).detach(){copied}.numpy()
"""
TRAINS = """
import torch

def train(policy, loader):
    optimizer = torch.optim.Adam(policy.parameters())
    losses = []
    for x in loader:
        loss = policy(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""


@pytest.mark.parametrize(
    ("copied", "others", "found"),
    [
        ("", {}, 0),
        ("", {"notes.py": b'"""Trains on any device, such as cuda."""'}, 0),
        (".cpu()", {}, 1),
        ("", {"main.py": b"from agent import Policy\nPolicy().cuda()"}, 1),
        ("", {"main.py": b"def put(net, args):\n    return net.to(args.place)"}, 1),
        ("", {"main.py": b"import lightning"}, 1),
    ],
)
def test_a_project_that_makes_numpy_arrays_of_outputs_as_they_are_trains_on_the_cpu(
    copied: str, others: dict[str, bytes], found: int, tmp_path: Path
) -> None:
    agent = AGENT.format(copied=copied)
    files = {"agent.py": agent.encode(), "train.py": TRAINS.encode(), **others}
    assert counts(lint(files, tmp_path).findings)["AMP101"] == found
