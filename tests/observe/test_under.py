"""`pytest --amplint-under`: each test once more, as callers run the project that train in half."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.cli.options import divide

pytest.importorskip("torch")

from tests.command import Amplint
from tests.helpers import write

LIBRARY = b"""\
import torch
import torch.nn.functional as F
from torch import nn


class Scatter(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        out = torch.zeros(3, 4)
        out.index_add_(0, torch.tensor([0, 1]), self.fc(x))
        return out


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x)

    def encode(self, x):
        return x @ self.norm.weight.diag()


def loss(p, y):
    return F.binary_cross_entropy(p, y)


def energy(x, y):
    z = x @ y
    return z * z * 1e-6


def mean(x):
    return _mean(x)


def _mean(x):
    return x.mean()


def add_one(x):
    return mean(x) + 1


def rotated(positions, rates):
    angles = positions[:, None] @ rates[None]
    return angles.cos()


def gap(x, y):
    one = x.new_ones(1, 1)
    return x @ one - y @ one, (x @ one + 1.49999).round()


class Ascent(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    def step(self):
        for weight in self.param_groups[0]["params"]:
            narrowed(weight.grad)


def trained(weight, x):
    loss = _narrowed(weight @ x)
    loss.backward()


def _narrowed(z):
    if z.dtype != torch.float32:
        raise TypeError("trained in a region")
    return z.sum()


def narrowed(x):
    z = x @ x
    if z.dtype != torch.float32:
        raise TypeError("no half here")
    return z


class Losses:
    @staticmethod
    def binary(p, y):
        return F.binary_cross_entropy(p, y)

    @classmethod
    def sized(cls, x):
        return narrowed(x) if cls is Losses else x


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        _narrowed(grad @ grad)
        return grad


@torch.autocast("cuda")
def included(x):
    return (x @ x).dtype, excluded(x)


@torch.autocast("cuda", enabled=False)
def excluded(x):
    return (x @ x).dtype


def regions(x):
    return (x @ x).dtype, *included(x)
"""
TESTS = b"""\
import pytest
import torch

import library
from library import Norm, Scatter, add_one, energy, loss, mean


@pytest.fixture(scope="session")
def layer():
    return Norm()


def test_scatter():
    assert Scatter()(torch.ones(2, 8)).shape == (3, 4)


def test_scatter_again():
    Scatter()(torch.ones(2, 8))


def test_loss():
    assert loss(torch.rand(4), torch.ones(4)) > 0


def test_energy():
    large = torch.full((2, 2), 100.0)
    assert energy(large, large).isfinite().all()


def test_rotated():
    library.rotated(torch.arange(4000.0), torch.ones(2))


def test_gap():
    x = torch.linspace(1, 2, 9)[:, None]
    library.gap(x, x * 1.0001)


def test_no_gap():
    x = torch.linspace(1, 2, 9)[:, None]
    library.gap(x, x + 0.1)  # some digits are lost
    library.gap(x, (x / 3) * 3)  # float32 has none
    library.gap(torch.zeros(1, 1), x[:1])  # `round` makes 2 of 1.49999 in half
    library.gap(x[:0], x[:0])  # of nothing, nothing is lost


def test_refused():
    library.narrowed(torch.ones(2, 2))


def test_optimizer():
    weight = torch.nn.Parameter(torch.ones(2, 2))
    mean(weight).backward()
    library.Ascent([weight]).step()


def test_static():
    library.Losses.binary(torch.rand(4), torch.ones(4))


def test_class_method():
    library.Losses().sized(torch.ones(2, 2))


def test_own_backward():
    library.Kept.apply(torch.ones(2, 2, requires_grad=True)).sum().backward()


def test_trained():
    library.trained(torch.nn.Parameter(torch.ones(2, 2)), torch.ones(2, 2))


def test_regions_that_were_made_without_a_gpu():
    low, wide = torch.float16, torch.float32
    assert library.regions(torch.ones(2, 2)) in ((wide, wide, wide), (low, low, wide))


def test_compared():
    x = torch.rand(4, 4)
    assert library.mean.__name__ == "mean"
    torch.testing.assert_close(Norm().encode(x) * 3, x * 3, rtol=1e-9, atol=1e-9)


def test_own_dtypes(layer):
    y = layer(torch.randn(3, 4))
    assert y.dtype == torch.float32
    y.sum().backward()
    assert layer.norm.weight.grad.dtype == torch.float32
    assert layer.norm.num_batches_tracked == 1
    assert layer.norm.running_mean.dtype == torch.float32
    assert layer.norm.running_mean.abs().sum() > 0


@pytest.mark.parametrize("function", [mean, add_one])
def test_function(function):
    assert function(torch.ones(3)) >= 1


def test_script():
    for function in [mean, add_one]:
        assert torch.jit.script(function)(torch.ones(3)) >= 1


def test_gradcheck():
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(mean, x)


def test_double():
    assert mean(torch.ones(3, dtype=torch.float64)) == 1


def test_own_region():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16


def test_fails():
    assert mean(torch.ones(3)) == 2
"""
FILES = {"pyproject.toml": b"", "library.py": LIBRARY, "tests/test_library.py": TESTS}
SECTION = "= amplint ="
MODE = "autocast-float16"
ALL = "tests/test_library.py::"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(FILES, tmp_path_factory.mktemp("project"))


def suite(project: Path, *arguments: str) -> tuple[int, str, str]:
    """The exit status of a run of pytest, the report of it, and what pytest says beside that."""
    plugin = ["-p", "amplint_verify.observing.plugin", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "ignore", *plugin, *arguments],
        capture_output=True,
        text=True,
        cwd=project,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "80",
            "PYTHONPATH": os.pathsep.join([str(project), *filter(None, sys.path)]),
        },
        check=False,
    )
    before, _, report = ran.stdout.partition(SECTION)
    return ran.returncode, report, before + ran.stderr


@pytest.fixture(scope="module")
def report(project: Path) -> str:
    status, report, rest = suite(project, "--amplint-under", MODE)
    assert status == 1
    assert "FAILED tests/test_library.py::test_fails" in report
    assert "1 failed, 22 passed" in report, rest
    return report


def test_an_error_is_a_finding_by_the_code_of_its_rule_with_the_tests(report: str) -> None:
    assert "library.py:13:9 AMP204 mixed-dtype-write: torch refuses this: index_add_()" in report
    assert f"under {MODE} in {ALL}test_scatter and 1 more test" in report
    assert "library.py:30:5 AMP304" in report
    assert "library.py:90:9 AMP304" in report
    assert report.count("AMP304") == 2


def test_an_overflow_is_a_finding_and_what_is_not_finite_is_named(report: str) -> None:
    assert "library.py:35:12 AMP807 half-overflow: `z * z` overflowed float16" in report
    lead = f"amplint: only under {MODE}: `library.energy` returns NaN or infinity"
    assert f"{lead}, in {ALL}test_energy" in report


def test_an_error_without_a_rule_is_listed(report: str) -> None:
    lead = f"amplint: fails only under {MODE}: TypeError at library.py:83: no half here"
    assert f"{lead}, in {ALL}test_refused and 1 more test\n" in report
    assert report.count("fails only") == 1


def test_digits_that_no_operand_has_lost_are_lost_at_a_line(report: str) -> None:
    lead = "library.py:52:12 AMP805 positions-in-half: `angles.cos()` has not one right bit"
    assert lead in report
    lead = f"amplint: loses its digits under {MODE}: `sub` at library.py:57: the error is "
    (line,) = (line for line in report.splitlines() if "loses its digits" in line)
    assert line.startswith(lead)
    assert line.endswith(f"that of its operands below 0.4%, in {ALL}test_gap")


def test_comparisons_and_tests_that_run_as_they_are_are_counted(report: str) -> None:
    also = f"beside what is reported, in {ALL}test_energy"
    assert f"a comparison failed in 2 tests under {MODE}, which is not reported; {also}" in report
    assert f"ran 16 tests again under {MODE}" in report
    for reason in ("jit", "gradcheck", "float64"):
        assert f"1 test did not run again, because of {reason}" in report


def test_the_model_and_its_inputs_are_cast(project: Path) -> None:
    chosen = "own_dtypes or compared or scatter"
    status, report, _ = suite(project, "--amplint-under", "float16", "-k", chosen)
    assert status == 0
    assert "AMP204" in report
    assert "under float16 in tests/test_library.py::test_scatter and 1 more test" in report
    assert "fails only" not in report
    assert "a comparison failed" in report


def test_with_workers_and_an_error_fails_the_run_where_that_is_asked_for(project: Path) -> None:
    pytest.importorskip("xdist")
    workers = ("-p", "xdist", "-n", "2", "--amplint-observe-fail")
    status, report, _ = suite(project, "--amplint-under", MODE, *workers, "-k", "refused or double")
    assert status == 1
    assert "2 passed" in report
    assert report.count("TypeError at library.py:83") == 1


def test_a_mode_that_there_is_not(project: Path) -> None:
    status, _, text = suite(project, "--amplint-under", "half")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "--amplint-under takes one of autocast-float16, autocast-bfloat16, float16" in text


def test_the_command_shows_the_same(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    amplint = Amplint(capfd)
    ran = amplint("observe", "--under", MODE, "--pytest", "tests", "-k", "refused or scatter")
    assert ran.status == 1
    assert "library.py:13:9 AMP204" in ran.out
    assert f"under {MODE} in {ALL}test_scatter and 1 more test" in ran.out
    assert f"fails only under {MODE}: TypeError at library.py:83: no half here" in ran.err
    ran = amplint("observe", "--under", MODE, "--pytest", "tests", "-k", "refused")
    assert (ran.status, ran.out) == (1, "2 files, no findings\n")
    ran = amplint("observe", "--save", "--under", MODE, "--pytest", "tests")
    assert (ran.status, "shows no step, and saves nothing" in ran.err) == (2, True)
    ran = amplint("observe", "--under", MODE, "--entry", "library:mean")
    assert ran.status == 2
    assert "--under needs --pytest" in ran.err


LATE = """\
import torch
from library import loss

def test_one():
    loss(torch.rand(4), torch.ones(4))

def test_two(request):
    request.config.pluginmanager.get_plugin("amplint-watching").{} = 0
    loss(torch.rand(4), torch.ones(4))

def test_three():
    loss(torch.rand(4), torch.ones(4))
"""


@pytest.mark.parametrize(
    ("limit", "again", "left"), [("_end", "2 tests", "1 test"), ("_last", "0 tests", "3 tests")]
)
def test_tests_for_which_no_time_is_left_are_counted(
    limit: str, again: str, left: str, tmp_path: Path
) -> None:
    write({**FILES, "tests/test_library.py": LATE.format(limit).encode()}, tmp_path)
    _, report, _ = suite(tmp_path, "--amplint-under", MODE)
    assert ("AMP304" in report) == (limit == "_end")
    assert f"ran {again} again under {MODE}" in report
    assert f"{left} did not run again, because of the time limit" in report


@pytest.mark.parametrize(
    ("line", "own", "program"),
    [
        ("--pytest tests -k x --under float16", "--pytest --under float16", "tests -k x"),
        ("--under float16 --pytest tests", "--under float16 --pytest", "tests"),
        ("--script train.py --under float16", "--script train.py", "--under float16"),
    ],
)
def test_the_mode_may_stand_behind_the_tests(line: str, own: str, program: str) -> None:
    assert divide(line.split()) == (own.split(), program.split())
