"""The models of frameworks say what their frameworks do with programs that really run.

`python -m benchmarks.frameworks_run --update` runs the programs in `running/` and writes what was
seen, against which the models are held here. Those whose framework is installed run here, too.
"""

from __future__ import annotations

import re
import sys

import msgspec
import pytest

from amplint.frameworks.model_reading import model_of as parsed
from amplint.util.toml import loads
from benchmarks import frameworks_run
from benchmarks.frameworks import releases_of
from benchmarks.frameworks_run import ROOT, Run, complaints, model_of, stored

PROGRAMS = frameworks_run.programs()
RELEASE = re.compile(r"[\w-]+==[\d.]+")


def test_each_program_was_run() -> None:
    assert sorted(stored()) == PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_run_refutes_a_model(name: str) -> None:
    assert complaints(model_of(name), stored()[name]) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_is_of_the_release_that_the_model_was_read_from(name: str) -> None:
    package, _, version = releases_of(model_of(name))[0].partition("==")
    assert stored()[name].versions[package] == version


def test_what_is_installed_for_it_are_the_releases_of_the_models() -> None:
    named = RELEASE.findall(frameworks_run.__doc__ or "")
    extra = loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    releases = (release for name in PROGRAMS for release in releases_of(model_of(name)))
    known = {release.replace("_", "-") for release in releases}
    assert {*extra["frameworks"]} <= {*named} <= known
    assert {release.partition("==")[0] for release in named} == {
        name.replace("_", "-") for run in stored().values() for name in {*run.versions} - {"torch"}
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_installed_runs_as_it_was_seen(name: str) -> None:
    if not frameworks_run.is_installed(name):
        pytest.skip("not installed")
    before = stored()[name]
    known = frameworks_run.versions(name)
    if {**known, "torch": ""} != {**before.versions, "torch": ""}:
        pytest.skip("another release is installed")
    found = frameworks_run.run(name)
    assert complaints(model_of(name), found) == []
    assert msgspec.structs.replace(found, versions={}) == msgspec.structs.replace(
        before, versions={}
    )


# ------------------------------------------------------------------------- the benchmark itself

FRAMEWORK = """
import torch

class Learner:
    device = torch.device("cpu")

    def loss(self, batch, step=0): ...
    def check(self, batch): ...
    def begin(self): ...
    def log(self, value): return print(value)
    def region(self): return torch.autocast("cpu", torch.bfloat16)
    def fitted(self, module, optimizer):
        module.forward = torch.autocast("cpu", torch.bfloat16)(module.forward)
        return module, optimizer
    def total(self, values): return values[0]

class Precise:
    def __init__(self, amp): self.amp = amp

def build(module):
    return torch.optim.SGD(module.parameters(), lr=0.1)

def train(learner, batches, tests, amp):
    learner.begin()
    for step, batch in enumerate(batches):
        with torch.autocast("cpu", torch.bfloat16, enabled=amp.amp == "bf16"):
            loss = learner.loss(batch, step)
        loss.backward()
    with torch.no_grad():
        for batch in tests:
            learner.check(batch)
"""
PROGRAM = """
import torch
from acme import Learner, Precise, build, train

PRECISION = ("acme.Precise", "amp", "bf16")
COUNTS = {"micro-batch": [3], "evaluation-batch": [2], "once": [1]}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)

class Mine(Learner):
    def __init__(self):
        self.net, self.optimizer = self.fitted(*self.parts())

    def parts(self):
        net = Net()
        return net, build(net)

    def loss(self, batch, step=0):
        loss = self.net(batch["x"]).mean()
        self.log(loss)
        return loss

    def check(self, batch):
        with self.region():
            self.total([self.net(batch["x"]).mean()])

def main():
    train(Mine(), [{"x": torch.randn(2, 4)}] * 3, [{"x": torch.randn(2, 4)}] * 2, Precise("bf16"))
"""
MODEL = """
name = "acme"

[[class]]
names = ["acme.Learner"]
attributes = { device = "device" }

[[class.method]]
names = ["loss"]
called = "micro-batch"
region = true
parameters = { batch = "batch", step = "number" }
result = "loss"

[[class.method]]
names = ["check"]
called = "evaluation-batch"
gradients = false
parameters = { batch = "batch" }

[[class.method]]
names = ["begin"]
called = "once"

[[class.method]]
names = ["log"]
gives = "nothing"
reads = true

[[class.method]]
names = ["region"]
gives = "region"

[[class.method]]
names = ["fitted"]
gives = "given"
wraps = true

[[class.method]]
names = ["total"]
gives = "tensor"

[[maker]]
names = ["acme.build"]
builds = "optimizer"

[[precision]]
calls = ["acme.Precise"]
argument = "amp"
values = { bf16 = "bfloat16" }
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What was seen of the program."""
    pytest.importorskip("torch")
    from benchmarks import frameworks_recorder  # noqa: PLC0415, it needs torch

    folder = tmp_path_factory.mktemp("acme")
    (folder / "acme.py").write_text(FRAMEWORK)
    (folder / "program.py").write_text(PROGRAM)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        run = frameworks_recorder.run(folder / "program.py", parsed(MODEL))
    del sys.modules["acme"]  # which the patch would bring back
    return msgspec.json.decode(msgspec.json.encode(run), type=Run)


def told(seen: Run, old: str = "", new: str = "") -> list[str]:
    """The complaints about the model with a text replaced."""
    assert old in MODEL
    return complaints(parsed(MODEL.replace(old, new, 1)), seen)


def test_a_model_that_is_right_is_not_refuted(seen: Run) -> None:
    assert told(seen) == []
    assert {each.name: each.calls for each in seen.seen} == {
        "Mine.begin": 1,
        "Mine.check": 2,
        "Mine.fitted": 1,
        "Mine.log": 3,
        "Mine.loss": 3,
        "Mine.region": 2,
        "Mine.total": 2,
        "Net.forward": 5,
        "outputs of modules": 5,
    }


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"micro-batch"', '"step"', "Mine.loss: 3 calls, of `step` there are nothing"),
        ('"evaluation-batch"', '"micro-batch"', "Mine.check: 2 calls, of `micro-batch` there ar"),
        ("region = true", "", "Mine.loss: it ran in the regions bfloat16, not none"),
        ("gradients = false", "region = true", "Mine.check: it ran in the regions none, not bf"),
        ("gradients = false", "", "Mine.check: gradients were False, not True"),
        ('"once"', '"once"\ngradients = false', "Mine.begin: gradients were True, not False"),
        ('batch = "batch", step', 'batch = "tensor", step', "`batch` was tensors float32, no ten"),
        ('step = "number"', 'step = "loss"', "Mine.loss: `step` was number, no loss"),
        ('device = "device"', 'device = "number"', "Mine: `self.device` was device, no number"),
        ('names = ["check"]', 'names = ["check"]\nresult = "loss"', "it gave none, no loss"),
        ('gives = "tensor"', 'gives = "module"', "Mine.total: it gave tensor bfloat16, no"),
        ('gives = "tensor"', 'gives = "nothing"', "and should give nothing"),
        ('gives = "tensor"', 'gives = "region"', "Mine.total: it gave tensor bfloat16, no"),
        ('gives = "region"', 'gives = "tensor"', "Mine.region: it gave context, no tensor"),
        ('gives = "given"', 'gives = "batch"', "Mine.fitted: it gave module, optimizer, no batch"),
        ('gives = "tensor"', "reads = true", "Mine.total: it read nothing"),
        ('builds = "optimizer"', 'builds = "loader"', "acme.build: it made optimizer, no loader"),
        ('bf16 = "bfloat16"', 'bf16 = "float16"', "Net.forward: it ran in the regions bfloat16"),
        ('"bfloat16" }', '"bfloat16" }\nkeeps-outputs = false', "outputs of modules are"),
        ('"bfloat16" }', '"bfloat16" }\nscaled = ["bf16"]', "losses were scaled 0 times"),
    ],
)
def test_each_kind_of_error_is_told(seen: Run, old: str, new: str, complaint: str) -> None:
    found = told(seen, old, new)
    assert any(complaint in each for each in found), found


def test_a_method_that_the_program_does_not_show_is_told(seen: Run) -> None:
    found = told(seen, 'names = ["begin"]', 'names = ["begin", "end"]')
    assert found == ["end: the program does not show it, and does not say why"]
    said = msgspec.structs.replace(seen, left_out={"end": "it has none", "begin": "it has none"})
    assert told(said, 'names = ["begin"]', 'names = ["begin", "end"]') == [
        "begin: the program shows it, and says that it does not"
    ]


def test_a_number_of_two_frequencies_is_told(seen: Run) -> None:
    counts = {**seen.counts, "step": (3,)}
    assert told(msgspec.structs.replace(seen, counts=counts)) == ["the program has 3 of two kinds"]


def test_another_release_is_told(seen: Run) -> None:
    of_another = msgspec.structs.replace(seen, versions={"acme": "1.1"})
    model = parsed(MODEL.replace('"acme"', '"acme"\nversion = "1.0"', 1))
    assert complaints(model, of_another) == ["the model is of acme 1.0, and the run of 1.1"]
