"""Names that a fix would write where they may be unbound."""

from __future__ import annotations

import ast
import textwrap

import pytest

from amplint.fix.unbound import newly_unbound

# Of each program: the line that is written into it, where the mark stands, and what that would
# read unbound.
PROGRAMS = [
    pytest.param(
        """
        def step(optimizers, clip):
            clip()
            # here
            for optimizer in optimizers:
                optimizer.step()
        """,
        "unscale(optimizer)", {"optimizer", "unscale"}, id="bound below",
    ),
    pytest.param(
        """
        def train(batches, optimizers):
            for batch in batches:
                # here
                for optimizer in optimizers:
                    optimizer.step()
        """,
        "print(optimizer)", {"optimizer"}, id="bound below, in the first of many iterations",
    ),
    pytest.param(
        """
        def train(optimizers):
            for optimizer in optimizers:
                # here
                optimizer.step()
        """,
        "print(optimizer)", set(), id="of the loop around",
    ),
    pytest.param(
        """
        def train(batches):
            for batch in batches:
                loss = batch.sum()
            # here
        """,
        "print(loss)", {"loss"}, id="of a loop that may not run",
    ),
    pytest.param(
        """
        def train(batches):
            while True:
                loss = batches.sum()
                if loss:
                    break
            # here
        """,
        "print(loss)", set(), id="of a loop that runs",
    ),
    pytest.param(
        """
        def train(amp):
            if amp:
                scaler = make()
            if amp:
                scaler.update()
            # here
        """,
        "print(scaler)", set(), id="the program itself reads it so",
    ),
    pytest.param(
        """
        def train(amp):
            if amp:
                scaler = make()
            else:
                raise ValueError
            # here
        """,
        "print(scaler)", set(), id="no other branch leads here",
    ),
    pytest.param(
        """
        def train(amp):
            match amp:
                case [scaler, *_]:
                    pass
                case other:
                    scaler = other
            # here
        """,
        "print(scaler, other)", {"other"}, id="match",
    ),
    pytest.param(
        """
        def train(path):
            try:
                scaler = open(path)
            except OSError:
                scaler = None
            finally:
                done = True
            # here
        """,
        "print(scaler, done)", set(), id="try",
    ),
    pytest.param(
        """
        class Trainer:
            scaler = None
            def train(self):
                # here
                pass
        """,
        "scaler.update()", {"scaler"}, id="of the class",
    ),
    pytest.param(
        """
        def train(model):
            def step():
                # here
                pass
            loss = model()
            step()
        """,
        "print(loss)", set(), id="of the function around, whenever that binds it",
    ),
    pytest.param(
        """
        def train(model):
            # here
            pass
        """,
        "print([x for x in model if (y := x)], y, lambda z: z, torch)", {"torch"},
        id="of a comprehension",
    ),
    pytest.param(
        """
        from helpers import *
        def train(model):
            # here
            pass
        """,
        "print(torch)", set(), id="a star may bind it",
    ),
    pytest.param(
        """
        # here
        import torch
        """,
        "print(torch, __name__)", {"torch"}, id="in the module",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("program", "line", "expected"), PROGRAMS)
def test_what_a_line_would_read_unbound(program: str, line: str, expected: set[str]) -> None:
    before = textwrap.dedent(program)
    after = before.replace("# here", line)
    assert newly_unbound(*((text, ast.parse(text)) for text in (before, after))) == expected


def test_an_import_that_goes_is_missed_by_all_functions() -> None:
    before = "import torch\n\ndef f():\n    return torch\n"
    after = before.replace("import torch\n", "")
    assert newly_unbound(*((text, ast.parse(text)) for text in (before, after))) == {"torch"}


def test_a_chain_of_tests_may_be_long() -> None:
    chain = "".join(f"    elif x == {number}:\n        y = {number}\n" for number in range(600))
    before = f"def f(x):\n    if x is None:\n        y = 0\n{chain}    print(x)\n"
    after = before.replace("print(x)", "print(y)")
    assert newly_unbound(*((text, ast.parse(text)) for text in (before, after))) == {"y"}
