"""Names that a fix would write where they may be unbound."""

from __future__ import annotations

import ast

import pytest

from amplint.fix.unbound import newly_unbound
from tests.helpers import programs

# Of each program: its name, the line that is written into it, where the mark stands, and the names
# that this would read unbound.
PROGRAMS = """
bound below | unscale(optimizer) | optimizer unscale
    def step(optimizers, clip):
        clip()
        # here
        for optimizer in optimizers:
            optimizer.step()
bound below, in the first of many iterations | print(optimizer) | optimizer
    def train(batches, optimizers):
        for batch in batches:
            # here
            for optimizer in optimizers:
                optimizer.step()
of the loop around | print(optimizer)
    def train(optimizers):
        for optimizer in optimizers:
            # here
            optimizer.step()
of a loop that may not run | print(loss) | loss
    def train(batches):
        for batch in batches:
            loss = batch.sum()
        # here
of a loop that runs | print(loss)
    def train(batches):
        while True:
            loss = batches.sum()
            if loss:
                break
        # here
the program itself reads it so | print(scaler)
    def train(amp):
        if amp:
            scaler = make()
        if amp:
            scaler.update()
        # here
no other branch leads here | print(scaler)
    def train(amp):
        if amp:
            scaler = make()
        else:
            raise ValueError
        # here
match | print(scaler, other) | scaler other
    def train(amp):
        match amp:
            case [scaler, *_]:
                pass
            case other:
                scaler = other
        # here
try | print(scaler, done)
    def train(path):
        try:
            scaler = open(path)
        except OSError:
            scaler = None
        finally:
            done = True
        # here
of the class | scaler.update() | scaler
    class Trainer:
        scaler = None
        def train(self):
            # here
            pass
of the function around, whenever that binds it | print(loss)
    def train(model):
        def step():
            # here
            pass
        loss = model()
        step()
of a comprehension | print([x for x in model if (y := x)], y, lambda z: z, torch) | torch
    def train(model):
        # here
        pass
a star may bind it | print(torch)
    from helpers import *
    def train(model):
        # here
        pass
in the module | print(torch, __name__) | torch
    # here
    import torch
"""
CASES = [
    pytest.param(program, line, {name for names in expected for name in names.split()}, id=title)
    for (title, line, *expected), program in programs(PROGRAMS)
]


@pytest.mark.parametrize(("before", "line", "expected"), CASES)
def test_what_a_line_would_read_unbound(before: str, line: str, expected: set[str]) -> None:
    after = before.replace("# here", line)
    assert newly_unbound(ast.parse(before), ast.parse(after)) == expected


def test_an_import_that_goes_is_missed_by_all_functions() -> None:
    before = "import torch\n\ndef f():\n    return torch\n"
    after = before.replace("import torch\n", "")
    assert newly_unbound(ast.parse(before), ast.parse(after)) == {"torch"}


def test_a_chain_of_tests_may_be_long() -> None:
    chain = "".join(f"    elif x == {number}:\n        y = {number}\n" for number in range(600))
    before = f"def f(x):\n    if x is None:\n        y = 0\n{chain}    print(x)\n"
    after = before.replace("print(x)", "print(y)")
    assert newly_unbound(ast.parse(before), ast.parse(after)) == {"y"}
