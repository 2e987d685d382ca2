"""Precisions in configuration files: what they change, when they are read, and that a change of
them is another run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from amplint.frameworks.configuration import MOST_CHARACTERS, stated_precisions
from amplint.frameworks.models import models_with
from amplint.project import configurations, discover
from amplint.project.config import Settings
from amplint.rule import registry
from amplint.run import session
from amplint.run.engine import run
from amplint.run.linking import LiveLinker
from amplint.run.request import Request
from tests.command import Amplint
from tests.helpers import request, write

SIGN = "\n\ndef another(x):\n    with torch.autocast('cuda'):\n        return x @ x\n\nfp16 = 1\n"
NETWORK = """\
import torch
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x):
        x = self.layer(x)
        return x / (x.abs() + 1e-8)  # AMP802


"""
ENGINE = """\
import deepspeed
from network import Network


def main(args, loader):
    engine, *_ = deepspeed.initialize(args, Network())
    for x in loader:
        engine.backward(engine(x).mean())
        engine.step()
"""
DETECTOR = """\
import torch.nn.functional as F
from mmengine.model import BaseModel


class Detector(BaseModel):
    def forward(self, inputs, data_samples=None, mode="tensor"):
        inside = self.backbone(inputs).sigmoid()
        return F.binary_cross_entropy(inside, data_samples)
"""
FOUND = "network.py:12:21: AMP802"
AUTOCAST = '{"torch_autocast": {"enabled": true, "dtype": "float16"}}'
CAST = '{"fp16": {"enabled": true}, "train_batch_size": 8}'


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    (root / "conf").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def trained(project: Path) -> Path:
    """A project that trains by an engine, with its configuration."""
    (project / "network.py").write_text(NETWORK + SIGN)
    (project / "train.py").write_text(ENGINE)
    return project / "conf" / "ds.json"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One element for each analysis that is no result of the cache."""
    runs: list[int] = []
    original: Callable[..., object] = session.analyse
    monkeypatch.setattr(session, "analyse", lambda *args: runs.append(1) or original(*args))
    return runs


def found(amplint: Amplint, *arguments: str) -> list[str]:
    done = amplint("check", "--format", "concise", *arguments)
    assert done.status in (0, 1), done.err
    return [" ".join(line.split()[:2]) for line in done.out.splitlines()]


# ------------------------------------------------------------------------------ JSON


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (CAST, []),
        ('{"bf16": {"enabled": true}}', []),
        (AUTOCAST, [FOUND]),
        ('{"fp16": {"enabled": false}}', [FOUND]),  # as the sign suggests
        ('{"fp16": {"enabled": "auto"}}', [FOUND]),
        ('{"fp16": true}', [FOUND]),
        ("[]", [FOUND]),
    ],
)
def test_a_cast_ends_the_presumption_of_a_region(
    trained: Path, amplint: Amplint, text: str, places: list[str]
) -> None:
    trained.write_text(text)
    assert found(amplint) == places


def test_a_region_that_a_file_asks_for_needs_no_sign(
    project: Path, trained: Path, amplint: Amplint
) -> None:
    (project / "network.py").write_text(NETWORK)
    assert found(amplint) == []
    trained.write_text(AUTOCAST)
    assert found(amplint) == [FOUND]
    assert (
        "train.py:6:18: with this configuration, `forward` is called under autocast"
        in amplint("check").out
    )
    trained.write_text('{"torch_autocast": {"enabled": false, "dtype": "float16"}}')
    assert found(amplint) == []


def test_a_change_of_the_file_is_another_run(
    trained: Path, amplint: Amplint, counted: list[int]
) -> None:
    assert found(amplint) == found(amplint) == [FOUND]
    assert len(counted) == 1
    trained.write_text(CAST)
    assert found(amplint) == found(amplint) == []
    assert len(counted) == 2
    trained.unlink()
    assert found(amplint) == [FOUND]
    assert len(counted) == 3


def test_values_are_not_taken_up_after_a_change(
    trained: Path, amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large project, the cache keeps the values, too."""
    monkeypatch.setattr(session, "LEAST_KEPT", 0)
    for text, places in ((AUTOCAST, [FOUND]), (CAST, []), (AUTOCAST, [FOUND])):
        trained.write_text(text)
        assert found(amplint) == places


def test_nor_are_those_in_memory(project: Path, trained: Path) -> None:
    """As in an editor: the values stay in memory from one edit to the next."""
    paths = [project / "network.py", project / "train.py"]
    settings = Settings(project)
    asked = Request(
        discover.select(paths, settings), settings, registry.own_rules(), linker=LiveLinker()
    )
    for text, codes in ((AUTOCAST, ["AMP802"]), (CAST, []), (AUTOCAST, ["AMP802"])):
        trained.write_text(text)
        assert [f.code for f in run(asked).findings] == codes


def test_what_fix_has_come_to_is_not_taken_up_after_a_change(
    trained: Path, amplint: Amplint
) -> None:
    loss = "nn.functional.binary_cross_entropy(torch.sigmoid(x), x.detach())"
    network = NETWORK.replace("x / (x.abs() + 1e-8)", loss)
    trained.parent.parent.joinpath("network.py").write_text(network)
    assert "with_logits" not in amplint("fix", "--unsafe").out
    trained.write_text(AUTOCAST)
    assert "with_logits" in amplint("fix", "--unsafe").out


def test_files_of_other_projects_do_not_count(
    project: Path, trained: Path, amplint: Amplint
) -> None:
    (project / "other").mkdir()
    (project / "other" / "pyproject.toml").touch()
    (project / "other" / "ds.json").write_text(CAST)
    assert found(amplint) == [FOUND]
    trained.write_text(CAST)
    assert found(amplint) == []


def test_no_file_is_looked_for_where_no_framework_reads_it(
    project: Path, trained: Path, amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained.write_text(CAST)
    (project / "train.py").write_text("import torch\n")
    monkeypatch.setattr(configurations, "FileSearch", None)
    assert found(amplint) == found(amplint) == [FOUND]


# ------------------------------------------------------------------------------ Python


def in_python(text: str, name: str = "configs/amp.py") -> list[str]:
    """The dtypes that a file of a project of mmengine asks for."""
    texts = {name: text, "model.py": "import mmengine, mmcv\n"}
    return [each.dtype for each in stated_precisions(models_with(()), texts)]


@pytest.mark.parametrize(
    ("text", "dtypes"),
    [
        ('optim_wrapper = dict(type="AmpOptimWrapper")', ["float16"]),
        ('optim_wrapper = dict(type="AmpOptimWrapper", dtype="bfloat16")', ["bfloat16"]),
        ('optim_wrapper = {"type": "AmpOptimWrapper", "dtype": "float16"}', ["float16"]),
        ("optim_wrapper = dict(type=AmpOptimWrapper)", ["float16"]),
        ("optim_wrapper = dict(type=optim.AmpOptimWrapper)", ["float16"]),
        ("fp16 = dict(loss_scale=512.0)", ["float16"]),
        ("fp16 = dict(loss_scale='dynamic')", ["float16"]),
        ("fp16 = dict(loss_scale=dict(init_scale=512))", ["float16"]),
        ("fp16 = dict(loss_scale=0)", ["float16"]),
        ("optim_wrapper = None\noptim_wrapper = dict(type='AmpOptimWrapper')", ["float16"]),
        ("optim_wrapper = dict(type='AmpOptimWrapper')\noptim_wrapper = None", []),
        ("_base_.optim_wrapper.type = 'AmpOptimWrapper'", ["float16"]),
        ("optim_wrapper.type = AmpOptimWrapper", ["float16"]),
        (
            "_base_.optim_wrapper.type = 'AmpOptimWrapper'\noptim_wrapper.dtype = 'bfloat16'",
            ["bfloat16"],
        ),
        ("optim_wrapper.type = 'AmpOptimWrapper'\noptim_wrapper = dict(type='OptimWrapper')", []),
        ("optim_wrapper.type = 'OptimWrapper'", []),
        ("_base_.model.optim_wrapper.type = 'AmpOptimWrapper'", []),
        ("optim_wrapper[0].type = 'AmpOptimWrapper'", []),
        ('optim_wrapper = dict(type="OptimWrapper")', []),
        ('optim_wrapper = dict(type="OptimWrapper", dtype="float16")', []),
        ('optim_wrapper = build(type="AmpOptimWrapper")', []),
        ('optim_wrapper = "AmpOptimWrapper"', []),
        ("fp16 = True", []),
        ("fp16 = None", []),
        ("fp16 = dict(loss_scale=None)", []),
        ("fp16 = dict(enabled=True)", []),
        ("if True:\n    fp16 = dict(loss_scale=1)", []),
        ("def f():\n    fp16 = dict(loss_scale=1)", []),
        ("x.fp16 = dict(loss_scale=1)", []),
        ("fp16 == dict(loss_scale=1)", []),
        ("# fp16 = dict(loss_scale=1)", []),
        ("fp16 = dict(loss_scale=1", []),
    ],
)
def test_a_python_file_is_read_as_text(text: str, dtypes: list[str]) -> None:
    assert in_python(f"_base_ = './base.py'\n{text}\n") == dtypes


def test_only_the_files_of_who_names_the_framework_count() -> None:
    texts = {"amp.py": "fp16 = dict(loss_scale=512.0)\n", "model.py": "import torch\n"}
    assert stated_precisions(models_with(()), texts) == ()


def test_a_large_file_is_no_configuration() -> None:
    text = "fp16 = dict(loss_scale=512.0)\n"
    assert in_python(text + "#" * (MOST_CHARACTERS - len(text))) == ["float16"]
    assert in_python(text + "#" * MOST_CHARACTERS) == []


def test_a_region_of_a_configuration_holds_for_the_classes_of_its_framework(
    project: Path, amplint: Amplint, counted: list[int]
) -> None:
    configuration = project / "conf" / "amp.py"
    (project / "model.py").write_text(DETECTOR)
    configuration.write_text("optim_wrapper = dict(type='OptimWrapper')\n")
    assert found(amplint) == []
    configuration.write_text("optim_wrapper = dict(\n    type='AmpOptimWrapper')\n")
    assert found(amplint) == ["model.py:8:16: AMP304"]
    assert "conf/amp.py:2:10: this makes `forward` run under autocast" in amplint("check").out
    configuration.write_text("\n\noptim_wrapper = dict(type='AmpOptimWrapper')\n")
    assert "conf/amp.py:3:27: this makes `forward` run under autocast" in amplint("check").out
    assert len(counted) == 3
    # Those that ask for none are most, and say nothing of it.
    (project / "conf" / "plain.py").write_text("optim_wrapper = dict(type='OptimWrapper')\n")
    assert found(amplint) == ["model.py:8:16: AMP304"]
    (project / "tests").mkdir()
    configuration.rename(project / "tests" / "amp.py")
    assert found(amplint) == []


def test_the_older_mmcv_runs_other_methods_in_a_region(project: Path, amplint: Amplint) -> None:
    """Its losses are in none, by `force_fp32`, nor is what these call."""
    (project / "conf" / "amp.py").write_text("fp16 = dict(loss_scale=512.)\n")
    training = """\
import torch.nn.functional as F
from mmdet.core.bbox.assigners import BaseAssigner
from mmdet.models.detectors import BaseDetector


class Detector(BaseDetector):
    def forward_train(self, img, img_metas, mask, **kwargs):
        return F.binary_cross_entropy(self.backbone(img).sigmoid(), mask)


class Assigner(BaseAssigner):
    def assign(self, bboxes, gt_bboxes, gt_bboxes_ignore=None, gt_labels=None):
        return F.binary_cross_entropy(bboxes, gt_bboxes)
"""
    (project / "model.py").write_text(training)
    assert found(amplint) == ["model.py:8:16: AMP304"]


def test_an_edit_of_a_configuration_is_known_in_memory(tmp_path: Path) -> None:
    """As in an editor: the values stay in memory from one edit to the next."""
    on = "optim_wrapper = dict(type='AmpOptimWrapper')\n"
    off = on.replace("Amp", "")
    files = {"model.py": DETECTOR.encode(), "amp.py": off.encode()}
    write(files, tmp_path)
    asked = replace(request(files, tmp_path), linker=LiveLinker())
    for text in (off, on, f"# {on}{on}", off, on):
        outcome = run(replace(asked, overlays={"amp.py": text}))
        assert [f.code for f in outcome.findings] == ["AMP304"] * (text != off)
        places = [each.path for f in outcome.findings for each in f.related]
        assert places == ["amp.py"] * (text != off)


def test_a_method_that_a_decorator_may_take_out_of_the_region_is_in_none(
    project: Path, amplint: Amplint
) -> None:
    (project / "conf" / "amp.py").write_text("optim_wrapper = dict(type='AmpOptimWrapper')\n")
    (project / "model.py").write_text(DETECTOR)
    assert found(amplint) == ["model.py:8:16: AMP304"]
    decorated = DETECTOR.replace("    def forward", "    @force_fp32()\n    def forward")
    (project / "model.py").write_text(f"from mmcv.runner import force_fp32\n{decorated}")
    assert found(amplint) == []
