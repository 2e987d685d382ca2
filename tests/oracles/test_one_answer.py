"""The values of a program are the same in whatever order its functions are evaluated."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from amplint.inference import Inference
from amplint.inference.components import ComponentTurn, Dependence, complete, components_of
from amplint.inference.fixpoint import solve
from amplint.inference.queue import Queue
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.values.atoms import Region, Tensor, Value

SEEDS = range(12)

# What a field or a parameter holds depends on itself, across functions.
KEPT_IN_A_FIELD = """
    import torch

    class Store:
        def __init__(self):
            self.held = {}

        def get(self, name):
            return self.held[name]

        def update(self, name, value):
            if name in self.held:
                self.held[name] = torch.cat((self.held[name], value.clone().detach()))
            else:
                self.held[name] = value.clone().detach()

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x)

    def collect(store: Store, model: Model, loader):
        for x in loader:
            store.update("scores", model(x))
        return store.get("scores")

    def main(loader):
        store = Store()
        return collect(store, Model().cuda(), loader)
"""
RECURSIVE = """
    import torch

    def halves(x, depth):
        if depth == 0:
            return x
        return halves(x / 2, depth - 1) + halves(other(x), depth - 1)

    def other(x):
        return halves(x.double(), 1) if x.dim() else x

    def main():
        return halves(torch.ones(3, device="cuda"), 4)
"""
CALLS_ITSELF = """
    import torch

    def last(depth):
        if depth:
            return last(depth - 1)
        return torch.ones(3, device="cuda")

    def main():
        return last(3)
"""
CALLS_ITSELF_IN_A_REGION = """
    import torch

    def inside(x, depth):
        y = torch.mm(x, x)
        return inside(y, depth - 1) if depth else y

    def main():
        x = torch.ones(3, 3, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            return inside(x, 4)
"""
DECLARED_LATER = """
    import torch

    def use():
        return CACHE.sum()

    def fill():
        global CACHE
        CACHE = torch.ones(3, device="cuda")
"""
# `events` gives the names of the methods, and which class is called decides which are found.
CALLED_BY_NAME = """
    import torch

    class Recorder:
        def on_start(self, x):
            self.seen = x

        def on_end(self, x):
            return self.seen + x

    def fire(callbacks, event, x):
        for callback in callbacks:
            getattr(callback, event)(x)

    def main():
        callbacks = [Recorder()]
        fire(callbacks, "on_start", torch.ones(3, device="cuda"))
        fire(callbacks, "on_end", torch.zeros(3))
"""
LAYERS_IN_A_FIELD = """
import torch


class Net(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = torch.nn.ModuleList()
        self.last = None
        for _ in range(depth):
            self.add(torch.nn.Linear(4, 4))
            self.add(torch.nn.ReLU())

    def add(self, layer):
        self.layers.append(layer)

    def forward(self, x):
        with torch.autocast("cuda"):
            y = x.double()
            for index, layer in enumerate(self.layers):
                y = layer(y.float()) if self.last is None else layer(y + self.last)
                for _ in range(index):
                    y = self.layers[index](y)
                self.last = y
            return y


def train(loader):
    net = Net(3).cuda()
    for x in loader:
        net(x.cuda()).sum().backward()
"""

FIELDS_THAT_ARE_ANNOTATED = """
import torch
from torch import nn


class Block(nn.Module):
    weight: torch.Tensor

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 4))

    def forward(self, x):
        self.weight = self.weight * x.mean()
        return x @ self.weight


class Net(nn.Module):
    state: torch.Tensor

    def __init__(self, depth):
        super().__init__()
        self.body = nn.ModuleDict(
            dict(blocks=nn.ModuleList(Block() for _ in range(depth)), norm=nn.LayerNorm(4))
        )

    def keep(self, x):
        return self.state.half() if self.training else unknown(self.state, x)

    def forward(self, x):
        with torch.autocast("cuda"):
            for block in self.body.blocks:
                x = block(x)
                self.state = self.keep(x)
            return self.body.norm(x + self.state)


def train(loader):
    net = Net(3).cuda()
    for x in loader:
        net(x.cuda()).sum().backward()
"""

PROGRAMS = {
    "annotated fields that depend on themselves, and layers by name": FIELDS_THAT_ARE_ANNOTATED,
    "layers that a loop goes through, and a field it fills": LAYERS_IN_A_FIELD,
    "a field that is read and stored": KEPT_IN_A_FIELD,
    "functions that call each other": RECURSIVE,
    "a function that calls itself in a region": CALLS_ITSELF_IN_A_REGION,
    "a name that is declared global elsewhere": DECLARED_LATER,
    "methods called by their names": CALLED_BY_NAME,
}


@contextmanager
def shuffled(seed: int) -> Iterator[None]:
    """Any of the functions that wait is evaluated next."""
    chance = random.Random(seed)

    def pick(queue: Queue) -> str:
        return chance.choice(sorted(queue._waiting))

    with mock.patch.object(Queue, "_next", pick):
        yield


def linked(text: str) -> Inference:
    file = File("train.py", textwrap.dedent(text))
    inference = Inference(Files({"train.py": file}, {}))
    solve(inference, list(file.facts.functions))
    complete(inference)
    return inference


def values(inference: Inference) -> dict[str, list[Value]]:
    return {function: list(state.values) for function, state in inference.states.items()}


def returned(inference: Inference, function: str) -> Value:
    state = inference.states[f"train.py::{function}"]
    return state.values[state.graph.returns[-1]]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_values_do_not_depend_on_the_order(program: str) -> None:
    usual = linked(program)
    for seed in SEEDS:
        with shuffled(seed):
            other = linked(program)
        assert values(other) == values(usual), seed
        assert other.calls.edges == usual.calls.edges, seed
        regions = {function: state.regions for function, state in usual.states.items()}
        assert {function: s.regions for function, s in other.states.items()} == regions, seed


def test_a_function_that_calls_itself_stays_in_the_region_that_it_inherits() -> None:
    region = linked(CALLS_ITSELF_IN_A_REGION).states["train.py::inside"].regions[0]
    assert region == Region("cuda", "float16", True, inherited=True)


def test_a_function_that_calls_itself_gives_what_it_gives_in_the_end() -> None:
    """Only the call depends on itself here; what else is returned was not written again."""
    (value,) = returned(linked(CALLS_ITSELF), "main")
    assert isinstance(value, Tensor)


def test_a_component_may_have_lost_a_part_since_it_was_found() -> None:
    """One that was evaluated before it may have shown that a call means another function."""
    inference = linked(RECURSIVE)
    dependence = Dependence(inference)
    components = components_of(inference, dependence, range(len(dependence)))
    component = next(component for component in components if component.parts)
    slot, site = component.parts[0]
    inference.store.withdraw(slot, site)
    ComponentTurn(inference, component).run()
    complete(inference)
    assert values(inference) == values(linked(RECURSIVE))


def test_a_name_that_another_function_declares_global_is_what_it_binds() -> None:
    (value,) = returned(linked(DECLARED_LATER), "use")
    assert isinstance(value, Tensor)
    assert value.device.kind == "accelerator"
