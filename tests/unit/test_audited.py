"""`assume-autocast = true`: a region around every module and loss, and half activations in it."""

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from amplint.facts.program import linked
from amplint.findings.finding import Finding, Safety
from amplint.inference import Inference
from amplint.inference.whole_program.float_inputs import FloatInputs
from amplint.ir import ops
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.run import engine
from amplint.run.linking import LiveLinker
from amplint.run.public_functions import summary, table
from amplint.util.progress import SILENT
from amplint.values.atoms import Tensor
from tests.helpers import presumes, request, write

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn, Tensor


"""


def solved(text: str, assumes: bool | None = True) -> Inference:
    return linked(Files({"a.py": File("a.py", HEAD + text)}, presumes=presumes(assumes)))


def dtypes(text: str, function: str = "Net.forward", assumes: bool | None = True) -> dict[str, str]:
    """By parameter of a function: its dtype, where that is known."""
    state = solved(text, assumes).states[f"a.py::{function}"]
    return {
        node.data: atom.dtype
        for node, value in zip(state.graph.nodes, state.values, strict=True)
        for atom in value
        if node.op == ops.PARAM and isinstance(atom, Tensor) and atom.dtype is not None
    }


def module(body: str, parameters: str = "x", name: str = "forward") -> str:
    lines = textwrap.indent(textwrap.dedent(body).strip(), "        ")
    return f"class Net(nn.Module):\n    def {name}(self, {parameters}):\n{lines}\n"


def findings(text: str, tmp_path: Path, assumes: bool | str = True) -> list[Finding]:
    files = {"a.py": (HEAD + text).encode()}
    write(files, tmp_path)
    asked = request(files, tmp_path, select=("AMP2", "AMP3", "AMP8"))
    settings = replace(asked.settings, assume_autocast=assumes)
    return list(engine.run(replace(asked, settings=settings)).findings)


# ------------------------------------------------------------------------------ which parameters


@pytest.mark.parametrize(
    "use",
    [
        "x.softmax(-1)",
        "x.view(4, -1).softmax(-1)",
        "x[:, :4].exp()",
        "(x if self.all else x.masked_fill(mask, -1e4)).softmax(-1)",
        "x @ x.transpose(0, 1)",
        "torch.einsum('ij,jk->ik', x, x)",
        "torch.linalg.svd(x)",
        "x.abs().clamp(min=0).log()",
        "x.view(4) + MyFunction.apply(x, self.weight)",
        "x * 0.5",
        "F.relu(x)",
        "F.linear(x, self.weight)",
        "torch.sigmoid(x)",
        "self.norm(x)",
        "torch.zeros(3).type_as(x)",
        "(torch.complex(mask, mask) * 0.5).abs() + F.relu(x)",
    ],
)
def test_what_is_computed_with_is_an_activation(use: str) -> None:
    assert dtypes(module(f"return {use}", "x, mask")) == {"x": "float16"}


def test_what_an_embedding_of_the_class_is_given_is_none() -> None:
    text = module("return self.table(x), self.fc(z)", "x, z")
    text += "    def __init__(self):\n        self.table, self.fc = nn.Embedding(3, 4), None\n"
    assert dtypes(text) == {"z": "float16"}


def test_what_stands_in_for_another_one_is_an_activation_too() -> None:
    text = module("if z is None:\n    z = x\nreturn x @ z", "x, z=None")
    assert dtypes(text) == {"x": "float16", "z": "float16"}


@pytest.mark.parametrize(
    "use",
    [
        "self.table[x] * 0.5",
        "scores.masked_fill(x, 0.0)",
        "scores.masked_fill(x == 0, 0.0)",
        "scores.gather(1, x)",
        "torch.where(x, scores, 0.0)",
        "F.cross_entropy(scores, x)",
        "F.embedding(x, self.weight)",
        "F.one_hot(x, 4) * 0.5",
        "scores * (~x)",
        "x.long() * 0.5",
        "scores.view(x, -1) * x",
        "[F.relu(each) for each in x]",
        "x['a'] * x",
        "x.images * x",
        "x % 2 * 0.5",
        "x * x.conj()",
        "x.exp() + x.imag",
        "torch.view_as_real(x) * x",
        "x @ scores.conj()",
        "torch.einsum('ij,jk->ik', x, torch.complex(scores, scores))",
    ],
)
def test_what_is_used_as_something_else_is_none(use: str) -> None:
    assert "x" not in dtypes(module(f"return {use}", "scores, x"))


@pytest.mark.parametrize(
    "name",
    [
        "mask",
        "attn_mask",
        "labels",
        "target",
        "input_ids",
        "timesteps",
    ],
)
def test_whole_numbers_by_their_name_are_none(name: str) -> None:
    assert dtypes(module(f"return {name} * x.exp()", f"x, {name}")) == {"x": "float16"}


@pytest.mark.parametrize("name", ["img", "coords", "anchors"])
def test_data_by_its_name_is_float32(name: str) -> None:
    data = {name: "float32"}
    assert dtypes(module(f"return {name} * x.exp()", f"x, {name}")) == {"x": "float16", **data}


@pytest.mark.parametrize(
    ("parameter", "dtype"),
    [
        ("x: Tensor", "float16"),
        ("x: torch.FloatTensor", "float16"),
        ("x: Tensor | None = None", "float16"),
        ("x=None", "float16"),
        ("x: torch.LongTensor", "int64"),
        ("x: float", None),
        ("x=0.5", None),
    ],
)
def test_what_its_annotation_and_its_default_allow(parameter: str, dtype: str | None) -> None:
    assert dtypes(module("return x * 0.5", parameter)).get("x") == dtype


@pytest.mark.parametrize("name", ["forward", "message", "loss", "compute_loss", "encode", "update"])
def test_the_functions_that_are_given_activations(name: str) -> None:
    assert dtypes(module("return x * 0.5", name=name), f"Net.{name}") == {"x": "float16"}


def test_a_loss_that_is_a_function_is_given_activations() -> None:
    text = "def focal_loss(pred, target):\n    return target * torch.sigmoid(pred)\n"
    assert dtypes(text, "focal_loss") == {"pred": "float16"}


def test_a_step_is_given_batches() -> None:
    assert dtypes(module("return x * 0.5", name="training_step"), "Net.training_step") == {}


def test_what_nobody_calls_in_a_region_is_given_nothing() -> None:
    text = "def _scaled(x):\n    return x * 0.5\n\n\ndef trained(x):\n    (x * 0.5).backward()\n"
    assert not {**dtypes(text, "_scaled"), **dtypes(text, "trained")}


def test_a_cast_that_is_seen_is_known_as_ever() -> None:
    text = module("x = x.float()\nreturn self.helper(x)")
    text += "    def helper(self, y):\n        return y\n"
    assert dtypes(text, "Net.helper") == {"y": "float32"}


def test_a_helper_is_given_what_the_forward_was_given() -> None:
    text = module("return self.helper(F.relu(x))")
    text += "    def helper(self, y):\n        return y\n"
    assert dtypes(text, "Net.helper") == {"y": "float16"}


INNER = """
class Inner(nn.Module):
    def forward(self, z):
        return z.softmax(-1)


class Net(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.inner = Inner()
        self.norm = norm(4)

    def forward(self, x):
        return self.inner({})
"""


@pytest.mark.parametrize(
    ("given", "dtype"),
    [("F.relu(x)", "float16"), ("x.float()", "float32"), ("self.norm(x)", "float16")],
)
def test_a_forward_that_another_one_calls_is_given_half_by_users(given: str, dtype: str) -> None:
    assert dtypes(INNER.format(given), "Inner.forward").get("z") == dtype


def test_a_call_outside_of_a_region_ends_it_not() -> None:
    text = module("return x.exp()") + "\nnet = Net()\nnet(torch.ones(4))\n"
    around = solved(text).regions.inherited["a.py::Net.forward"]
    assert around is not None and around.presumed
    assert dtypes(text) == {"x": "float16"}  # this is one call of many


@pytest.mark.parametrize("assumes", [None, False])
def test_by_default_nothing_given_is_half(assumes: bool | None) -> None:
    text = module("return x.softmax(-1)") + "\nscaler = torch.amp.GradScaler('cuda')\n"
    assert dtypes(text, assumes=assumes) == {}


# ------------------------------------------------------------------------------ what is found

MISTAKES = {
    "scores.masked_fill(mask == 0, -1e9).softmax(-1)": "AMP801",
    "torch.where(mask > 0, F.relu(scores), torch.zeros(4, device=scores.device))": "AMP203",
    "scores / (scores.mean(-1, keepdim=True) + 1e-8)": "AMP802",
    "torch.cat([scores, torch.zeros(4, 4, device=scores.device)], 1) * scores": "AMP201",
    "torch.log(torch.sigmoid(scores))": "AMP803",
    "torch.linalg.inv(F.relu(scores))": "AMP313",
    "torch.fft.rfft(F.relu(scores)).real": "AMP313",
    "torch.zeros(4, 4).index_put_((mask.nonzero(),), scores * 0.5)": "AMP204",
}
SIGN = "\nscaler = torch.amp.GradScaler('cuda')\n"


@pytest.mark.parametrize(("mistake", "code"), MISTAKES.items())
def test_what_is_found_names_the_parameter(mistake: str, code: str, tmp_path: Path) -> None:
    """It is a warning, and its fix is never safe."""
    text = module(f"return {mistake}", "scores, mask") + SIGN
    (found,) = findings(text, tmp_path)
    assert found.code == code
    condition = "if `scores` is half here, as activations under autocast are: "
    assert found.message.startswith(condition)
    assert condition[3:-2] in [each.message for each in found.related]
    assert found.severity == "warning"
    assert found.fix is None or found.fix.safety is not Safety.SAFE


# A sigmoid is told by its name: layers give half logits, whatever a caller hands in.
TOLD_BY_DEFAULT = {"torch.log(torch.sigmoid(scores))"}


@pytest.mark.parametrize("assumes", ["auto", False])
@pytest.mark.parametrize("mistake", sorted(MISTAKES.keys() - TOLD_BY_DEFAULT))
def test_by_default_none_of_it_is_found(mistake: str, assumes: bool | str, tmp_path: Path) -> None:
    text = module(f"return {mistake}", "scores, mask") + SIGN
    assert findings(text, tmp_path, assumes) == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_nothing_is_found_of_what_is_cast(mistake: str, tmp_path: Path) -> None:
    text = module(f"scores = scores.float()\nreturn {mistake}", "scores, mask")
    assert findings(text, tmp_path) == []


@pytest.mark.parametrize(
    "body",
    [
        "return torch.fft.rfft(scores.to(torch.float16))",
        "return torch.fft.rfft(scores.to(torch.float32))",
        "with torch.autocast('cuda', enabled=False):\n    return torch.fft.rfft(scores.float())",
        "try:\n    return torch.fft.rfft(scores)\nexcept RuntimeError:\n    return None",
    ],
)
def test_no_bfloat16_is_given_to_a_fourier_transform(body: str, tmp_path: Path) -> None:
    assert findings(module(body, "scores"), tmp_path) == []


# ------------------------------------------------------------------------------ under a mode


def under(mode: str, text: str, tmp_path: Path) -> list[str]:
    """The code and the message of each finding."""
    files = {"a.py": (HEAD + text).encode()}
    write(files, tmp_path)
    asked = request(files, tmp_path, select=("AMP2", "AMP3", "AMP8"))
    asked = replace(asked, settings=replace(asked.settings, under=mode))
    return [f"{each.code} {each.message}" for each in engine.run(asked).findings]


WRITTEN = module("out = torch.zeros_like(x)\nout[mask > 0] = self.fc(x)\nreturn out", "x, mask")


@pytest.mark.parametrize(("mode", "dtype"), [("float16", "float16"), ("bfloat16", "bfloat16")])
def test_float32_inputs_meet_what_the_region_makes_half(
    mode: str, dtype: str, tmp_path: Path
) -> None:
    text = WRITTEN.replace("self.fc(x)", "F.linear(x, self.weight)")
    (finding,) = under(f"autocast-{mode}", text, tmp_path)
    written = f"{dtype} is written into `out`, which is float32: RuntimeError"
    assert finding == f"AMP204 if `x` is float32 here: {written}"
    assert under(mode, text, tmp_path) == []  # all of it is of one dtype


def test_what_both_dtypes_show_is_said_once(tmp_path: Path) -> None:
    (finding,) = under(
        "autocast-float16", module("return (x @ x).masked_fill(x > 0, -1e9)"), tmp_path
    )
    assert finding.startswith("AMP801 if this runs under autocast, as the settings say: ")
    assert (
        under("autocast-bfloat16", module("return (x @ x).masked_fill(x > 0, -1e9)"), tmp_path)
        == []
    )


CAST = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.rnn = nn.LSTM(8, 8)
        self.scale = nn.Parameter(torch.ones(8))
        self.register_buffer("table", torch.ones(8, 8))
        self.plain = torch.ones(8, 8)

    def forward(self, x):
        return {}
"""


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ("self.fc(torch.arange(8.0))", "AMP206 if the module is cast to float16: `self.fc` is"),
        ("x @ torch.zeros(8, 8)", "AMP201 if `x` is float16 here, as the module is: "),
        ("F.scaled_dot_product_attention(x, x, x, x > 0) @ torch.zeros(8, 8)", "AMP201 if `x` is"),
        ("F.linear(torch.zeros(8, 8), self.scale)", "AMP201 if the module is float16 here: "),
        ("torch.where(x > 0, 1.0, -1.0) * self.scale", "AMP201 if the module is float16 here: "),
        ("self.rnn(x, (torch.zeros(1, 8), torch.zeros(1, 8)))", "AMP206 if `x` is float16 here"),
        ("x.float().softmax(-1) @ x", "AMP213 if `x` is float16 here, as the module is: `x` is"),
        ("x @ self.table", ""),
        ("self.fc(x) * self.scale", ""),
    ],
)
def test_a_module_that_is_cast_as_a_whole(body: str, finding: str, tmp_path: Path) -> None:
    findings = under("float16", CAST.format(body), tmp_path)
    assert len(findings) == bool(finding)
    assert all(each.startswith(finding) for each in findings)
    assert under("autocast-float16", CAST.format(body), tmp_path) == []


ATTENTION = """
from flash_attn import flash_attn_func

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x):
        q = self.q(x)
        return flash_attn_func({}, q, q), F.softmax(q, -1) @ q
"""


@pytest.mark.parametrize(("given", "codes"), [("self.norm(q)", ["AMP213"]), ("q", [])])
def test_a_region_casts_nothing_for_the_kernels_of_libraries(
    given: str, codes: list[str], tmp_path: Path
) -> None:
    findings = under("autocast-float16", ATTENTION.format(given), tmp_path)
    assert [each[:6] for each in findings] == codes


def test_a_public_function_takes_what_it_hands_on(tmp_path: Path) -> None:
    text = "def score(x, mask):\n    return _masked(x, mask)\n\n\n"
    text += "def _masked(x, mask):\n    return x.masked_fill(mask, -1e9).softmax(-1)\n"
    (finding,) = under("autocast-float16", text, tmp_path)
    assert finding.startswith("AMP801 if `x` is half here, as activations under autocast are: ")


def test_a_comment_is_used_in_one_of_two_analyses(tmp_path: Path) -> None:
    text = WRITTEN.replace(
        "self.fc(x)", "F.linear(x, self.weight)  # amplint: ignore[AMP204] meant"
    )
    assert under("autocast-float16", text, tmp_path) == []


def test_the_report_counts_the_functions_that_users_call(tmp_path: Path) -> None:
    text = "def score(x, mask):\n    return _masked(x, mask)\n\n\n"
    text += "def _masked(x, mask):\n    return x.masked_fill(mask, -1e9).softmax(-1)\n\n\n"
    text += "def scaled(x):\n    return x / x.norm()\n\n\ndef safe(x):\n    return x * 0.5\n"
    files = {"a.py": (HEAD + text).encode()}
    write(files, tmp_path)
    asked = request(files, tmp_path, select=("AMP2", "AMP3", "AMP8"))
    asked = replace(asked, settings=replace(asked.settings, under="autocast-float16"))
    outcome = engine.run(asked)
    assert {name.partition("::")[2] for name in outcome.offered} == {"score", "scaled", "safe"}
    (line,) = summary(outcome.findings, outcome.offered)
    assert line == "3 public functions assumed to be called so: 1 would fail"
    assert list(table(outcome.findings, outcome.offered)) == ["a.py::score: fails (AMP801)"]
    plain = engine.run(request(files, tmp_path))
    assert not list(summary(plain.findings, plain.offered))


ROTARY = """
class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.freqs = nn.Parameter(torch.ones(8))

    def forward(self, t):
        t = t()
        return torch.einsum("..., f -> ... f", t.type(self.freqs.dtype), self.freqs)

    def turned(self, n, device):
        kept = self.forward(lambda: self.kept)
        return self.forward(lambda: torch.arange(n, device=device)), kept
"""


def test_positions_that_one_of_several_lambdas_counts(tmp_path: Path) -> None:
    (finding,) = under("autocast-float16", ROTARY, tmp_path)
    assert finding.startswith("AMP805 ")
    text = ROTARY.replace("torch.arange(n, device=device)", "n")
    assert under("autocast-float16", text, tmp_path) == []


def test_a_mask_of_which_nothing_is_known_decides_no_dtype(tmp_path: Path) -> None:
    text = module("return torch.where(mask, x @ x, -1e9)", "x, mask")
    (finding,) = under("autocast-float16", text, tmp_path)
    assert finding.startswith("AMP801 ")


def test_an_einsum_that_names_its_letters_has_dimensions(tmp_path: Path) -> None:
    text = module("out = x.clone()\nout[to] = torch.einsum('{}', w, x[to])\nreturn out", "x, w, to")
    (finding,) = under("autocast-float16", text.format("ij,bj->bi"), tmp_path)
    assert finding.startswith("AMP204 if `x` is float32 here: ")
    assert under("autocast-float16", text.format("ij,bj->"), tmp_path) == []  # may be a number


def test_functions_that_call_each_other_take_the_same_in_any_order() -> None:
    text = (
        "def a(x, n):\n    return b(x, n)\n\n\ndef b(y, n):\n    return a(y, n) if n else y.exp()\n"
    )
    for order in (("a", "b"), ("b", "a")):
        files = Files({"a.py": File("a.py", HEAD + text)})
        inputs = FloatInputs(files)
        names = [inputs.of(files["a.py"].facts.functions[f"a.py::{name}"]) for name in order]
        assert sorted(map(sorted, names)) == [["x"], ["y"]]


def test_an_edit_that_changes_what_callers_take_links_anew() -> None:
    """The outer one reads no value of what was edited."""
    linker = LiveLinker()
    helper = "def helper(x):\n    {}\n    return 0\n"
    middle = "from h import helper\n\n\ndef middle(x):\n    helper(x)\n    return 0\n"
    use = "from m import middle\n\n\ndef public(x):\n    middle(x)\n    return x\n"
    rest = {"m.py": File("m.py", middle), "use.py": File("use.py", use)}
    edits = {"x.exp()": None, "x.log()": ["h.py"], "[each for each in x]": None}
    for body, changed in edits.items():
        indexed = {"h.py": File("h.py", helper.format(body)), **rest}
        linker.link(Files(indexed, presumes=presumes(True)), SILENT)
        assert linker.changed == changed
