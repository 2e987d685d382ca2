"""Programs that try to refute the safe fixes: generated, fixed, run before and after, compared.

A program is a template with a choice for each of its factors: dtype, shape, memory format, class,
gradient, autocast, default dtype and device, and how the code is written. What amplint fixes safely
in it must leave every bit of its results in place, and their dtype, device, layout, strides, class,
gradients, and the random numbers. What raised before may do anything.

    python -m benchmarks.safe_programs --examples 1000 --json FILE

runs a long search and writes what it did. The first value of a factor is the plain one; of the
programs that part in the same property, the one with the fewest others is told.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from amplint.findings.finding import Finding
from amplint.fix import applying
from amplint.project.config import Settings
from amplint.project.discover import Selection
from amplint.rule import registry
from amplint.run import engine
from amplint.run.request import Request

FILE = "main.py"
Factors = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Template:
    """A family of programs.

    Args:
        code: of the rule whose fixes are tried.
        text: a module with a function `run(device)` that gives back what it was given, to look for
            gradients in, and what is compared; `{name}` stands for a factor.
        factors: the choices for each name, the plain one first.
        devices: what `run` is called with.
        instead: what is replaced in the text before it is run, on a machine without a GPU.
        strategies: of factors that are drawn from more than a list.
        unsafe: whether the fixes that are tried are unsafe ones: they may change results, but what
            ran must not raise.
    """

    code: str
    text: str
    factors: Factors
    devices: Sequence[str] = ("cpu",)
    instead: Sequence[tuple[str, str]] = ()
    strategies: Mapping[str, st.SearchStrategy[str]] = field(default_factory=dict)
    unsafe: bool = False

    def choices(self) -> st.SearchStrategy[dict[str, str]]:
        drawn = {
            name: st.one_of(st.just(values[0]), st.sampled_from(values))
            for name, values in self.factors.items()
        }
        return st.fixed_dictionaries({**drawn, **self.strategies})

    def cost(self, choice: Mapping[str, str]) -> int:
        """How many factors are not plain."""
        return sum(choice[name] != values[0] for name, values in self.factors.items())


# ------------------------------------------------------------------------------- factors

TENSORS = (
    "torch.randn(2, 3)",
    "torch.randn(2, 3).half()",
    "torch.randn(2, 3).bfloat16()",
    "torch.randn(2, 3, dtype=torch.float64)",
    "torch.arange(6).reshape(2, 3)",
    "torch.ones(2, 3, dtype=torch.uint8)",
    "torch.randn(2, 3) > 0",
    "torch.randn(2, 3, dtype=torch.complex64)",
    "torch.randn(3, 2).t()",
    "torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)",
    "torch.randn(1, 3).expand(2, 3)",
    "torch.randn(4, 6)[::2, ::2]",
    "torch.randn(2, 3)[0, 0]",
    "torch.empty(0, 3)",
    "nn.Parameter(torch.randn(2, 3))",
    "torch.randn(2, 3, requires_grad=True)",
    "torch.randn(2, 3).to_sparse()",
    "torch.randn(2, 3).as_subclass(type('Own', (torch.Tensor,), {}))",
    "torch.randn(2, dtype=torch.complex64).conj()",
    "torch.ones(2, 3, dtype=torch.uint16)",
)
CONTEXTS = (
    "contextlib.nullcontext()",
    "torch.no_grad()",
    "torch.inference_mode()",
    'torch.autocast("cpu", dtype=torch.bfloat16)',
    'torch.autocast("cpu", dtype=torch.float16)',
    'torch.device("meta")',
)
DEFAULTS = (
    "pass",
    "torch.set_default_dtype(torch.float64)",
    "torch.set_default_dtype(torch.bfloat16)",
)
DTYPES = tuple(
    f"torch.{name}"
    for name in (
        "float32 float16 bfloat16 float64 int64 int32 int16 int8 uint8 bool complex64".split()
    )
)
FACTORIES = (
    "torch.zeros(3, 4)",
    "torch.ones((4, 3))",
    "torch.ones(0, 3)",
    "torch.zeros(())",
    "torch.zeros(3, 1, 4)",
    "torch.full((3, 4), 2.0)",
    "torch.full((3, 4), 0.1)",
    "torch.full((3, 4), -7)",
    "torch.full((3, 4), True)",
    "torch.full((3, 4), 70000.0)",
    'torch.full((3, 4), float("-inf"))',
    "torch.eye(4)",
    "torch.eye(3, 4)",
    "torch.arange(12)",
    "torch.arange(0, 1, 0.1)",
    "torch.linspace(0, 1, 7)",
    "torch.zeros(3, 4, dtype=torch.float64)",
    "torch.ones(3, 4, dtype=torch.bool)",
    "torch.zeros(3, 4, requires_grad=True)",
    "torch.rand(3, 4)",
    "torch.randint(0, 9, (3, 4))",
    "torch.triu_indices(3, 3)",
    "torch.empty_strided((3, 4), (1, 6)).zero_()",
)
STEPS = (
    "",
    ".unsqueeze(0)",
    ".unsqueeze(-1)",
    ".t()",
    ".expand(2, 3, 4)",
    ".repeat(2, 1)",
    ".reshape(-1)",
    ".flatten()",
    "[None]",
    "[..., None]",
    "[:]",
    "[::2]",
    "[1:]",
    "[..., 0]",
    "[..., ::2]",
    ".permute(1, 0)",
    ".permute(2, 0, 1)",
    ".squeeze()",
    ".bool()",
    ".long()",
    ".half()",
    ".neg()",
    ".triu()",
    ".flip(0)",
    ".mul(3)",
    ".exp()",
    ".normal_()",
    ".clone()",
    ".contiguous()",
)

AROUND = """\
import contextlib

import torch
from torch import nn


def subject(x{declared}, y{declared}, device):
{body}


def run(device):
    {default}
    with {context}:
        x = {x}
        y = {y}
        return x, {call}(x, y, device)
"""
PLAIN: Factors = {
    "declared": (": torch.Tensor", ""),
    "default": DEFAULTS,
    "context": CONTEXTS,
    "x": TENSORS,
    "y": TENSORS,
    "call": ("subject", "globals()['subject']"),
}


def around(body: str, program: str = AROUND) -> str:
    """A program whose function `subject` has this body."""
    return program.replace("{body}", textwrap.indent(textwrap.dedent(body).strip(), "    "))


# A function is called in sight with what is usual, and out of sight with anything: a safe fix holds
# for callers that nobody sees, too.
GIVEN = """\
import os

import numpy as np
import torch
from torch import nn


def subject(x{declared}, n, device):
{body}


def run(device):
    if os.environ.get("SEEN"):
        subject(torch.randn(2, 3, device="cuda"), {usual}, device)
    x = {x}
    return x, globals()["subject"](x, {n}, device)
"""


HOT = """\
import contextlib

import torch
from torch import nn


def run(device):
    model = nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.ones(2, 4, device=device)
    shown = []
    for _ in range(1):
        loss = model(batch).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {default}
        with {context}:
{body}
    return None, shown
"""


def hot(body: str) -> str:
    """A training step."""
    return HOT.replace("{body}", textwrap.indent(textwrap.dedent(body).strip(), " " * 12))


NUMBERS = st.one_of(
    st.sampled_from(["0", "1.0", "-1", "True", "1e5", "65520.0", "3.4e38", "1e39", "2**63", "300"]),
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False).map(lambda x: repr(x) if abs(x) < 1e400 else "1e999"),
    st.sampled_from(['float("inf")', '-float("inf")', 'float("nan")']),
)
SMALL = st.integers(1, 2000).map(lambda number: repr(number / 100))


def unseen(
    code: str,
    usual: str,
    given: Sequence[str],
    made: Sequence[str],
    x: Sequence[str] = TENSORS[:4],
    devices: Sequence[str] = ("cpu",),
) -> Template:
    """Programs whose function is given `n` as usual in sight, and anything out of sight.

    Each choice is drawn evenly, not the plain one mostly.
    """
    drawn = {"made": made, "n": (usual, *given), "x": x}
    return Template(
        code,
        around("return {made}", GIVEN),
        {"declared": (": torch.Tensor", ""), "usual": (usual,), **drawn},
        devices,
        strategies={name: st.sampled_from(values) for name, values in drawn.items()},
    )


# ------------------------------------------------------------------------------- templates

TEMPLATES = (
    Template(
        "AMP501",
        around(
            """
            made = {factory}{first}{second}
            return made.to(device{dtype})
            """
        ),
        {
            **PLAIN,
            "factory": FACTORIES,
            "first": STEPS,
            "second": STEPS,
            "dtype": ("", *(f", {dtype}" for dtype in DTYPES)),
        },
        devices=("cpu", "meta"),
    ),
    Template(
        "AMP202",
        around("return {factory}{first}{cast}"),
        {
            **PLAIN,
            "factory": FACTORIES,
            "first": STEPS,
            "cast": (".type_as(x)", ".to(x)", ".type(x.type())", ".to(x, non_blocking=True)"),
        },
    ),
    unseen(
        "AMP501",
        "torch.float16",
        ('"torch.FloatTensor"', "torch.LongTensor", '"cpu"', "torch.int32", "None"),
        (
            'torch.ones(3, 4).type("torch.FloatTensor").to(device)',
            "torch.ones(3, 4).type(torch.LongTensor).to(device)",
            "torch.ones(3, 4).type(n).to(device)",
            "torch.ones(3, 4).type(dtype=n).to(device)",
            "torch.ones(3, 4).type(x.type()).to(device)",
            "torch.ones(3, 4).type(x.dtype).to(device)",
            "torch.ones(3, 4).to(n).to(device)",
            "torch.ones(3, 4).view(n).to(device)",
            "torch.ones(3, 4, dtype=n).to(device)",
            "torch.full((3, 4), 2.0).to(device, n)",
            "torch.ones(3, 4).to(device, n)",
        ),
        devices=("cpu", "meta"),
    ),
    unseen(
        "AMP501",
        "3",
        ("torch.ones(3, 4)", "None", "0.5", "[3, 4]", "torch.tensor(2)", "torch.Size([3, 4])"),
        (
            "torch.ones(3, 4).eq(n).to(device)",
            "(torch.ones(3, 4) > n).to(device)",
            "torch.ones(3, 4).fill_(n).to(device)",
            "torch.ones(3, 4)[n].to(device)",
            "torch.ones(3, 4)[None].to(device)",
            "torch.ones(3, 4).tril(n).to(device)",
            "torch.ones(n).to(device)",
            "torch.zeros(*n).to(device)",
            "torch.full((3, 4), n).to(device)",
            "torch.arange(n).to(device)",
            "torch.arange(0, 3, n).to(device)",
            "torch.ones(3, 4).view(-1, n).to(device)",
            "torch.ones(3, 4).to(x.device, non_blocking=n)",
        ),
        devices=("cpu", "meta"),
    ),
    unseen(
        "AMP501",
        '"meta"',
        ('"cpu"', "torch.float64", "None", "torch.ones(3)"),
        (
            "torch.zeros(3, 4).to(n)",
            "torch.ones(4).bool().to(n)",
            "torch.ones(4).to(device=n)",
            "torch.ones(4).to(device)",
        ),
        devices=("cpu", "meta"),
    ),
    unseen(
        "AMP501",
        "torch.zeros",
        ("lambda *sizes: torch.ones(*sizes)", "torch.ones", "torch.rand"),
        ("n(3, 4).to(device)", "n(3, 4).t().to(device)", "torch.zeros(3, 4).to(device)"),
        devices=("cpu", "meta"),
    ),
    unseen(
        "AMP202",
        "12",
        ("torch.int32", "(4, 3)", "300.0", "torch.tensor(12)", "None"),
        (
            "torch.ones(12).view(n).type_as(x)",
            "torch.ones(12).view(1, n).type_as(x)",
            "torch.ones(12).reshape(n).type_as(x)",
            "torch.full((3, 4), n).type_as(x)",
            "torch.full(size=(3, 4), fill_value=n).type_as(x)",
            "torch.ones(n).type_as(x)",
            "torch.ones(2, n).to(x)",
            "torch.ones(12)[n:].type_as(x)",
            "torch.ones(3, 4, dtype=n).type_as(x)",
        ),
        x=TENSORS,
    ),
    unseen(
        "AMP202",
        'torch.ones(3, device="cuda")',
        (
            "torch.ones(3)",
            "torch.ones(3).half()",
            "torch.float64",
            "torch.ones(3).to(torch.float8_e4m3fn)",
            "torch.ones(3).to_sparse()",
            "None",
        ),
        (
            "torch.zeros(3, 4).to(n)",
            "torch.ones(3, 4).type_as(n)",
            "torch.full((3, 4), 300.0).type_as(n)",
            "torch.full((3, 4), 0.1).to(n)",
            "torch.eye(3).type_as(n)",
            "torch.zeros(3, 4).to(n.detach())",
            "torch.zeros(3, 4).to(x)",
            "torch.ones(3, 4).type_as(x)",
        ),
    ),
    unseen(
        "AMP503",
        "torch.float16",
        ("None", "float", '"cpu"'),
        (
            "torch.tensor(x.detach(), dtype=n)",
            "torch.tensor(x.detach(), device=n)",
            "x.new_tensor(x.detach().double(), dtype=n)",
            "x.new_tensor(x.detach().double(), dtype=n, device=x.device)",
            "x.new_tensor(x.detach().double(), dtype=x.dtype)",
            "x.new_tensor(x.detach().double())",
        ),
    ),
    unseen(
        "AMP503",
        "torch.ones(3)",
        ("[1.5, 2.0]", "np.ones(3)", "2.5", "torch.ones(3).half()"),
        (
            "torch.tensor(n)",
            "torch.tensor(n * 2)",
            "torch.tensor(n[0])",
            "torch.tensor(n + x.detach()[:, :1])",
            "torch.tensor(x.detach() == n)",
            "torch.tensor(n.float())",
            "x.new_tensor(n)",
            "n.new_tensor(x.detach())",
        ),
    ),
    unseen(
        "AMP503",
        "True",
        ("False", "None", "torch.FloatTensor", "1"),
        (
            "torch.tensor(x.detach(), requires_grad=n)",
            "x.new_tensor(x.detach(), requires_grad=n)",
            "torch.tensor(x.detach(), requires_grad=x.requires_grad)",
        ),
    ),
    Template(
        "AMP503",
        around("return {made}"),
        {
            **PLAIN,
            "made": (
                "torch.tensor(x.detach())",
                "torch.tensor(x)",
                "torch.tensor(x.detach(), dtype=torch.float64)",
                "torch.tensor(x, dtype=torch.float16)",
                "torch.tensor(x.detach(), dtype=x.dtype)",
                "torch.tensor(x.detach(), device=device)",
                "torch.tensor(x, device=x.device, dtype=torch.int64)",
                "torch.tensor(x.detach(), requires_grad=True)",
                "torch.tensor(x, requires_grad=x.requires_grad)",
                "torch.tensor(x.expand(2, *x.shape))",
                "torch.tensor(x.clone().detach())",
                "torch.tensor(x + 1)",
                "torch.tensor(x.detach()[0])",
                "torch.tensor(x.mean())",
                "x.new_tensor(y)",
                "x.new_tensor(y, requires_grad=True)",
                "x.new_tensor(y, dtype=torch.float64)",
                "x.new_tensor(y.detach())",
            ),
        },
        devices=("cpu", "meta"),
    ),
    Template(
        "AMP504",
        around("return {made}"),
        {
            **PLAIN,
            "made": (
                "torch.{kind}Tensor([1.0, 2.5])",
                "torch.{kind}Tensor([[1, 2], [3, 4]])",
                "torch.{kind}Tensor((-1, 300.0))",
                "torch.{kind}Tensor([70000.0, 1e39])",
                "torch.{kind}Tensor([True, 2])",
                "torch.{kind}Tensor([])",
                "torch.{kind}Tensor([len(x), 1e-9])",
                "torch.{kind}Tensor(x.tolist())",
                "torch.{kind}Tensor(2, 3).zero_()",
                "torch.{kind}Tensor(len(x)).zero_()",
                "torch.{kind}Tensor(x.shape).zero_()",
                "torch.{kind}Tensor(x.size()).zero_()",
                "torch.{kind}Tensor(*x.shape).zero_()",
                "torch.{kind}Tensor(2, *x.shape).zero_()",
                "torch.{kind}Tensor().zero_()",
                "torch.{kind}Tensor(x.size(0), 2).zero_()",
                "x.new(2, 3).zero_()",
                "x.new(y.shape).zero_()",
                "x.new(*y.shape).zero_()",
                "x.new().zero_()",
                "x.new([1, 2.5])",
                "x.new([70000.0])",
                "x.type(torch.{kind}Tensor)",
                "(x + 1).type(torch.{kind}Tensor)",
                "x.t().type(torch.{kind}Tensor)",
            ),
            "kind": tuple("Float Double Half BFloat16 Long Int Short Char Byte Bool".split()),
        },
    ),
    unseen(
        "AMP504",
        "3",
        ("[1.5, 2.0]", "(2, 3)", "torch.tensor([[0, 2]])", "torch.tensor(2)", "True", "None"),
        (
            "x.new(2, 3).zero_()",
            "x.new(len(x.shape), x.ndim + 1).zero_()",
            "x.new(n).zero_()",
            "x.new(n, n).zero_()",
            "x.new(3, n).zero_()",
            "x.new([n, 2.0])",
            "x.new((n,))",
            "x.new(n, torch.ones(2))",
            "x.new(n, torch.ones(2), torch.Size([3]))",
            "x.new(x._indices(), x._values(), x.size())",
            "x.new(device=n)",
            "torch.FloatTensor(n)",
            "torch.LongTensor(n).zero_()",
            "torch.HalfTensor(n, 2).zero_()",
            "torch.FloatTensor([n, 2.0])",
            "torch.FloatTensor(n * 2).zero_()",
        ),
        ("torch.randn(2, 3)", "torch.randn(2, 3).to_sparse()", "torch.zeros(6).half().to_sparse()"),
    ),
    unseen(
        "AMP504",
        "torch.ones(3)",
        ("torch.arange(6)[4]", "np.ones((2, 3))", "torch.ones(2, 3)", "torch.ones(3).to_sparse()"),
        (
            "x.new(x.shape).zero_()",
            "x.new(*x.shape, 2).zero_()",
            "torch.FloatTensor(x.size()).zero_()",
            "x.new(n.shape).zero_()",
            "x.new(*n.shape).zero_()",
            "x.new(n.tolist())",
            "x.new(n)",
            "torch.FloatTensor(n.shape).zero_()",
            "torch.LongTensor(n.shape[1:]).zero_()",
            "torch.FloatTensor(n.shape[:1] + (2,)).zero_()",
            "torch.FloatTensor(*n.shape).zero_()",
            "torch.LongTensor(n.tolist())",
            "torch.FloatTensor(n)",
        ),
        ("torch.randn(2, 3)", "torch.randn(2, 3).to_sparse()"),
    ),
    unseen(
        "AMP504",
        "[2, 3]",
        ("3", "()", "(2, 3)", "torch.Size([2, 3])", "[torch.tensor([[0, 2]]), torch.ones(2)]"),
        (
            "x.new(n)",
            "x.new(*n).zero_()",
            "x.new(2, *n).zero_()",
            "x.new([each for each in n])",
            "torch.FloatTensor(n)",
            "torch.FloatTensor(*n).zero_()",
            "torch.FloatTensor(2, *n).zero_()",
            "torch.FloatTensor(*n, 2).zero_()",
            "torch.FloatTensor(n, *n[2:])",
        ),
        ("torch.randn(2, 3)", "torch.zeros(6).to_sparse()"),
    ),
    unseen(
        "AMP504",
        '"torch.FloatTensor"',
        ("torch.float64", '"torch.DoubleTensor"', "torch.LongTensor", "torch.int32"),
        (
            "(x.type(n), x.type(torch.LongTensor))",
            "(x.cpu().type(n), x.type(torch.LongTensor))",
            "(x.type(dtype=n), torch.LongTensor([2]))",
            "x.type(torch.LongTensor)",
            "x.type(torch.LongTensor, n)",
        ),
    ),
    Template(
        "AMP504",
        """\
import torch


def run(device):
    {before}
    torch.set_default_tensor_type(torch.{kind}Tensor)
    return None, [torch.zeros(2), torch.tensor([1.5]), torch.ones(2).long(), {more}]
""",
        {
            "before": (
                "pass",
                "torch.set_default_dtype(torch.float64)",
                "torch.set_default_device('cpu')",
                "torch.set_default_tensor_type('torch.DoubleTensor')",
            ),
            "kind": ("Float", "Double", "Half", "BFloat16", "Long"),
            "more": ("torch.get_default_dtype()", "torch.Tensor([1]).dtype", "torch.rand(2)"),
        },
    ),
    Template(
        "AMP502",
        hot(
            """
            x = torch.ones(2, device=device, dtype={like})
            shown.append({made})
            """
        ),
        {
            "default": DEFAULTS,
            "context": CONTEXTS[:-1],
            "like": DTYPES,
            "made": (
                "torch.tensor({n}, device=device)",
                "torch.tensor({n}, dtype={dtype}, device=device)",
                "torch.as_tensor({n}, device=device)",
                "torch.tensor({n}).to(device)",
                "torch.tensor({n}, dtype={dtype}).to(device)",
                "torch.tensor({n}).to(device, {dtype})",
                "torch.tensor({n}).to(x.device)",
                "torch.tensor({n}, device=device, requires_grad=True)",
                "torch.tensor(data={n}, device=device)",
                "x.new_tensor({n})",
                "x.new_tensor({n}, dtype={dtype})",
                "torch.tensor({n}).mul(3).to(device)",
                "torch.tensor({n}).unsqueeze(0).to(device)",
            ),
            "dtype": DTYPES,
        },
        strategies={"n": NUMBERS},
    ),
    Template(
        "AMP107",
        """\
import os

import numpy as np
import torch
from torch import nn


class Bounds:
    def __init__(self, eps):
        self.eps = eps


def bound(bounds, loss: torch.Tensor, given{declared}, state):
    part = loss if state else given
    return {bounded}


def run(device):
    model = nn.Linear(4, 4).to(device)
    bounds = Bounds({eps})
    for _ in range(1):
        loss = model(torch.ones(2, 4, device="cuda:0")).sum()
        loss.backward()
        if os.environ.get("SEEN"):
            bound(bounds, loss, loss.detach() / 2, {"rms": loss.norm()})
        state = {"rms": {given}}
        shown = globals()["bound"](bounds, loss, {given}, state)
    return None, [float(shown)]
""",
        {
            "declared": ("", ": torch.Tensor | float"),
            "bounded": (
                "max(bounds.eps, given)",
                "min(given, 0.5)",
                "max(loss, given)",
                "max(given, loss)",
                "max(state['rms'], 1)",
                "max(1.0 - given, 0.0)",
                "max(given + 1, bounds.eps)",
                "max(0.0, part)",
                "max(loss, 0.5)",
                "max(loss.sqrt() * given, bounds.eps)",
                "max((loss > 0).sum(), 1)",
                "max(loss > 0, 0)",
                "max(loss.long(), 1.5)",
                "max(loss.to(torch.uint8), 300)",
                "max(loss.half(), 1e5)",
                "min(loss.detach(), loss * 2)",
                "min(loss.half(), loss)",
                "any(loss[None] > 0)",
                "all(loss.reshape(1))",
            ),
            "eps": ("0.1", "2"),
            "given": ("torch.tensor(0.3)", "0.3", "2", "np.float32(0.3)", "np.ones(())", "True"),
        },
        instead=(("cuda:0", "cpu"),),
        unsafe=True,
    ),
    Template(
        "AMP204",
        """\
import contextlib

import torch


def run(device):
    {default}
    buffer = torch.zeros(4, 4, device=device, dtype={of_buffer})
    rows = torch.full({shape}, {n}, device=device, dtype={of_rows}{grad})
    index = {index}
    {around}:
        {written}
    {after}
    return rows, [buffer]
""",
        {
            "default": DEFAULTS,
            "of_buffer": DTYPES,
            "of_rows": ("torch.float16", *DTYPES),
            "shape": ("(2, 4)", "(1, 4)", "(4,)", "()", "(1,)", "(0, 4)"),
            "grad": ("", ", requires_grad=True"),
            "index": (
                "torch.tensor([2, 0], device=device)",
                "torch.tensor([True, False, True, False], device=device)",
                "[2, 0]",
                "slice(0, 2)",
                "1",
                "torch.tensor([], dtype=torch.int64, device=device)",
            ),
            "around": ("if True", "try", "with contextlib.suppress(RuntimeError, IndexError)"),
            "written": (
                "buffer[index] = rows",
                "buffer.index_add_(0, index, rows)",
                "buffer.index_copy_(0, index, rows)",
                "buffer.scatter_(0, index[:, None].expand(2, 4), rows)",
                "buffer.masked_scatter_(index, rows)",
                "buffer.index_put_((index,), rows)",
            ),
            "after": ("", "except RuntimeError: pass", "finally: pass"),
        },
        strategies={"n": st.sampled_from(["0.1", "70000.0", "3"])},
    ),
    Template(
        "AMP204",
        """\
import os

import numpy as np
import torch
from torch import nn


def put(buffer{declared}, rows{declared}, index, kind, store):
    with {region}:
        {written}
    return buffer


def run(device):
    if os.environ.get("SEEN"):
        put(torch.zeros(4, 4), {usual}, torch.tensor([2, 0]), torch.float16, torch.zeros(4, 4))
    store = {store}
    return None, [globals()["put"]({buffer}, {rows}, {index}, {kind}, store), store]
""",
        {
            "declared": (": torch.Tensor", ""),
            "usual": ("torch.ones(2, 4).half()", "torch.ones(2, 4)"),
            "region": ('torch.autocast("cuda")', "torch.no_grad()"),
            "written": (
                "buffer[index] = rows",
                "store[index] = rows.half()",
                "store[index] = rows",
                "buffer[index] = rows.to(kind)",
                "buffer[index] = rows.type(kind)",
                "buffer.index_add_(0, index, rows.half())",
                "buffer.index_copy_(0, index, rows)",
                "buffer[0:][index] = rows.half()",
                "buffer.view(4, 4)[index] = rows",
                "rows = rows @ torch.eye(4); buffer[index] = rows",
                "rows = nn.functional.linear(rows, torch.eye(4)); buffer[index] = rows",
                "buffer = torch.zeros(4, 4); buffer[index] = rows.half()",
                "buffer = torch.zeros(4, 4); buffer[index] = rows",
                "buffer = torch.zeros(4, 4); buffer[0:][index] = rows.half()",
                "buffer = torch.zeros(4, 4, dtype=kind); buffer[index] = rows.float()",
            ),
            "buffer": (
                "torch.zeros(4, 4)",
                "torch.zeros(4, 4).half()",
                "torch.zeros(4, 4).double()",
            ),
            "store": ("torch.zeros(4, 4)", "np.zeros((4, 4))", "{}", "[0, 1, 2]"),
            "rows": (
                "torch.ones(2, 4).half()",
                "torch.ones(2, 4)",
                "torch.ones(2, 4).long()",
                "torch.tensor(1.0).half()",
            ),
            "index": (
                "torch.tensor([2, 0])",
                "torch.tensor([True, False, True, False])",
                "[2, 0]",
                "slice(0, 2)",
                "1",
                "np.array([2, 0])",
            ),
            "kind": ("torch.float16", "torch.float32", '"cpu"', '"torch.HalfTensor"', "None"),
        },
    ),
    Template(
        "AMP301",
        """\
import torch
import torch.nn.functional as F
from torch import nn


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad.to(weight.dtype) @ weight.t(), x.t() @ grad.to(x.dtype)


def run(device):
    torch.manual_seed(0)
    one, two = nn.Linear(8, 8), nn.Linear(8, 8)
    norm = nn.LayerNorm(8)
    one, two, norm = one.to(device), two.to(device), norm.to(device)
    x = torch.randn(6, 8, device=device)
    h = {early}
    with torch.autocast("cuda", dtype={dtype}):
        h = {first}
        h = {second}
        {third}
        loss = {loss}
        {backward}
    return None, [each.grad for each in (*one.parameters(), *two.parameters())]
""",
        {
            "early": ("x", "one(x)", "x * 2"),
            "dtype": ("torch.bfloat16", "torch.float16"),
            "first": ("one(h)", "torch.tanh(one(h))", "one(h.float())", "norm(one(h))"),
            "second": (
                "two(h)",
                "F.softmax(two(h), -1)",
                "F.gelu(two(h)) + h",
                "torch.cdist(two(h).float(), h.float())",
                "torch.linalg.inv(two(h)[:, :6].float() + 9 * torch.eye(6))",
                "torch.einsum('ij,kj->ik', h, two.weight)",
                "two(h.double().to(h.dtype))",
                "h @ two.weight.t()",
                "F.layer_norm(two(h), (8,))",
                "Product.apply(h, two.weight.to(h.dtype))",
                "torch.matmul(two(h), one.weight)",
            ),
            "third": (
                "pass",
                'with torch.autocast("cuda", enabled=False): h = one(h.float())',
                "h = torch.stack([h, h]).sum(0)",
                "h = F.dropout(h, 0.5)",
                "h = h.float() @ h.float().t()",
                "h = torch.nn.functional.linear(h, h)",
            ),
            "loss": (
                "h.float().square().mean()",
                "h.sum()",
                "F.mse_loss(h, torch.zeros_like(h))",
                "F.cross_entropy(h, torch.zeros(len(h), dtype=torch.long))",
                "h.exp().mean()",
                "torch.logsumexp(h, 0).sum()",
            ),
            "backward": ("loss.backward()", "(loss * 8).backward()", "loss.mul(3).backward()"),
        },
        instead=(("cuda", "cpu"),),
    ),
    Template(
        "AMP313",
        """\
import os

import torch


def volume(x: torch.Tensor):
    with {region}:
        h = {h}
        return {used}


def run(device):
    {default}
    x = torch.eye(4, device=device)
    if os.environ.get("SEEN"):
        volume(x.half())
    return None, [globals()["volume"](x{of_x})]
""",
        {
            "default": DEFAULTS,
            "region": ('torch.autocast("cuda")', 'torch.autocast("cpu")'),
            "h": (
                "x.half()",
                "x.bfloat16().t()",
                "x.to(torch.float16).contiguous()",
                "x",
                "x @ x",
            ),
            "used": (
                "torch.logdet(h)",
                "h.quantile(0.5)",
                "torch.linalg.inv(h)",
                "torch.linalg.solve(h, h + 1)",
                "torch.linalg.svdvals(h)",
                "torch.fft.fft(h)",
                "torch.linalg.matrix_norm(h, 2)",
            ),
            "of_x": ("", ".double()", ".half()"),
        },
    ),
    Template(
        "AMP701",
        """\
import contextlib

import torch


def run(device):
    x = torch.full((4, 4), 0.1)
    {setter}
    with {outer}:
        with torch.cpu.amp.autocast({arguments}):
            y = x @ x
            z = torch.is_autocast_cache_enabled()
            w = torch.is_autocast_enabled("cpu")
    return None, [y, z, w, torch.get_autocast_dtype("cpu")]
""",
        {
            "setter": (
                "pass",
                'torch.set_autocast_dtype("cpu", torch.float16)',
                "torch.set_autocast_cpu_dtype(torch.float16)",
            ),
            "outer": (
                "contextlib.nullcontext()",
                'torch.autocast("cpu")',
                'torch.autocast("cpu", dtype=torch.float16)',
                'torch.autocast("cpu", torch.float16)',
                'torch.autocast("cpu", enabled=False)',
                'torch.autocast("cpu", cache_enabled=False)',
                "torch.autocast('cpu', dtype=getattr(torch, 'float16'))",
            ),
            "arguments": (
                "",
                "True",
                "False",
                "enabled=False",
                "True, torch.float16",
                "True, torch.bfloat16, False",
                "dtype=torch.float16",
                "cache_enabled=False",
                "enabled=True, dtype=torch.bfloat16",
                "**{'enabled': False}",
                "*[False]",
            ),
        },
    ),
    Template(
        "AMP702",
        """\
import torch


def run(device):
    scaler = torch.cpu.amp.GradScaler({arguments})
    loss = torch.ones(3, requires_grad=True)
    scaler.scale(loss.sum()).backward()
    return loss, [scaler.state_dict(), scaler.is_enabled(), scaler.get_scale()]
""",
        {
            "arguments": (
                "",
                "1024.0",
                "1024.0, 3.0, 0.25",
                "init_scale=2.0",
                "enabled=False",
                "1024.0, enabled=True",
                "*[8.0]",
                "**{'init_scale': 4.0}",
            ),
        },
    ),
    Template(
        "AMP703",
        """\
import torch
{imported}


class Double(torch.autograd.Function):
    @staticmethod
    @{fwd}
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ x

    @staticmethod
    @{bwd}
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad.float() @ x.float().t() + x.float().t() @ grad.float()


def run(device):
    x = torch.full((3, 3), 0.3, device=device, requires_grad=True)
    with torch.autocast({region}):
        y = Double.apply({given})
    return x, [y]
""",
        {
            "imported": (
                "from torch.cuda.amp import custom_bwd, custom_fwd",
                "from torch.cuda.amp import custom_bwd as custom_bwd, custom_fwd as custom_fwd",
                "from torch.cuda.amp.autocast_mode import custom_bwd, custom_fwd",
                "custom_fwd, custom_bwd = torch.cuda.amp.custom_fwd, torch.cuda.amp.custom_bwd",
            ),
            "fwd": (
                "torch.cuda.amp.custom_fwd",
                "custom_fwd",
                "custom_fwd(cast_inputs=torch.float32)",
                "torch.cuda.amp.custom_fwd(cast_inputs=torch.float16)",
                "torch.cuda.amp.custom_fwd(cast_inputs=None)",
            ),
            "bwd": ("torch.cuda.amp.custom_bwd", "custom_bwd"),
            "region": ('"cpu"', '"cpu", enabled=False', '"cpu", torch.float16'),
            "given": ("x", "x.double()", "x.bfloat16()"),
        },
    ),
    Template(
        "AMP704",
        """\
import torch
{imported}


def run(device):
    shown = []
    {before}
    with torch.autocast({region}):
        shown.append({asked})
        {done}
        shown.append(torch.ones(2, 2) @ torch.ones(2, 2))
    return None, [*shown, torch.get_autocast_dtype("cuda"), torch.get_autocast_dtype("cpu")]
""",
        {
            "imported": ("", "from torch import get_autocast_gpu_dtype, is_autocast_cpu_enabled"),
            "before": (
                "pass",
                "torch.set_autocast_gpu_dtype(torch.bfloat16)",
                "torch.set_autocast_cpu_dtype(torch.float16)",
                "torch.set_autocast_cpu_dtype(*[torch.float16])",
            ),
            "region": ('"cpu"', '"cpu", enabled=False', '"cpu", torch.float16'),
            "asked": (
                "torch.get_autocast_gpu_dtype()",
                "torch.get_autocast_cpu_dtype()",
                "torch.is_autocast_cpu_enabled()",
                "(torch.get_autocast_cpu_dtype(), torch.is_autocast_cpu_enabled())",
                "[f() for f in (torch.get_autocast_cpu_dtype,)]",
            ),
            "done": (
                "pass",
                "torch.set_autocast_cpu_enabled(False)",
                "torch.set_autocast_cpu_enabled(torch.is_autocast_cpu_enabled())",
                "torch.set_autocast_cpu_dtype(torch.bfloat16)",
            ),
        },
    ),
    Template(
        "AMP405",
        """\
import contextlib

import torch
from torch import nn


def run(device, always=True):
    torch.manual_seed(0)
    model = nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=8.0{enabled})
    for step in range(2):
        optimizer.zero_grad()
        scaler.scale(model(torch.ones(2, 4, device=device)).sum()).backward()
        {first}
        {between}
        {second}
        scaler.step(optimizer)
        scaler.update()
    return None, [model.weight.detach(), scaler.get_scale()]
""",
        {
            "enabled": ("", ", enabled=False", ", enabled=device != 'cpu'"),
            "first": (
                "scaler.unscale_(optimizer)",
                "if always: scaler.unscale_(optimizer)",
                "if step % 2 == 0: scaler.unscale_(optimizer)",
                "with contextlib.nullcontext(): scaler.unscale_(optimizer)",
            ),
            "between": (
                "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
                "pass",
                "scaler.update()",
                "scaler.step(optimizer); scaler.update()",
            ),
            "second": (
                "scaler.unscale_(optimizer)",
                "if step: scaler.unscale_(optimizer)",
                "with contextlib.suppress(RuntimeError): scaler.unscale_(optimizer)",
                "try: scaler.unscale_(optimizer)\n        except RuntimeError: scaler.update(4.0)",
                "try: scaler.unscale_(optimizer)\n        finally: pass",
            ),
        },
    ),
    Template(
        "AMP416",
        """\
import contextlib

import torch
from torch import nn


def run(device):
    weight = nn.Parameter(torch.full((4,), 0.5, device=device))
    scaler = torch.amp.GradScaler(device, init_scale=8.0, enabled={enabled})
    loss = {loss}
    {around}:
        scaler.scale({given}).backward()
    {after}
    return None, [weight.grad, loss]
""",
        {
            "enabled": ("True", "False"),
            "loss": (
                "weight.square().sum()",
                "weight * 2",
                "weight.detach().sum()",
                "(weight @ weight).reshape(1)",
                "weight.double().mean().half()",
            ),
            "around": ("if True", "try", "with contextlib.suppress(ValueError, AttributeError)"),
            "given": ("loss.item()", "(loss * 3).item()", "loss.mean().item()", "loss"),
            "after": (
                "",
                "except (ValueError, AttributeError): weight.grad = None",
                "finally: pass",
            ),
        },
    ),
    Template(
        "AMP901",
        """\
import torch
from torch import nn


def run(device):
    torch.manual_seed(0)
    model = nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = {start}
    losses = []
    for _ in range(3):
        loss = model(torch.ones(2, 4, device=device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {kept}
        {within}
    return None, [{read}]
""",
        {
            "start": (
                "0.0",
                "0",
                "torch.zeros((), device=device)",
                "torch.zeros(1, device=device)",
            ),
            "kept": (
                "total += loss",
                "total = total + loss",
                "losses.append(loss)",
                "total += loss * 2",
                "total += loss.item()",
                "total -= loss",
            ),
            "within": (
                "",
                "shown = float(total)",
                "model.weight.data += total * 0",
                "total = total * 0.5",
            ),
            "read": (
                "float(total), len(losses)",
                "total.item() if hasattr(total, 'item') else total",
                "total",
                "sum(losses)",
                "[each.item() for each in losses]",
                "losses",
                "float(total) > 1",
            ),
        },
    ),
)
CODES = tuple(dict.fromkeys(template.code for template in TEMPLATES))

# ------------------------------------------------------------------------------- one program


@dataclass
class Search:
    """What a search has found.

    Args:
        programs: that were generated, fixed, and that raised before they were fixed.
        refuted: by the property that differs: how far from plain, and the program.
    """

    generated: int = 0
    fixed: int = 0
    raised: int = 0
    refuted: dict[str, tuple[int, str]] = field(default_factory=dict)

    def refute(self, what: str, cost: int, program: str) -> None:
        if what not in self.refuted or cost < self.refuted[what][0]:
            self.refuted[what] = (cost, program)


def search(template: Template, examples: int, fix: Fix, start: int = 0) -> Search:
    """Generate programs and hold each against itself, fixed."""
    found = Search()

    @seed(start)
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(template.choices())
    def one(choice: dict[str, str]) -> None:
        text = written(template, choice)
        found.generated += 1
        after = fix(text, template)
        if after is None:
            return
        found.fixed += 1
        for device in template.devices:
            was, now = (outcome(runnable(each, template), device) for each in (text, after))
            if isinstance(was, Exception):
                found.raised += 1
                continue
            what = parting(was, now)
            if what is not None and (not template.unsafe or isinstance(now, Exception)):
                found.refute(what, template.cost(choice), f"{text}\n# fixed:\n{after}")

    one()
    return found


Fix = Callable[[str, Template], "str | None"]


def written(template: Template, choice: Mapping[str, str]) -> str:
    """The program of a choice; choices may hold the names of others."""
    text = template.text
    for _ in range(3):
        for name, value in choice.items():
            text = text.replace("{" + name + "}", value)
    return text


def runnable(text: str, template: Template) -> str:
    for there, here in template.instead:
        text = text.replace(there, here)
    return text


class Fixer:
    """Applies the safe fixes of one rule to a program, as `amplint fix` does.

    Args:
        unsafe: whether the unsafe ones are applied, whatever the template.
    """

    def __init__(self, root: Path, unsafe: bool = False) -> None:
        self.root = root
        self.unsafe = unsafe

    def __call__(self, text: str, template: Template) -> str | None:
        """The fixed program; None if nothing was fixed."""
        (self.root / FILE).write_text(text)
        request = Request(
            selection=Selection(self.root, (FILE,), frozenset({FILE})),
            settings=Settings(self.root, select=("ALL",), preview=True, target_torch="2.4"),
            rules=registry.all_rules(),
        )
        outcome = engine.run(request)
        assert not outcome.problems, outcome.problems
        findings: list[Finding] = [each for each in outcome.findings if each.code == template.code]
        allow = applying.UNSAFE if self.unsafe or template.unsafe else applying.SAFE
        fixed = applying.apply_fixes(text, findings, allow)
        return fixed.text if fixed.applied else None


# ------------------------------------------------------------------------------- runs


def outcome(text: str, device: str) -> dict[str, Any] | Exception:
    """What a program gives back, property by property, or raises."""
    space: dict[str, Any] = {"__name__": "main"}
    with untouched(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(text, FILE, "exec"), space)  # a program of the templates
            given, results = space["run"](device)
            facts = dict(properties("result", results))
            facts["random numbers"] = digest(torch.get_rng_state())
            facts["default dtype"] = torch.get_default_dtype()
            facts |= dict(gradients(given, results))
        except Exception as error:
            return error
    return facts


@contextmanager
def untouched() -> Iterator[None]:
    """Leave the state of torch as it was."""
    dtype, autocast = torch.get_default_dtype(), torch.get_autocast_dtype("cpu")
    torch.manual_seed(0)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.set_default_dtype(dtype)
        torch.set_autocast_dtype("cpu", autocast)


def properties(where: str, value: object) -> Iterator[tuple[str, object]]:
    """What a value is, part by part."""
    if isinstance(value, dict):
        value = [*value.items()]
    if isinstance(value, (list, tuple)):
        yield f"{where} length", len(value)
        for index, each in enumerate(value):
            yield from properties(f"{where}[{index}]", each)
    elif isinstance(value, torch.Tensor):
        yield f"{where} type", type(value).__name__
        yield f"{where} dtype", value.dtype
        yield f"{where} device", value.device
        yield f"{where} layout", value.layout
        yield f"{where} shape", tuple(value.shape)
        yield f"{where} gradient", (value.requires_grad, value.is_leaf)
        yield f"{where} inference", value.is_inference()
        if value.layout is torch.strided:
            yield f"{where} stride", value.stride()
            yield f"{where} conjugate", value.is_conj()
        yield f"{where} value", None if value.is_meta else digest(value)
    else:
        yield f"{where} object", repr(value)


def digest(value: torch.Tensor) -> str:
    """A hash of the bits."""
    plain = value.detach().to_dense().as_subclass(torch.Tensor)
    flat = plain.resolve_conj().resolve_neg().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest()


def gradients(given: object, results: object) -> Iterator[tuple[str, object]]:
    """What a backward pass through the results leaves in the tensor that was given."""
    tensors = results if isinstance(results, (list, tuple)) else [results]
    for each in tensors:
        if isinstance(each, torch.Tensor) and each.requires_grad and each.grad_fn is not None:
            each.sum().abs().backward(retain_graph=True)
    grad = given.grad if isinstance(given, torch.Tensor) and given.is_leaf else None
    yield from properties("gradient", grad)


def parting(was: Mapping[str, object], now: Mapping[str, object] | Exception) -> str | None:
    """The first property in which two runs differ."""
    if isinstance(now, Exception):
        return f"raises {type(now).__name__}"
    return next((name for name in was if was[name] != now.get(name)), None)


# ------------------------------------------------------------------------------- long searches


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.safe_programs")
    parser.add_argument("--examples", type=int, default=1000, help="programs for each template")
    parser.add_argument("--select", help="the code of one rule")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unsafe", action="store_true", help="try the unsafe fixes too")
    parser.add_argument("--json", type=Path, help="where to write the result")
    asked = parser.parse_args(arguments)
    entries = []
    with tempfile.TemporaryDirectory() as directory:
        fix = Fixer(Path(directory), asked.unsafe)
        for template in TEMPLATES:
            if asked.select not in (None, template.code):
                continue
            begun = time.perf_counter()
            found = search(template, asked.examples, fix, asked.seed)
            entries.append(
                {
                    "code": template.code,
                    "generated": found.generated,
                    "fixed": found.fixed,
                    "raised": found.raised,
                    "refuted": {what: text for what, (_, text) in sorted(found.refuted.items())},
                    "seconds": round(time.perf_counter() - begun, 1),
                }
            )
            print({**entries[-1], "refuted": sorted(found.refuted)}, flush=True)
    result = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "examples": asked.examples,
        "seed": asked.seed,
        "unsafe": asked.unsafe,
        "templates": entries,
    }
    if asked.json is not None:
        asked.json.write_text(json.dumps(result, indent=2) + "\n")
    return 1 if any(entry["refuted"] for entry in entries) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
