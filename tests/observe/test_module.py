"""`amplint observe --module`: a module without a program, built and trained on random inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint_verify.runs.module_inputs import TensorForm, call_of, input_of
from tests.command import Amplint
from tests.helpers import write

MODELS = b"""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        rates = [rate.item() for rate in torch.linspace(0.5, 1, 4)]
        self.drop = nn.Dropout(rates[0])
        assert self.drop.p == 0.5  # what a constructor reads keeps its value
        self.stem = nn.Linear(8, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x, mask=None):
        x = self.drop(self.norm(self.stem(x)))
        if mask is not None:
            x = x.masked_fill(mask, -1e9)
        return x


class Region(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 8)

    def forward(self, rows):
        with torch.autocast("cuda", torch.float16):
            weights = self.table(rows) @ self.table.weight.T
            out = torch.zeros(4, 100, device=rows.device)
            out[rows] = weights
        return {"out": out, "rows": rows}


class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16384, 16384) for _ in range(38))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.sum().item()


def factory():
    return Net(4)


def number():
    return 3
"""
ROW = MODELS[: MODELS.index(b"return x.sum")].count(b"\n") + 1
MASKED = ("--input", "float32[2,8]", "--input", "mask=bool[2,4]")


@pytest.fixture
def amplint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Amplint:
    monkeypatch.chdir(write({"pkg/models.py": MODELS, "pyproject.toml": b""}, tmp_path / "a"))
    return Amplint(capfd)


def observed(amplint: Amplint, backend: str, module: str, *options: str) -> tuple[list[str], str]:
    """The codes that are reported of a module, and the remarks."""
    ran = amplint(
        "observe", "--format", "concise", "--backend", backend, "--module", f"pkg.models:{module}",
        *options,
    )  # fmt: skip
    return [line.split()[1] for line in ran.out.splitlines()], ran.err


def test_a_region_that_the_module_opens_is_seen(amplint: Amplint) -> None:
    codes, remarks = observed(amplint, "sim", "Region", "--input", "int64[4]<100")
    assert codes == ["AMP204"]
    assert "runs `pkg.models:Region on int64[4]<100`" in remarks
    assert "saw 2 steps of training on sim" in remarks


@pytest.mark.parametrize(
    ("module", "mode", "codes"),
    [
        ("Net(width=4)", "float16", ["AMP801"]),
        ("Net(width=4)", "bfloat16", []),
        ("factory", "autocast-float16", ["AMP801"]),
        ("factory", "", []),
    ],
)
def test_the_precision_that_callers_ask_for(
    amplint: Amplint, module: str, mode: str, codes: list[str]
) -> None:
    under = ("--under", mode) if mode else ()
    assert observed(amplint, "policy", module, *MASKED, *under)[0] == codes


def test_a_whole_module_is_cast_once(amplint: Amplint) -> None:
    _, remarks = observed(amplint, "sim", "Net", "--input", "float32[2,8]", "--under", "float16")
    assert "saw 2 steps of training on sim" in remarks


def test_ten_billion_parameters_take_no_memory(amplint: Amplint) -> None:
    large = ("Large", "--input", "float32[2,16384]", "--under", "autocast-bfloat16")
    codes, remarks = observed(amplint, "auto", *large)
    assert codes == ["AMP101"]
    why = "it has more than 50,000,000 numbers: too many for a CPU; sim saw all 2 steps"
    assert f"on policy the program ended early, after 0 steps: {why}" in remarks


def test_inputs_count_too(amplint: Amplint) -> None:
    _, remarks = observed(amplint, "policy", "Net", "--input", "float32[8000000,8]")
    assert "more than 50,000,000 numbers" in remarks


@pytest.mark.parametrize(
    ("module", "options", "remark"),
    [
        ("Nothing", (), "there is no 'pkg.models:Nothing'"),
        ("number", (), "'pkg.models:number' is no module of torch: it returns int"),
        ("Net(deep=3)", (), "pkg.models:Net(deep=3) cannot be called: got an unexpected"),
        ("Net(wide)", (), "the arguments in 'pkg.models:Net(wide)' are not literals"),
        ("Net(3)(4)", (), "the arguments in 'pkg.models:Net(3)(4)' are not literals"),
        ("Net", ("--input", "float[2]"), "the input 'float[2]' is neither a tensor, such as"),
        ("Net", ("--input", "float32[2,9]"), "raised RuntimeError at pkg/models.py:15: mat1 and"),
        ("Net", ("--entry", "pkg.models:number"), "say what to run, with one of"),
    ],
)
def test_what_cannot_be_run(
    amplint: Amplint, module: str, options: tuple[str, ...], remark: str
) -> None:
    codes, remarks = observed(amplint, "policy", module, *options)
    assert not codes
    assert remark in remarks


def test_the_options_of_a_module_need_one(amplint: Amplint) -> None:
    ran = amplint("observe", "--entry", "pkg.models:number", "--under", "float16")
    assert "--under needs --pytest or --module" in ran.err
    ran = amplint("observe", "--entry", "pkg.models:number", "--input", "float32[2]")
    assert "--input needs --module" in ran.err


def test_inputs_and_arguments() -> None:
    assert input_of("float32[]") == ("", TensorForm("float32", (), 2))
    assert input_of("ids=int64[2, 3]<7") == ("ids", TensorForm("int64", (2, 3), 7))
    assert input_of("sizes=(2, 3)") == ("sizes", (2, 3))
    assert input_of("None") == ("", None)
    assert call_of("a.b:C") == ("a.b:C", [], {})
    assert call_of("a.b:C((1, 2), n='x')") == ("a.b:C", [(1, 2)], {"n": "x"})
