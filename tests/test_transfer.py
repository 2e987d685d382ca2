"""Inference is held against torch: what is known of a program is what running it shows."""

from __future__ import annotations

import ast
import contextlib

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from amplint.index import File
from amplint.link import Program
from amplint.values import Host, Sequence, Tensor, only

START = """
import torch
import torch.nn.functional as F
a = torch.ones(4, 4)
b = torch.full((4, 4), 2)
c = torch.tensor(0.5)
d = torch.ones(4, dtype=torch.bool)
e = torch.zeros(4, 4).half()
f = 3
g = 0.25
"""
NAMES = "abcdefg"
FORMS = (
    "{x} + {y}", "{x} * {y}", "{x} - {y}", "{x} / {y}", "{x} > {y}", "-{x}", "{x} ** 2",
    "{x}.sum()", "{x}.sum(0)", "{x}.sum(dim=0, keepdim=True)", "{x}.mean()", "{x}.float()",
    "{x}.half()", "{x}.long()", "{x}.bfloat16()", "{x}.to(torch.float64)", "{x}.max()",
    "{x}.argmax()", "{x}.detach()", "{x}.clone()", "{x}.item()", "{x}.tolist()", "{x}.any()",
    "{x}.unsqueeze(0)", "{x}.flatten()", "{x}.view(-1)", "{x}.t()", "{x}[0]", "{x}[None]",
    "{x}.size(0)", "{x}.shape[0]", "{x}.dim()", "{x}.numel()", "float({x})", "int({x})", "abs({x})",
    "torch.exp({x})", "torch.sqrt({x})", "torch.where({x} > 0, {x}, {y})", "torch.cat([{x}, {y}])",
    "torch.stack([{x}, {y}])", "torch.zeros_like({x})", "torch.maximum({x}, {y})", "{x} @ {y}",
    "torch.matmul({x}, {y})", "F.softmax({x}, dim=-1)", "F.relu({x})", "F.layer_norm({x}, (4,))",
    "F.mse_loss({x}, {y})", "F.linear({x}, a)", "torch.max({x}, {y})", "{x}.max(0)[0]",
    "torch.max({x}, 0).values", "{x}.new_zeros(2, 2)", "{x}.type_as({y})", "{x}.to({y}.dtype)",
    "{x}.masked_fill({x} > 0, 0)", "torch.isfinite({x})", "({x} == {y}).all()", "{x}.norm()",
    "{x}.std()", "{x}.cumsum(0)", "{x}.sort()[1]", "{x}.topk(1)[0]", "{x} and {y}", "max({x}, {y})",
    "torch.div({x}, {y}, rounding_mode='floor')",
)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> list[str]:
    """Assignments `v0 = ...`, each over what was assigned before."""
    known = list(NAMES)
    lines = []
    for number in range(draw(st.integers(1, 8))):
        form = draw(st.sampled_from(FORMS))
        x, y = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        lines.append(f"v{number} = {form.format(x=x, y=y)}")
        known.append(f"v{number}")
    return lines


def believed(text: str) -> dict[str, object]:
    """What link knows of every name at the end of the program."""
    file = File("main.py", text + "".join(f"use({name})\n" for name in assigned(text)))
    answers = Program({"main.py": file}, frozenset({"use"}), ["main.py"]).answers("main.py")
    return {
        node.args[0].id: only(answers.value(node.args[0]))
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "use"
        if isinstance(node.args[0], ast.Name)
    }


def assigned(text: str) -> list[str]:
    return [line.split(" = ")[0].strip() for line in text.splitlines() if line.strip()[:1] == "v"]


def check(name: str, belief: object, fact: object, text: str) -> None:
    """Whatever is believed must be so; that nothing is believed is always right."""
    note = f"{name} in\n{text}\nbelieved {belief}, is {fact!r}"
    if isinstance(belief, Tensor):
        assert isinstance(fact, torch.Tensor), note
        if belief.dtype == "half":
            assert fact.dtype in (torch.float16, torch.bfloat16), note
        elif belief.dtype is not None:
            assert str(fact.dtype) == f"torch.{belief.dtype}", note
        if belief.rank is not None:
            assert (fact.dim() > 0) == (belief.rank == 1), note
        if belief.grad is not None:
            assert fact.requires_grad == belief.grad, note
        assert belief.device.kind in (None, fact.device.type), note
    elif isinstance(belief, Host):
        assert not isinstance(fact, torch.Tensor), note
        kinds = {"int": int, "float": float, "bool": bool, "str": str}
        if belief.kind in kinds:
            assert isinstance(fact, kinds[belief.kind]), note
    elif isinstance(belief, Sequence):
        assert isinstance(fact, tuple | list), note


def hold_against_torch(lines: list[str], region: str | None) -> None:
    kept, scope = [], {}
    context = torch.autocast("cpu", dtype=torch.bfloat16) if region else contextlib.nullcontext()
    exec(START, scope)
    with context:
        for line in lines:
            try:
                exec(line, scope)
            except (RuntimeError, TypeError, IndexError, AttributeError, ValueError, NameError,
                    NotImplementedError, ArithmeticError, KeyError):  # fmt: skip
                continue  # nothing is claimed of a line that raises
            kept.append(line)
    if region:
        text = START + region + "\n" + "".join(f"    {line}\n" for line in kept or ["pass"])
    else:
        text = START + "".join(f"{line}\n" for line in kept)
    for name, belief in believed(text).items():
        check(name, belief, scope[name], text)


SETTINGS = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(programs())
@example(["v0 = torch.div(b, 3, rounding_mode='floor')"])  # integers stay integers
@example(["v0 = d + b.max()"])  # a 0-dim integer lifts bools that have dimensions
def test_outside_autocast(lines: list[str]) -> None:
    hold_against_torch(lines, None)


@SETTINGS
@given(programs())
def test_in_a_cpu_region(lines: list[str]) -> None:
    hold_against_torch(lines, 'with torch.autocast("cpu", dtype=torch.bfloat16):')


ARRAYS = (
    "np.zeros(3)", "np.zeros((2, 3), np.float32)", "np.ones(3, dtype='float32') * 2.5",
    "np.ones(3) / 3", "np.array([1, 2.5])", "np.array([[1, 2], [3, 4]])", "np.array([x, y])",
    "np.asarray([0.5], np.float32)", "np.asarray(np.zeros(3, np.float32))", "np.eye(3)",
    "np.linspace(0, 1, 3)", "np.linspace(0, 1, 3, dtype=np.float32)", "np.random.rand(3)",
    "np.random.rand()", "np.random.randn(2, 2).astype(np.float32)", "np.random.normal(0, 1)",
    "np.random.normal(0, 1, 3)", "np.random.uniform(size=3)", "np.hanning(4).reshape(2, 2)",
    "np.zeros(3, np.float32) * np.zeros(3)", "np.zeros(3, np.float32) * np.int64(2)",
    "np.zeros(3)[0]", "np.zeros(3, dtype=float)", "np.zeros(3, dtype=int)", "np.zeros(3) > 1",
    "np.identity(2).astype('float32').copy()", "np.array(0.5)", "np.zeros(3).sum()",
)  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS)
def test_arrays(array: str) -> None:
    """A tensor made of an array has its dtype."""
    np = pytest.importorskip("numpy")
    text = f"import numpy as np\nimport torch\nx, y = 1, 2.5\nv = torch.tensor({array})\n"
    scope = {"np": np, "torch": torch}
    exec(text, scope)
    check("v", believed(text)["v"], scope["v"], text)


def test_what_is_known_of_arrays() -> None:
    """Silence would pass the test above: these must be known."""
    text = "import numpy as np\nimport torch\nv = torch.from_numpy(np.ones(3) * 2)\n"
    text += "v1 = torch.tensor(np.random.rand(3).astype(np.float32))\n"
    known = {name: belief.dtype for name, belief in believed(text).items()}  # type: ignore[attr-defined]
    assert known == {"v": "float64", "v1": "float32"}
