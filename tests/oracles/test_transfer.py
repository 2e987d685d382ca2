"""Inference is held against torch: what is known of a program is what running it shows."""

from __future__ import annotations

import ast
import contextlib

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from amplint.facts.program import Program
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.values.atoms import PERHAPS_CPU, Host, Sequence, Tensor
from amplint.values.dtypes import CHOICES
from amplint.values.lattice import only

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
    "{x}[:, 0]", "{x}[..., None]", "{x}[{y} > 0]", "{x}[None, :, {y}]", "{x}.transpose(0, -1)",
    "torch.div({x}, {y}, rounding_mode='floor')", "{x}.div(2, rounding_mode='trunc')",
    "{x}.div({y}, rounding_mode=None)", "{x}.reshape(2, -1)", "{x}.mean((0, 1))", "{x}.std()",
    "{x}.cumsum(0)", "{x}.sort()[1]", "{x}.topk(1)[0]", "{x} and {y}", "max({x}, {y})",
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
    facts = Program(Files({"main.py": file})).about("main.py")
    return {
        node.args[0].id: only(facts.value(node.args[0]))
        for node in ast.walk(file.parsed.module)
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
        elif belief.dtype in CHOICES:
            assert str(fact.dtype) in (f"torch.{CHOICES[belief.dtype]}", "torch.float32"), note
        elif belief.dtype is not None:
            assert str(fact.dtype) == f"torch.{belief.dtype}", note
        if belief.rank is not None:
            assert (fact.dim() > 0) == (belief.rank == 1), note
        if belief.dims is not None:
            assert fact.dim() == belief.dims, note
        if belief.grad is not None:
            assert fact.requires_grad == belief.grad, note
        # The CPU on one path, and elsewhere or unknown on another, claims nothing.
        assert belief.device.kind in (None, PERHAPS_CPU.kind, fact.device.type), note
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
            except (
                RuntimeError, TypeError, LookupError, AttributeError, ValueError, NameError,
                ArithmeticError,
            ):  # fmt: skip
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
@example(["v0 = d + b.max()"])  # a 0-dim integer lifts bools that have dimensions
def test_outside_autocast(lines: list[str]) -> None:
    hold_against_torch(lines, None)


@SETTINGS
@given(programs())
def test_in_a_cpu_region(lines: list[str]) -> None:
    hold_against_torch(lines, 'with torch.autocast("cpu", dtype=torch.bfloat16):')


COUNTED = (
    # what is built
    "torch.zeros(2, 3)", "torch.zeros((2, 3))", "torch.zeros(())", "torch.zeros(size=[2])",
    "torch.rand(n)", "torch.randint(5, (2, 3))", "torch.randint(0, 5, (2, 3))", "torch.eye(3)",
    "torch.full((2, 2, 2), 0.5)", "torch.arange(n)", "torch.randperm(n)", "torch.tensor(0.5)",
    "torch.tensor([[1, 2], [3, 4]])", "torch.tensor([n, n])", "torch.zeros_like(m)",
    "m.new_zeros(2, 3, 4)", "m.new_full((2,), 0)", "m.new_ones((1, 2))", "torch.Tensor(2, 3)",
    "torch.tril_indices(3, 3)", "torch.LongTensor([1, 2])", "torch.nn.Parameter(torch.ones(2, 2))",
    # other sizes
    "m.view(2, -1)", "m.view((2, 2, -1))", "m.view(-1)", "m.view(torch.int32)",
    "torch.reshape(m, (2, 2, 4))", "t.permute(0, 2, 1)", "t.permute((0, 2, 1))", "m.T", "t.mT",
    "m.expand(2, 4, 4)", "v.repeat(2, 2)", "v.repeat(2, 1, 1)", "m.flatten()", "t.flatten(1)",
    "s.flatten()", "m.unsqueeze(-1)", "torch.broadcast_to(v, (4, 4))", "t.select(0, 1)",
    # joined and split
    "t.split(1)[0]", "t.chunk(2, dim=1)[0]", "t.unbind(0)[0]",
    # reductions
    "m.sum(0)", "m.sum(dim=0, keepdim=True)", "m.mean(1, True)", "t.mean((1, 2))",
    "torch.mean(t, [0, 1])", "m.sum(dim=None)", "m.argmax(-1)", "m.argmax(keepdim=True)",
    "v.sum(0)", "m.max(1)[0]", "torch.max(m, 1).indices", "torch.max(t, m)", "m.max()",
    "v.max(0).indices", "m.topk(1)[1]", "m.sort(-1).values", "torch.topk(v, 2, dim=-1)[1]",
    "m.argsort()", "m.cumsum(0)", "m.softmax(-1)", "m.std(0)", "m.std(False)",
    "m.std(0, False, True)", "m.norm(dim=1)", "m.norm(2, 1)", "torch.linalg.norm(m, dim=1)",
    "torch.var_mean(m, 1)[0]", "torch.aminmax(m, dim=0)[0]", "m.all(1)", "s.sum(0)",
    # products
    "F.normalize(m)", "torch.fft.irfft(torch.fft.rfft(m, dim=-1) * torch.conj(torch.fft.rfft(m)))",
    # lookups, places
    "F.one_hot(i)", "F.one_hot(i, 4)", "F.embedding(i, m)", "m.gather(1, m.long())", "m.nonzero()",
    "m.nonzero(as_tuple=True)[0]", "torch.where(m > 0)[0]", "torch.where(m > 0, m, 0.5)",
    "m.masked_select(m > 0)", "m.unique()", "F.mse_loss(m, m)", "F.cross_entropy(m, i.repeat(2))",
    # broadcasting
    "t + m", "1 - v", "t * s", "m > 0", "s > 0", "-m", "torch.maximum(t, v)", "m.clamp(min=0)",
    "torch.clamp(m, max=t)", "torch.div(m, 2, rounding_mode='floor')", "m ** 2", "v == m",
    # subscripts
    "m[0]", "m[:, 0]", "m[..., 0]", "v[..., 0]", "m[None]", "t[:, None, 0]", "t[:, :2]", "v[0]",
    "m[0][0]", "m[m > 0]", "t[m[:2] > 0]", "m[i]", "m[:, i]", "m[i, i]", "m[i[:, None], i]",
    "m[[0, 1]]", "m[[0, 1], 0]", "m[i[0]]", "t[t > 0]", "m[:, v > 0]", "t[m.sum() > 0]",
    "t[1, ..., 0]", "[row for row in t][0]", "[row for row in v][0]", "(lambda pair: m[pair])(0)",
    # layers
    "torch.nn.Linear(4, 2)(t)", "torch.nn.Conv2d(2, 1, 1)(t)", "torch.nn.ReLU()(v)",
    "torch.nn.GRU(4, 2)(t)[0]", "torch.nn.MSELoss()(m, m)", "torch.nn.Softmax(-1)(m)",
)  # fmt: skip
COUNTED_OF = """
import torch
import torch.nn.functional as F
n = 3
s = torch.tensor(0.5)
v = torch.tensor([0.5, 1.5, 2.5, 3.5])
m = torch.ones(4, 4)
t = torch.ones(2, 4, 4)
i = torch.tensor([0, 1])
"""


@pytest.mark.parametrize("expression", COUNTED)
def test_how_many_dimensions(expression: str) -> None:
    """It is known, and as torch has it."""
    scope: dict[str, object] = {}
    text = COUNTED_OF + f"v0 = {expression}\n"
    exec(text, scope)
    fact, belief = scope["v0"], believed(text)["v0"]
    assert isinstance(fact, torch.Tensor)
    assert isinstance(belief, Tensor), belief
    assert (belief.rank, belief.dims) == (min(fact.dim(), 1), fact.dim() or None)


def test_what_is_something_else_elsewhere_counts_on_the_path_that_is_seen() -> None:
    text = "from elsewhere import how\nv0 = torch.min(m if how else how(m), dim=1)[1]\n"
    belief = believed(COUNTED_OF + text)["v0"]
    assert isinstance(belief, Tensor)
    assert belief.dims == 1


@pytest.mark.parametrize(
    "expression",
    (
        "m.view(*sizes)", "m.sum(**how)", "m.squeeze()", "torch.zeros(sizes)", "m.view(sizes)",
        "m.mean(how)", "m.mean(0, keepdim=how)", "m[how]", "m[:, how]", "m * how", "m[*sizes]",
        "torch.einsum(how, m, m)", "torch.einsum('...i->...', m)", "torch.nn.Flatten()(m)",
        "torch.tensor(how)", "torch.where(how, m, m)", "F.mse_loss(m, m, reduction=how)",
        "torch.stack(how)", "torch.sum(m, out=how)", "m.unique(return_inverse=True)[1]",
        "m.nonzero(as_tuple=how)[0]", "m.repeat_interleave(2, how)", "m.flatten(how)",
    ),
)  # fmt: skip
def test_how_many_dimensions_is_not_guessed(expression: str) -> None:
    belief = believed(f"{COUNTED_OF}from elsewhere import how, sizes\nv0 = {expression}\n")["v0"]
    assert not isinstance(belief, Tensor) or (belief.dims is None and belief.rank != 0)


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
