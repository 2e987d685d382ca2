"""What is a number, by its default, by its uses or by an option, leaves the dtype of a tensor."""

from __future__ import annotations

import ast

import pytest

from amplint.values.atoms import Host, Sequence, Value, one
from amplint.values.lattice import known
from tests.unit.test_inference import tensor, value

BESIDE = """
import argparse, math, torch
from torch import nn

class Net(nn.Module):
    def __init__(self, dim, heads, config, power=None, temperature=0.07):
        super().__init__()
        self.heads = heads
        self.dim = dim
        self.power = power or dim ** -0.5
        self.temperature = temperature
        self.unknown = config.build()
        self.gain = config.gain
        self.layer = nn.Linear(dim, 2 * config.width)
        self.group = heads // 2

    def forward(self, x, other, scale=1.0):
        s = torch.ones(2, 3).half()
        n = x.view(2, self.heads, -1)
        return s {operator} ({operand}), ({operand}) {operator} s
"""


@pytest.mark.parametrize("operator", ["*", "/", "+", "-", "//", "**", "%"])
@pytest.mark.parametrize(
    ("operand", "is_number"),
    [
        ("self.power", True),
        ("self.temperature", True),
        ("self.dim", True),
        ("self.heads", True),
        ("self.group", True),
        ("1 / self.temperature", True),
        ("scale", True),
        ("self.unknown.shape[-1]", True),
        ("self.unknown.size(0)", True),
        ("math.sqrt(self.unknown)", True),
        ("len(self.unknown)", True),
        ("self.gain", True),
        ("self.unknown", False),
        ("self.unknown.max()", False),
        ("other", False),
    ],
)
def test_a_number_keeps_the_dtype_on_either_side(
    operator: str, operand: str, is_number: bool
) -> None:
    program = BESIDE.replace("{operator}", operator).replace("{operand}", operand)
    expected = "float16" if is_number else None
    for text in (f"s {operator} ({operand})", f"({operand}) {operator} s"):
        assert tensor(ast.unparse(ast.parse(text)), program).dtype == expected


def test_a_tensor_that_a_call_gives_is_none() -> None:
    program = """
    import torch

    def scaled(s, factor=1.0):
        return s * factor

    def use():
        return scaled(torch.ones(2).half(), torch.ones(2))
    """
    assert tensor("s * factor", program).dtype == "float32"


def test_a_name_that_tests_tell_apart_is_no_number_by_the_use_of_one() -> None:
    program = """
    import torch

    def scaled(x, size):
        s = torch.ones(2).half()
        if isinstance(size, int):
            return x.view(size, -1)
        return s * size
    """
    assert tensor("s * size", program).dtype is None


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ('"--x", type=int, default=4', one(Host("int", 4))),
        ('"-x", "--y", dest="x", type=float', {Host("float"), Host("none", None, True)}),
        ('"--x", default=0.5', one(Host("float", 0.5))),
        ('"--x"', {Host("str"), Host("none", None, True)}),
        ('"x", type=str', {Host("str"), Host("none", None, True)}),
        ('"--x", action="store_true"', one(Host("bool"))),
        ('"--x", action="count", default=0', one(Host("int", 0))),
        ('"--x", nargs="+", type=int, default=[1]', one(Sequence(None, one(Host("int"))))),
        ('"--x", type=make', frozenset()),
        ("name, type=int, default=4", frozenset()),
        ('"--other", type=int, default=4', frozenset()),
    ],
)
def test_an_option_is_of_the_type_that_it_is_declared_with(declared: str, expected: Value) -> None:
    program = f"""
    import argparse

    def add(parser, name, make):
        parser.add_argument({declared})

    def main(name, make):
        parser = argparse.ArgumentParser()
        add(parser, name, make)
        use(parser.parse_args())

    def use(args):
        print(args.x)
    """
    assert known(value("args.x", program)) == expected


def test_options_come_with_what_is_left_over() -> None:
    program = """
    def main(parser):
        parser.add_argument("--size", type=int, default=4)
        args, rest = parser.parse_known_args()
        return args.size
    """
    assert known(value("args.size", program)) == one(Host("int", 4))


def test_a_default_is_not_what_an_option_is() -> None:
    """Nobody may conclude from it that a branch is not taken."""
    program = """
    def main(parser, loader):
        parser.add_argument("--steps", type=int, default=1)
        train(parser.parse_args().steps)

    def train(steps):
        return steps
    """
    assert value("steps", program) == one(Host("int", 1, known=False))


def test_a_flag_that_is_off_by_default_still_counts_as_on_for_a_region() -> None:
    program = """
    import argparse, torch

    def main(x):
        parser = argparse.ArgumentParser()
        parser.add_argument("--amp", action="store_true")
        parser.add_argument("--half", type=bool, default=False)
        args = parser.parse_args()
        with torch.autocast("cuda", enabled=args.amp):
            first = torch.mm(x, x)
        with torch.autocast("cuda", enabled=args.half):
            return torch.mm(x, x.t())
    """
    assert tensor("torch.mm(x, x)", program).dtype == "float16"
    assert tensor("torch.mm(x, x.t())", program).dtype == "float16"


@pytest.mark.parametrize(
    "argument",
    [
        "torch.reshape(a, b)",
        "einops.repeat(a, b)",
        "'%s' % a",
        "self.ops.transpose(a, b)",
        "x.t(a)",
    ],
)
def test_what_may_be_given_a_tensor_shows_no_number(argument: str) -> None:
    program = f"""
    import torch, einops

    class Net:
        def __init__(self, a, b, x):
            s = torch.ones(2).half()
            {argument}
            self.s = s * a
    """
    assert tensor("s * a", program).dtype is None
