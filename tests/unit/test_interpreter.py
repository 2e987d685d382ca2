"""What happens in a function is found, with its mistake, by work in proportion to it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from types import FrameType

import pytest

from amplint.facts.callers import Callers
from amplint.findings.violations import Violation
from amplint.gradscaler.checker import Misuses
from amplint.inference import Inference
from amplint.inference.components import complete
from amplint.inference.fixpoint import solve
from amplint.ir.file_index import File
from amplint.ir.file_set import Files

MOST = 2.3  # times the work for twice the program
SIZE = 32
TRAIN = """\
import torch
from torch.nn.utils import clip_grad_norm_

{functions}
def train(model, loader, optimizer, flags, scaler: torch.amp.GradScaler):
    for step, (x, y) in enumerate(loader):
        loss = model(x).mean()
{body}
        scaler.scale(loss).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


def program(lines: list[str], functions: str = "") -> str:
    return TRAIN.format(body="\n".join(" " * 8 + line for line in lines), functions=functions)


def repeated(*lines: str) -> Callable[[int], str]:
    """A program with these lines, N times."""
    return lambda size: program([line.format(n=n) for n in range(size) for line in lines])


def chain(*lines: str, last: str) -> Callable[[int], str]:
    """Values of which each is made of the one before it, twice."""

    def generate(size: int) -> str:
        made = [line.format(n=n, before=n - 1) for n in range(1, size + 1) for line in lines]
        return program(["a0 = step % 2", *made, last.format(last=size)])

    return generate


def alternatives(size: int) -> str:
    tests = [f"{'el' * (n > 0)}if flags.mode == {n}:" for n in range(size)]
    return program([line for test in tests for line in (test, "    optimizer.zero_grad()")])


def diamonds(size: int) -> str:
    """Functions each of which calls the next one twice."""
    functions = [
        f"def f{n}(optimizer, flags):\n"
        f"    if flags.g{n}:\n        f{n + 1}(optimizer, flags)\n    f{n + 1}(optimizer, flags)\n"
        for n in range(size)
    ]
    functions.append(f"def f{size}(optimizer, flags):\n    optimizer.zero_grad()\n")
    return program(["f0(optimizer, flags)"], "\n".join(functions))


def nested(size: int) -> str:
    """Functions within functions, as deep as indentation may be."""
    deep = [f"{'    ' * n}if flags.f{n}:" for n in range(size)]
    return program([*deep, f"{'    ' * size}optimizer.zero_grad()"])


PROGRAMS: dict[str, Callable[[int], str]] = {
    "tests of flags": repeated("if flags.f{n}:", "    optimizer.zero_grad()"),
    "tests of flags, twice each": repeated(
        "if flags.f{n}:", "    optimizer.zero_grad()", "if flags.f{n}:", "    model.zero_grad()"
    ),
    "tests that leave": repeated("if x.f{n}:", "    continue"),
    "tests that return": repeated("if x.f{n}:", "    return"),
    "tests that raise": repeated("if x.f{n}:", "    raise ValueError"),
    "else": repeated("if flags.f{n}:", "    optimizer.zero_grad()", "else:", "    y.update()"),
    "long alternatives": alternatives,
    "either": lambda size: program(
        [f"if {' or '.join(f'flags.f{n}' for n in range(size))}:", "    optimizer.zero_grad()"]
    ),
    "loops": repeated("for part in x:", "    for _ in part:", "        optimizer.zero_grad()"),
    "loops that train": repeated("for part in x:", "    if part.f{n}:", "        part.backward()"),
    "loops that are left": repeated("while flags.f{n}:", "    if x.f{n}:", "        break"),
    "try": repeated("try:", "    optimizer.zero_grad()", "except ValueError:", "    continue"),
    "with": repeated("with flags.f{n}:", "    optimizer.zero_grad()"),
    "sums": chain("a{n} = a{before} + a{before}", last="loss = loss * a{last}"),
    "conditions": chain("a{n} = a{before} and a{before}", last="if a{last}: optimizer.zero_grad()"),
    "remainders": chain("a{n} = a{before} + a{before}", last="if a{last}: optimizer.zero_grad()"),
    "scaled sums": chain(
        "b{n} = scaler.scale(a{before}) + scaler.scale(a{before})",
        "a{n} = b{n} + b{n}",
        last="a{last}.backward(); scaler.step(optimizer); scaler.update()",
    ),
    "losses": repeated("if flags.f{n}:", "    loss = loss + x[{n}]", "    optimizer.zero_grad()"),
    "fields": repeated("if flags.f{n}:", "    flags.g{n} = x", "    optimizer.zero_grad()"),
    "calls of functions that call": diamonds,
}


def linked(text: str) -> Inference:
    file = File("train.py", text)
    inference = Inference(Files({"train.py": file}, {}))
    solve(inference, list(file.facts.functions))
    complete(inference)
    return inference


def check(text: str) -> tuple[list[Violation], int, list[str]]:
    """What is found, the calls of functions that it took, and the functions that were widened."""
    inference = linked(text)
    count = 0

    def counting(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    misuses = Misuses(inference, Callers(inference).sites)
    before = sys.getprofile()
    sys.setprofile(counting)
    try:
        found = [each.violation for at_call in misuses.all.values() for each in at_call]
    finally:
        sys.setprofile(before)
    return found, count, misuses.widened


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_mistake_is_found_with_work_in_proportion(name: str) -> None:
    counts = []
    for size in (SIZE, 2 * SIZE, 4 * SIZE):
        found, count, _ = check(PROGRAMS[name](size))
        assert Violation.CLIP_BEFORE_UNSCALE in found
        counts.append(count)
    assert all(more <= MOST * less for less, more in pairwise(counts)), counts
