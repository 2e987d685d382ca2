"""A file says alone what it says in its project, but where its callers show better."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from benchmarks.alone import Compared, compare
from tests.helpers import request, write

MODEL = dedent("""\
    from torch import nn

    class Model(nn.Module):
        def forward(self, x):
            return x * x.max().item()
    """)
CALLERS = {
    "an unknown": """
        def evaluate(loader):
            return Model()(make(3))
        """,
    "an unknown, for every batch": """
        def train(loader, optimizer):
            model = Model()
            for _ in range(10):
                model(make(3)).backward()
                optimizer.step()
        """,
    "an unknown, and a batch": """
        def train(loader, optimizer):
            model = Model().cuda()
            model(make(3))
            for x in loader:
                model(x.cuda()).backward()
                optimizer.step()
        """,
}


def compared(caller: str, directory: Path) -> Compared:
    """Compare a module that reads its parameter, alone and with a file that calls it."""
    head = "from model import Model\nfrom somewhere import make\n"
    files = {"model.py": MODEL.encode(), "train.py": (head + dedent(caller)).encode()}
    write(files, directory)
    return compare(request(files, directory))


@pytest.mark.parametrize("caller", CALLERS)
def test_a_caller_of_which_nothing_is_known_silences_nothing(caller: str, tmp_path: Path) -> None:
    found = compared(CALLERS[caller], tmp_path)
    assert (found.silent, found.shown, found.same) == ((), (), 1)


def test_a_caller_that_gives_a_tensor_on_the_cpu_does(tmp_path: Path) -> None:
    caller = """
        import torch

        def train(loader, optimizer):
            model = Model()
            for _ in range(10):
                model(torch.ones(3, device="cpu")).backward()
                optimizer.step()
        """
    found = compared(caller, tmp_path)
    assert [(one.path, one.code) for one in found.silent] == [("model.py", "AMP110")]


def test_a_loop_in_another_file_shows_what_is_read_in_it(tmp_path: Path) -> None:
    files = {
        "helper.py": b'def log(loss, writer):\n    writer.add_scalar("loss", loss.item())\n',
        "train.py": dedent("""\
            from helper import log

            def train(model, loader, optimizer):
                for x in loader:
                    loss = model(x.cuda())
                    loss.backward()
                    optimizer.step()
                    log(loss, model.writer)
            """).encode(),
    }
    write(files, tmp_path)
    found = compare(request(files, tmp_path))
    assert [(one.path, one.code) for one in found.shown] == [("helper.py", "AMP101")]
    assert (found.silent, found.same) == ((), 0)
