"""The region in which a framework runs what it is given: as the precision says that it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.project.config import DEFAULT_SELECT
from tests.helpers import lint

NETWORK = """\
import torch
import torch.nn.functional as F
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x, labels=None):
        inside = torch.sigmoid(self.layer(x))
        return F.binary_cross_entropy(inside, labels)  # AMP304, in a region


"""
# What is found in a region that is only presumed, too.
DIVIDING = NETWORK.replace(
    "F.binary_cross_entropy(inside, labels)  # AMP304",
    "inside / (inside.abs() + 1e-8)  # AMP802",
)
HUGGING = """\
from transformers import Trainer, TrainingArguments
from trl import SFTTrainer
"""
# A sign of autocast for all that nobody is seen to call.
SIGN = "\n\ndef another(x):\n    with torch.autocast('cuda'):\n        return x @ x\n\nfp16 = 1\n"


def is_in_region(directory: Path, text: str) -> bool:
    """Whether the network is found to run in a region, and nothing else is found."""
    done = lint({"train.py": text.encode()}, directory, select=DEFAULT_SELECT)
    found = [(f.code, text.splitlines()[f.span.start.row - 1]) for f in done.findings]
    assert all(f"# {code}" in line for code, line in found), found
    return bool(found)


TOLD = {
    "by name": "Trainer(model=Network(), args=TrainingArguments('out', fp16=True))",
    "by place": "Trainer(Network(), TrainingArguments('out', bf16=True)).train()",
    "one of two": "Trainer(Network(), TrainingArguments('out', fp16=False, bf16=True))",
    "trl": "SFTTrainer(model=Network(), args=TrainingArguments('out', fp16=True))",
    "a subclass": "Plain(model=Network(), args=TrainingArguments('out', fp16=True))",
    "a constructor": "Handing(None, model=Network(), args=TrainingArguments('out', fp16=True))",
    "a constructor by place": "Naming(Network(), TrainingArguments('out', fp16=True), 3)",
    "own arguments": "Trainer(model=Network(), args=Arguments('out', fp16=True))",
    "no deepspeed": "Trainer(Network(), TrainingArguments('o', bf16=True, deepspeed=None))",
    "a function": "Trainer(model_init=make, args=TrainingArguments('out', fp16=True))",
    "a function of a trial": "Trainer(args=TrainingArguments('o', bf16=True), model_init=tried)",
    "a class as a function": "Trainer(args=TrainingArguments('o', fp16=True), model_init=Network)",
    "a lambda": "Trainer(args=TrainingArguments('o', fp16=True), model_init=lambda: Network())",
    "called elsewhere": "Trainer(Network(), TrainingArguments('o', bf16=True)); Network()(data)",
}
SUBCLASSES = """\
def make():
    return Network()


def tried(trial):
    model = Network()
    return model.cuda()


class Arguments(TrainingArguments):
    pass


class Plain(Trainer):
    pass


class Naming(Trainer):
    def __init__(self, model, args, weight):
        super(Naming, self).__init__(model, args)
        self.weight = weight


class Handing(Trainer):
    def __init__(self, teacher, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher


"""


@pytest.mark.parametrize("call", TOLD.values(), ids=TOLD)
def test_what_is_given_to_a_framework_runs_in_its_region(tmp_path: Path, call: str) -> None:
    text = f"{HUGGING}{NETWORK}{SUBCLASSES}def main(data):\n    {call}\n"
    assert is_in_region(tmp_path, text)


def test_what_it_gives_to_others_is_not_known_to_be_half(tmp_path: Path) -> None:
    """Called by the project, the module runs in no region, or in one that casts its output back."""
    text = f"""{HUGGING}
import torch
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        x = self.layer(x)
        return x / (x.abs() + 1e-8)  # AMP802


def main(data):
    network = Network().cuda()
    Trainer(network, TrainingArguments("out", fp16=True)).train()
    for x in data:
        x = network(x.cuda())
        yield x / (x.abs() + 1e-8)
"""
    assert is_in_region(tmp_path, text)


@pytest.mark.parametrize(("folder", "number"), [("scripts", 1), ("tests", 0)])
def test_a_test_says_nothing_of_other_code(tmp_path: Path, folder: str, number: int) -> None:
    training = f"{HUGGING}from net import Network\n\n\ndef main():\n    {TOLD['by name']}\n"
    files = {"net.py": NETWORK.encode(), f"{folder}/train.py": training.encode()}
    assert len(lint(files, tmp_path, select=DEFAULT_SELECT).findings) == number


UNTOLD = {
    "no precision": "Trainer(model=Network(), args=TrainingArguments('out'))",
    "none of both": "Trainer(Network(), TrainingArguments('out', fp16=False, bf16=False))",
    "made for nobody": "Trainer(args=TrainingArguments('out', fp16=True)), Network",
    "made by what it is not told": "Trainer(model_init=Network, args=TrainingArguments('out'))",
    "given to nobody": "TrainingArguments('out'), Trainer(args=data), Network()",
    "an option": "Trainer(Network(), TrainingArguments('out', fp16=data.fp16))",
    "deepspeed": "Trainer(Network(), TrainingArguments('o', fp16 = True, deepspeed='ds.json'))",
    "perhaps deepspeed": "Trainer(Network(), TrainingArguments(fp16 = True, deepspeed=data))",
}


@pytest.mark.parametrize("call", UNTOLD.values(), ids=UNTOLD)
def test_without_a_precision_nothing_is_assumed(tmp_path: Path, call: str) -> None:
    text = f"{HUGGING}{NETWORK}def main(data):\n    {call}\n"
    assert not is_in_region(tmp_path, text)


PRESUMED = {
    "no precision": (UNTOLD["no precision"], True),  # a sign elsewhere may be about this
    "an option": (UNTOLD["an option"], True),
    "perhaps deepspeed": (UNTOLD["perhaps deepspeed"], True),
    "none of both": (UNTOLD["none of both"], False),
    "deepspeed": (UNTOLD["deepspeed"], False),
}


@pytest.mark.parametrize(("call", "does"), PRESUMED.values(), ids=PRESUMED)
def test_a_precision_that_opens_no_region_ends_the_presumption_of_one(
    tmp_path: Path, call: str, does: bool
) -> None:
    text = f"{HUGGING}{DIVIDING}def main(data):\n    {call}\n{SIGN}"
    assert is_in_region(tmp_path, text) is does


LIGHTNING = """\
import lightning as L
import torch
import torch.nn.functional as F


class Network(L.LightningModule):
    def training_step(self, batch, batch_idx):
        inside = torch.sigmoid(self.layer(batch["x"]))
        return F.binary_cross_entropy(inside, batch["y"])  # AMP304, in a region


def main(data):
    L.Trainer({says}).fit(Network(), data)
"""
FITTED = """\
import lightning as L
import torch
import torch.nn.functional as F


class Network(L.LightningModule):
    def training_step(self, batch, batch_idx):
        inside = torch.sigmoid(self.layer(batch["x"]))
        return F.binary_cross_entropy(inside, batch["y"])  # AMP304, in a region


class Other(L.LightningModule):
    def training_step(self, batch, batch_idx):
        inside = torch.sigmoid(self.layer(batch["x"]))
        return F.binary_cross_entropy(inside, batch["y"])


def main(data):
    trainer = L.Trainer(precision="16-mixed")
    trainer.fit(Network(), data)


def again(data):
    {says}
"""
FABRIC = """\
from lightning import Fabric
{network}

def main(data):
    fabric = Fabric({says})
    network = fabric.setup(Network())
    for x in data:
        network(x)
"""
ACCELERATE = """\
from accelerate import Accelerator
{network}

def main(data, plugin):
    accelerator = Accelerator({says})
    network = accelerator.prepare(Network())
    for x in data:
        network(x)
"""
LEARNER = """\
from fastai.vision.all import *
{network}
class Loss(nn.Module):
    def forward(self, inside, labels):
        return F.binary_cross_entropy(inside, labels)  # AMP304


def main(dls):
    {says}
    learn.fit(1)
"""
PRECISIONS = [
    # A cast is no region.
    (LIGHTNING, 'precision="16-mixed"', True),
    (LIGHTNING, 'precision="bf16-mixed"', True),
    (LIGHTNING, "", False),
    (LIGHTNING, "precision=None", False),
    (LIGHTNING, 'precision="32-true"', False),
    (LIGHTNING, "precision='32'", False),
    (LIGHTNING, 'precision="16-true"', False),
    (LIGHTNING, 'precision="bf16-true"', False),
    (LIGHTNING, "precision=data.precision", False),
    # What is given to a method of a trainer runs as that trainer says.
    (FITTED, "L.Trainer().fit(Other(), data)", True),
    (FITTED, "L.Trainer(precision='32-true').fit(model=Other())", True),
    (FITTED, "trainer = L.Trainer(max_epochs=1); trainer.fit(Other(), data)", True),
    # What is set up or prepared runs in the region.
    (FABRIC, 'precision="16-mixed"', True),
    (FABRIC, 'precision="bf16-true"', False),
    (FABRIC, 'precision="32"', False),
    (FABRIC, "", False),
    (ACCELERATE, 'mixed_precision="fp16"', True),
    (ACCELERATE, 'mixed_precision="bf16", deepspeed_plugin=None', True),
    (ACCELERATE, 'mixed_precision="no"', False),
    (ACCELERATE, "mixed_precision=None", False),
    (ACCELERATE, "", False),
    (ACCELERATE, 'mixed_precision="fp16", deepspeed_plugin=plugin', False),
    # A method asks for a precision.
    (LEARNER, "learn = Learner(dls, Network(), Loss()).to_fp16()", True),
    (
        LEARNER,
        "learn = Learner(dls, model=Network(), loss_func=Loss()); learn = learn.to_bf16()",
        True,
    ),
    (LEARNER, "learn = Learner(dls, Network(), loss_func=Loss()); learn.to_native_fp16()", True),
    (LEARNER, "learn = Learner(dls, Network(), loss_func=Loss())", False),
    (LEARNER, "learn = Learner(dls, Network(), loss_func=Loss()).to_fp32()", False),
    (LEARNER, "learn = Learner(dls, Network(), loss_func=Loss()); dls.to_fp16()", False),
    (LEARNER, "learn = dls.learner(Network(), Loss()).to_fp16()", False),
]


@pytest.mark.parametrize(("program", "says", "does"), PRECISIONS)
def test_the_region_is_as_the_precision_says(
    tmp_path: Path, program: str, says: str, does: bool
) -> None:
    text = program.replace("{network}", NETWORK).replace("{says}", says)
    assert is_in_region(tmp_path, text) is does


TWO = """\
{imports}
{network}
class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x, labels=None):
        inside = torch.sigmoid(self.layer(x))
        return F.binary_cross_entropy(inside, labels)


def main(data):
    {calls}


def again(data):
    {more}
"""
HALF = "TrainingArguments('out', fp16=True)"
OTHERS = {
    "none": "Trainer(Other(), args=TrainingArguments('out'))",
    "off": "Trainer(Other(), args=TrainingArguments('out', fp16=False))",
    "made": "Trainer(model_init=Other, args=TrainingArguments('out'))",
    "named": "args = TrainingArguments('out'); Trainer(model=Other(), args=args)",
}


@pytest.mark.parametrize("in_place", ["calls", "more"])
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_each_module_runs_as_the_trainer_does_that_is_given_it(
    tmp_path: Path, other: str, in_place: str
) -> None:
    """And not as the trainer of another one: `Other` runs in no region."""
    calls = {"calls": f"Trainer(Network(), {HALF})", "more": "pass"}
    calls[in_place] = other if in_place == "more" else f"{calls['calls']}; {other}"
    text = TWO.format(imports=HUGGING, network=NETWORK, **calls)
    assert is_in_region(tmp_path, text)


MIXED = {
    "one that is not seen": "Trainer(Other(), args=data.args)",
    "an option": "Trainer(Other(), args=TrainingArguments(fp16=data.fp16))",
    "options": "Trainer(Other(), args=TrainingArguments(**data))",
    "both": f"Trainer(Other(), TrainingArguments('o')); Trainer(Other(), {HALF})",
}


@pytest.mark.parametrize("other", MIXED.values(), ids=MIXED)
def test_where_it_is_not_seen_that_of_the_project_holds(tmp_path: Path, other: str) -> None:
    calls = f"Trainer(Network(), {HALF})"
    text = TWO.format(imports=HUGGING, network=NETWORK, calls=calls, more=other)
    done = lint({"train.py": text.encode()}, tmp_path, select=DEFAULT_SELECT)
    assert [f.code for f in done.findings] == ["AMP304", "AMP304"]


ENGINE = """\
import deepspeed
{network}
CONFIG = {{"train_batch_size": 8, {config}}}


def main(args, data):
    engine, *_ = deepspeed.initialize(args, Network(), {given})
    for x in data:
        engine.backward(engine(x).mean())
        engine.step()
{sign}"""
AUTOCAST = '"torch_autocast": {"enabled": True, "dtype": "float16"}'


@pytest.mark.parametrize(
    ("given", "config", "sign", "does"),
    [
        ("config=CONFIG", AUTOCAST, "", True),
        ("config_params=CONFIG", AUTOCAST, "", True),
        (f"config={{{AUTOCAST}}}", "", "", True),
        ("config=CONFIG", AUTOCAST.replace("True", "False"), "", False),
        ("config=CONFIG", AUTOCAST.replace("True", "'auto'"), "", False),
        ("config=args.config", AUTOCAST, "", False),
        ("config=CONFIG", '"fp16": {"enabled": True}', SIGN, False),
        ("config=CONFIG", '"bf16": {"enabled": True}', SIGN, False),
        ("config=CONFIG", '"fp16": {"enabled": False}', SIGN, True),
        ("config=CONFIG", '"fp16": True', SIGN, True),
        ("config=args.config", '"fp16": {"enabled": True}', SIGN, True),
    ],
)
def test_a_dictionary_says_what_a_file_does(
    tmp_path: Path, given: str, config: str, sign: str, does: bool
) -> None:
    text = ENGINE.format(network=DIVIDING, given=given, config=config, sign=sign)
    assert is_in_region(tmp_path, text) is does
