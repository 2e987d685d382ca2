"""A project's own models of frameworks: read, told, taken into account, and no further."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from amplint.cli import main as cli
from amplint.frameworks.model_reading import ModelError, model_of
from amplint.frameworks.models import bundled, models_with
from amplint.frameworks.schema import Model
from amplint.run import session
from amplint.util.toml import loads
from tests.command import Amplint
from tests.helpers import ROOT

FOLDER = ROOT / "amplint" / "frameworks"
MODEL = """\
name = "acme"

[[class]]
names = ["acme.Learner"]

[[class.method]]
names = ["on_batch"]
called = "micro-batch"
parameters = { batch = "batch" }
result = "loss"
"""
SETTINGS = '[tool.amplint]\nmodels = ["ours.toml"]\n'
TRAINING = """\
import torch
from acme import Learner


class Mine(Learner):
    def on_batch(self, batch):
        loss = torch.relu(batch["x"]).mean()
        print(loss.item())
        return loss
"""
FOUND = "train.py:8:15: AMP101"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose training code is called by a framework that nobody but its users know."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "train.py").write_text(TRAINING)
    (root / "ours.toml").write_text(MODEL)
    (root / "pyproject.toml").write_text(SETTINGS)
    monkeypatch.chdir(root)
    return root


def found(amplint: Amplint, *arguments: str) -> list[str]:
    """The findings, each with its place and its code."""
    done = amplint("check", "--format", "concise", *arguments)
    assert done.status in (0, 1), done.err
    return [" ".join(line.split()[:2]) for line in done.out.splitlines()]


# ------------------------------------------------------------------------------ what it changes


def test_a_model_makes_the_methods_hot_that_its_framework_calls(
    project: Path, amplint: Amplint
) -> None:
    assert found(amplint) == [FOUND]
    (project / "pyproject.toml").write_text("[tool.amplint]\n")
    assert found(amplint) == []


def test_a_model_holds_for_classes_of_other_files_too(project: Path, amplint: Amplint) -> None:
    (project / "base.py").write_text("from acme import Learner\nclass Middle(Learner): ...\n")
    middle = TRAINING.replace("from acme import Learner", "from base import Middle as Learner")
    (project / "train.py").write_text(middle)
    assert found(amplint) == [FOUND]


def test_own_models_come_before_those_of_amplint() -> None:
    own = model_of('name = "x"\n[[maker]]\nnames = ["accelerate.Accelerator"]\nbuilds = "loader"')
    text = 'name = "x"\n[[maker]]\nnames = ["accelerate.Accelerator"]\nbuilds = "loader"'
    maker = models_with((text,)).maker("accelerate.Accelerator")
    assert maker == own.makers[0]
    others = models_with(()).maker("accelerate.Accelerator")
    assert others is not None
    assert others.builds == "accelerator"


ENGINE = """\
name = "acme"

[[maker]]
names = ["acme.Engine"]
builds = "accelerator"

[[class]]
names = ["acme.Engine"]
kind = "accelerator"

[[class.method]]
names = ["prepare"]
gives = "given"
wraps = true

[[precision]]
calls = ["acme.Engine"]
argument = "precision"
values = { fp16 = "float16" }
keeps-outputs = KEEPS
"""
PREPARED = """\
from acme import Engine
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)


def main(loader):
    network = Engine(precision="fp16").prepare(Network())
    for x in loader:
        y = network(x.cuda())
        yield y / (y.abs() + 1e-8)
"""


@pytest.mark.parametrize(("keeps", "places"), [("true", ["train.py:18:20: AMP802"]), ("false", [])])
def test_what_a_wrapped_module_gives_is_in_half_precision_if_it_is_kept(
    project: Path, amplint: Amplint, keeps: str, places: list[str]
) -> None:
    (project / "ours.toml").write_text(ENGINE.replace("KEEPS", keeps))
    (project / "train.py").write_text(PREPARED)
    assert found(amplint) == places


def test_a_class_that_speaks_of_an_option_may_not_be_called(
    project: Path, amplint: Amplint
) -> None:
    (project / "ours.toml").write_text(f'{MODEL}unless = "by_hand"\n')
    assert found(amplint) == [FOUND]
    training = TRAINING.replace("    def", "    by_hand = True\n\n    def", 1)
    (project / "train.py").write_text(training)
    assert found(amplint) == []


def test_a_change_of_the_model_is_another_run(
    project: Path, amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    original: Callable[..., object] = session.analyse
    monkeypatch.setattr(session, "analyse", lambda *args: counted.append(1) or original(*args))
    assert found(amplint) == found(amplint) == [FOUND]
    assert len(counted) == 1
    (project / "ours.toml").write_text(MODEL.replace('"on_batch"', '"on_epoch"'))
    assert found(amplint) == []
    assert len(counted) == 2
    (project / "ours.toml").write_text(MODEL)
    assert found(amplint) == [FOUND]
    assert len(counted) == 2  # of the cache


def test_each_project_of_a_repository_has_its_own(project: Path, amplint: Amplint) -> None:
    (project / "train.py").unlink()
    for name, settings in {"one": SETTINGS, "two": "[tool.amplint]\n"}.items():
        package = project / "packages" / name
        package.mkdir(parents=True)
        (package / "pyproject.toml").write_text(settings)
        (package / "train.py").write_text(TRAINING)
    (project / "packages" / "one" / "ours.toml").write_text(MODEL)
    assert found(amplint) == [f"packages/one/{FOUND}"]
    assert found(amplint, "packages/two") == []


def test_settings_that_are_extended_bring_their_models(project: Path, amplint: Amplint) -> None:
    package = project / "packages" / "one"
    package.mkdir(parents=True)
    (package / "pyproject.toml").write_text('[tool.amplint]\nextend = "../../pyproject.toml"\n')
    (package / "train.py").write_text(TRAINING)
    assert found(amplint, "packages/one") == [f"packages/one/{FOUND}"]


def test_a_file_of_settings_that_is_named_brings_its_models(
    project: Path, amplint: Amplint
) -> None:
    (project / "conf").mkdir()
    (project / "ours.toml").rename(project / "conf" / "ours.toml")
    (project / "pyproject.toml").rename(project / "conf" / "amplint.toml")
    (project / "conf" / "amplint.toml").write_text('models = ["ours.toml"]\n')
    assert found(amplint) == []
    assert found(amplint, "--config", "conf/amplint.toml") == [FOUND]


def test_settings_show_the_models(amplint: Amplint) -> None:
    assert 'models = ["ours.toml"]  # pyproject.toml' in amplint("check", "--show-settings").out


# ------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            '"micro-batch"',
            '"sometimes"',
            "class 1 (`acme.Learner`), method 1 (`on_batch`), `called",
        ),
        ('"loss"', '"lost"', "class 1 (`acme.Learner`), method 1 (`on_batch`), `result`: Invalid"),
        ("called =", "caled =", "method 1 (`on_batch`): Object contains unknown field `caled`"),
        ('batch = "batch"', 'batch = "bath"', "method 1 (`on_batch`), `parameters[...]`: Invalid"),
        ('["acme.Learner"]', '["acme Learner"]', "a class has a name that is not a dotted name"),
        ('["acme.Learner"]', '["*a*c*e"]', "class `*a*c*e`: a name may have 2 `*`"),
        ('["acme.Learner"]', '"acme.Learner"', "class 1, `names`: Expected `array`, got `str`"),
        ('names = ["on_batch"]', "", "method 1: Object missing required field `names`"),
        ('name = "acme"', "", "Object missing required field `name`"),
        ('name = "acme"', "name = acme", "is not valid TOML: Invalid value (at line 1, column 8)"),
        ('name = "acme"', 'name = ""', "its `name` is invalid"),
    ],
)
def test_an_error_names_the_file_and_the_row(
    project: Path, amplint: Amplint, old: str, new: str, told: str
) -> None:
    assert old in MODEL
    (project / "ours.toml").write_text(MODEL.replace(old, new, 1))
    done = amplint("check")
    assert done.status == 2
    start = f"amplint: error: {project / 'pyproject.toml'}: `models`: {project / 'ours.toml'}: "
    assert done.err.startswith(start)
    assert told in done.err
    explained = amplint("explain", "--model", "ours.toml")
    assert explained.status == 2
    assert told in explained.err


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ('"ours.toml"', "`models` must be a list of strings, not 'ours.toml'"),
        ("[3]", "`models` must be a list of strings"),
        ('[""]', "`models` must be the name of a file"),
        ('["nowhere.toml"]', "nowhere.toml: cannot be read: No such file"),
        ('["."]', "cannot be read: it is not a regular file"),
    ],
)
def test_a_setting_that_names_no_model_is_told(
    project: Path, amplint: Amplint, value: str, told: str
) -> None:
    (project / "pyproject.toml").write_text(f"[tool.amplint]\nmodels = {value}\n")
    done = amplint("check")
    assert done.status == 2
    assert told in done.err


# ------------------------------------------------------------------------------ explain


@pytest.mark.parametrize("model", bundled(), ids=lambda model: model.name)
def test_each_model_is_printed_by_its_name(amplint: Amplint, model: Model) -> None:
    assert model_of(amplint("explain", "--model", model.name).out) == model


def test_a_file_is_printed_as_it_is(amplint: Amplint) -> None:
    assert amplint("explain", "--model", "ours.toml").out == f"{MODEL}\n"


def test_a_name_that_no_model_has_is_told(amplint: Amplint) -> None:
    done = amplint("explain", "--model", "torchfire")
    assert done.status == 2
    assert "there is no model `torchfire`: there are accelerate, " in done.err
    assert amplint("explain", "--model", "torchfire.toml").status == 2


def test_a_framework_is_known_by_what_is_imported_of_it(amplint: Amplint) -> None:
    assert model_of(amplint("explain", "--model", "pytorch_lightning").out).name == "lightning"


@pytest.fixture(scope="module")
def schema() -> dict[str, object]:
    from amplint.frameworks import model_text  # noqa: PLC0415

    read: dict[str, object] = json.loads(model_text.schema())
    jsonschema.Draft202012Validator.check_schema(read)
    return read


def test_the_schema_is_printed(amplint: Amplint, schema: dict[str, object]) -> None:
    assert json.loads(amplint("explain", "--model-schema").out) == schema


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.toml")), ids=lambda file: file.stem)
def test_amplints_own_models_fit_the_schema(file: Path, schema: dict[str, object]) -> None:
    jsonschema.validate(loads(file.read_text(encoding="utf-8")), schema)
    assert model_of(file.read_text(encoding="utf-8")).name == file.stem


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"micro-batch"', '"sometimes"'),
        ("called =", "caled ="),
        ('names = ["on_batch"]', ""),
        ('batch = "batch"', 'batch = "bath"'),
    ],
)
def test_what_amplint_refuses_does_not_fit_the_schema(
    schema: dict[str, object], old: str, new: str
) -> None:
    jsonschema.validate(loads(MODEL), schema)
    wrong = MODEL.replace(old, new, 1)
    with pytest.raises(ModelError):
        model_of(wrong)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(loads(wrong), schema)


def test_explain_needs_a_rule_or_a_model() -> None:
    assert cli.main(["explain"]) == 2
