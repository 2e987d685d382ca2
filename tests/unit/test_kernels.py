"""Functions that a decorator compiles for another machine than Python's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import counts, lint

PROGRAM = """
import torch
{imports}

{decorator}
def march(hits, out):
    for r in hits:
        if hits[r] >= 0:
            out[r] = hits[r]

def train(model, loader, optimizer):
    model.cuda()
    for x in loader:
        hits = model(x.cuda())
        march(hits, torch.empty_like(hits))
        hits.sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("import taichi as ti", "@ti.kernel"),
        ("import triton", "@triton.jit"),
        ("from numba import cuda", "@cuda.jit('void(f4[:], f4[:])')"),
        ("import numba", "@numba.njit(cache=True)"),
        ("import warp as wp", "@wp.kernel"),
    ],
)
def test_a_kernel_is_no_code_of_the_host(imports: str, decorator: str, tmp_path: Path) -> None:
    text = PROGRAM.format(imports=imports, decorator=decorator)
    assert "AMP103" not in counts(lint({"train.py": text.encode()}, tmp_path).findings)


@pytest.mark.parametrize("decorator", ["", "@torch.no_grad()", "@torch.jit.ignore"])
def test_other_functions_are(decorator: str, tmp_path: Path) -> None:
    text = PROGRAM.format(imports="", decorator=decorator)
    assert counts(lint({"train.py": text.encode()}, tmp_path).findings)["AMP103"] == 1
