"""The paths of a training step: what is followed, and where amplint rather says nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent, indent

import pytest

from amplint.gradscaler import certainty
from amplint.run.engine import run
from tests.helpers import lint, request
from tests.helpers import write as write_files

TRAIN = """\
import torch
from torch.nn.utils import clip_grad_norm_

def train(model, loader, optimizer, flags, scaler: torch.amp.GradScaler):
    for i, (x, y) in enumerate(loader):
{body}
"""


def found(body: str, directory: Path) -> list[str]:
    """The codes of the protocol that are found in the body of a loop."""
    program = TRAIN.format(body=indent(dedent(body), " " * 8))
    outcome = lint({"train.py": program.encode()}, directory)
    assert not outcome.problems
    return [f.code for f in outcome.findings if f.code.startswith("AMP4")]


@pytest.mark.parametrize("count", [2, 64])
@pytest.mark.parametrize("also", ["optimizer.zero_grad()", "loss = loss + flags.loss"])
def test_many_tests_before_the_step(count: int, also: str, tmp_path: Path) -> None:
    """There are 2^64 paths; where each has a loss of its own, not all of them are kept apart."""
    body = (
        "loss = model(x).mean()\n"
        + "".join(f"if flags.f{n}:\n    flags.hook{n}.step()\n    {also}\n" for n in range(count))
        + "scaler.scale(loss).backward()\nclip_grad_norm_(model.parameters(), 1.0)\n"
        + "scaler.step(optimizer)\nscaler.update()\n"
    )
    assert certainty.LIMITS["situations"] < 2**64
    assert found(body, tmp_path) == ["AMP404"]


def test_the_same_tests_before_and_after(tmp_path: Path) -> None:
    """The outcomes of many tests are remembered together."""

    def chain(call: str) -> str:
        tests = (f"{'el' * (n > 0)}if flags.f{n}:\n    {call}\n" for n in range(20))
        return "".join(tests)

    step = "scaler.step(optimizer)\nscaler.update()\n"
    clip = chain("clip_grad_norm_(model.w, 1.0)")
    for before, expected in (("scaler.unscale_(optimizer)", 0), ("flags.meter.update()", 20)):
        body = f"scaler.scale(model(x)).backward()\n{chain(before)}{clip}{step}"
        assert found(body, tmp_path / str(expected)) == ["AMP404"] * expected


@pytest.mark.parametrize(
    "test",
    [
        "flags.amp",
        "not flags.amp",
        "flags.amp is None",
        "flags.mode == 'amp'",
        "flags.a and flags.b",
    ],
)
def test_the_same_test_is_decided_the_same_way(test: str, tmp_path: Path) -> None:
    body = f"""
        scaler.scale(model(x)).backward()
        if {test}:
            scaler.unscale_(optimizer)
        if {test}:
            clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        """
    assert found(body, tmp_path) == []
    forgotten = body.replace("scaler.unscale_(optimizer)", "pass")
    assert found(forgotten, tmp_path / "forgotten") == ["AMP404"]


@pytest.mark.parametrize("leaves", ["continue", "return", "raise ValueError", "break"])
def test_paths_end_where_the_code_says_so(leaves: str, tmp_path: Path) -> None:
    body = """
        optimizer.zero_grad()
        model(x).mean().backward()
        {leaves}
        scaler.step(optimizer)
        scaler.update()
        """
    assert found(body.format(leaves=leaves), tmp_path) == []
    sometimes = f"if i > 3:\n            {leaves}"
    assert found(body.format(leaves=sometimes), tmp_path / "sometimes") == ["AMP402"]


@pytest.mark.parametrize(
    "call", ["flags.hook(optimizer)", "flags.callbacks.on_after_backward(model)", "flags.f(scaler)"]
)
def test_what_an_unknown_function_does_is_in_order(call: str, tmp_path: Path) -> None:
    body = """
        scaler.scale(model(x)).backward()
        {call}
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        """
    assert found(body.format(call=call), tmp_path) == []
    assert found(body.format(call="print(x)"), tmp_path / "harmless") == ["AMP404"]


CHECKPOINT = """\
import pickle
import torch
from torch.amp import GradScaler

class Trainer:
    def __init__(self, model: torch.nn.Module):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.{name} = GradScaler("cuda")

    def fit(self, loader, hooks, path):
        for x in loader:
            self.{name}.scale(self.model(x).mean()).backward()
            self.{name}.step(self.optimizer)
            self.{name}.update()
            {then}
        torch.save({{"optimizer": self.optimizer.state_dict()}}, path)

    def resume(self, path):
        self.optimizer.load_state_dict(torch.load(path)["optimizer"])
        {resume}
"""


def left_out(directory: Path, name: str = "scaler", then: str = "", resume: str = "") -> bool:
    """Whether the state of the scaler is found to be missing in a checkpoint."""
    program = CHECKPOINT.format(name=name, then=then or "pass", resume=resume)
    outcome = lint({"train.py": program.encode()}, directory)
    assert not outcome.problems
    return "AMP413" in [f.code for f in outcome.findings]


@pytest.mark.parametrize(
    "then",
    [
        "print(self.grads, isinstance(self.grads, GradScaler), self.grads.get_scale())",
        "self.model.state_dict()",
        "hooks.model.state_dict()",
        "hooks(self.model, self.optimizer)",
        "torch.save({'epoch': 1, 'model': self.model.state_dict()}, path)",
        "vars(hooks)",
    ],
)
def test_what_saves_no_state_of_a_scaler(then: str, tmp_path: Path) -> None:
    assert left_out(tmp_path, "grads", then)


@pytest.mark.parametrize(
    "then",
    [
        "torch.save({'grads': self.grads.state_dict()}, path)",
        "state = {'scaler': hooks.state()}",
        "states = [each.state_dict() for each in hooks]",
        "hooks[0].state_dict()",
        "hooks(self.grads)",
        "hooks.after(self)",
        "hooks.after(objects=(self.model, self.grads))",
        "hooks.grads = self.grads",
        "parts = {'model': self.model, 'grads': self.grads}",
        "parts = dict(grads=self.grads)",
        "parts = [self.optimizer, self.grads]",
        "torch.save(self.grads, path)",
        "torch.save(self, path)",
        "pickle.dump(self, hooks)",
        "torch.save(self.__dict__, path)",
        "states = [getattr(each, 'state_dict')() for each in hooks]",
        "from torch.amp import grad_scaler; amp = hooks.amp; amp.state_dict()",
    ],
)
def test_what_may_save_the_state_of_a_scaler(then: str, tmp_path: Path) -> None:
    assert not left_out(tmp_path, "grads", then)


def test_a_checkpoint_that_nothing_is_resumed_from_and_a_state_that_is_only_loaded(
    tmp_path: Path,
) -> None:
    program = CHECKPOINT.format(name="scaler", then="pass", resume="")
    program = program.replace("self.optimizer.load_state_dict(torch.load(path)", "print((path)")
    outcome = lint({"train.py": program.encode()}, tmp_path)
    assert "AMP413" not in [f.code for f in outcome.findings]
    assert left_out(tmp_path / "resumed")
    loading = "self.scaler.load_state_dict(torch.load(path)['scaler_state_dict'])"
    assert left_out(tmp_path / "loaded", resume=loading)
    saving = "torch.save({'epoch': 1, 'o': self.optimizer.state_dict()}, path)"
    dump = f"if x.isnan().any(): {saving}; raise"
    dumped = program.replace('torch.save({"optimizer": self.optimizer.state_dict()}, path)', "pass")
    dumped = dumped.replace("            pass\n", f"            {dump}\n", 1)
    assert "isnan" in dumped
    outcome = lint({"train.py": dumped.encode()}, tmp_path / "dumped")
    assert "AMP413" not in [f.code for f in outcome.findings], "it is there to look at"
    counted = program.replace('save({"opt', 'save({"epoch": 1, "opt')
    outcome = lint({"train.py": counted.encode()}, tmp_path / "counted")
    assert "AMP413" in [f.code for f in outcome.findings], "it is there to go on from"
    loading = "toolbox.load(path, model=self.model, optimizer=self.optimizer)"
    by_library = "import toolbox\n" + program.replace("print((path)", f"{loading} and print((path)")
    outcome = lint({"train.py": by_library.encode()}, tmp_path / "by_library")
    assert "AMP413" in [f.code for f in outcome.findings]


AMP = """\
import torch
from torch.nn.utils import clip_grad_norm_

class Amp:
    def __init__(self):
        self.inner = torch.amp.GradScaler("cuda")

    def __call__(self, loss, opt, clip_grad=None, parameters=None, need_update=True):
        self.backward(loss)
        if need_update:
            if clip_grad is not None:
                self.inner.unscale_(opt)
                clip_grad_norm_(parameters, clip_grad)
            self.step(opt)

    def backward(self, loss):
        self.inner.scale(loss).backward()

    def step(self, opt):
        self.inner.step(opt)
        self.inner.update()
"""
USER = """\
from torch.nn.utils import clip_grad_norm_
from amps import Amp

def train(model, loader, opt):
    amp = Amp()
    for x in loader:
        opt.zero_grad()
        {}
"""


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("amp.backward(model(x).mean()); amp.step(opt)", []),
        ("amp(model(x).mean(), opt, clip_grad=1.0, parameters=model.parameters())", []),
        ("amp.backward(model(x).mean()); clip_grad_norm_(model.w, 1.0); amp.step(opt)", ["AMP404"]),
        ("amp.backward(model(x).mean()); opt.zero_grad(); amp.step(opt)", ["AMP408"]),
        ("amp(model(x).mean(), opt, need_update=False); opt.step()", ["AMP401"]),
        ("model(x).mean().backward(); amp.step(opt)", ["AMP402"]),
    ],
)
def test_functions_that_act_through_an_object(body: str, codes: list[str], tmp_path: Path) -> None:
    """No word of a scaler stands in the file that is reported on."""
    files = {"amps.py": AMP.encode(), "main.py": USER.format(body).encode()}
    everything = request(files, write_files(files, tmp_path))
    selection = replace(everything.selection, reported=frozenset({"main.py"}))
    outcome = run(replace(everything, selection=selection))
    assert not outcome.problems
    assert [f.code for f in outcome.findings] == codes


PER_EPOCH = """\
import torch

def epoch(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    {within}

def train(model: torch.nn.Module, loader, path):
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(torch.load(path)["optimizer"])
    for _ in range(3):
        epoch(model, optimizer, loader)
    {after}
"""
SAVE = 'torch.save({"optimizer": optimizer.state_dict()}, "last.pt")'


def test_a_scaler_that_is_gone_when_the_checkpoint_is_saved(tmp_path: Path) -> None:
    """One that is made for every epoch has lost its state by itself."""
    within = PER_EPOCH.format(within=SAVE, after="")
    after = PER_EPOCH.format(within="", after=SAVE)
    for name, program, expected in (("within", within, ["AMP413"]), ("after", after, [])):
        outcome = lint({"train.py": program.encode()}, tmp_path / name)
        assert [f.code for f in outcome.findings if f.code == "AMP413"] == expected


SAVES_IT = """\
import torch
{first}
def save(scaler: torch.amp.GradScaler, path):
    torch.save({{"scaler": scaler.state_dict()}}, path)
"""


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        ("", "pass", True),  # a program of its own
        ("import train", "pass", False),
        ("", "import other", False),
    ],
)
def test_the_state_is_saved_by_another_file_of_the_program(
    first: str, then: str, expected: bool, tmp_path: Path
) -> None:
    program = CHECKPOINT.format(name="grads", then=then, resume="")
    files = {"train.py": program.encode(), "other.py": SAVES_IT.format(first=first).encode()}
    outcome = lint(files, tmp_path)
    assert ("AMP413" in [f.code for f in outcome.findings]) is expected


@pytest.mark.parametrize("holds", [True, False])
def test_what_is_pickled_in_a_way_of_its_own(holds: bool, tmp_path: Path) -> None:
    """A class that holds the scaler, or another one."""
    program = CHECKPOINT.format(name="grads", then="pass", resume="")
    own = "def __getstate__(self):\n        return 1\n"
    program += f"\n    {own}" if holds else f"\nclass Other:\n    {own}"
    outcome = lint({"train.py": program.encode()}, tmp_path)
    assert ("AMP413" in [f.code for f in outcome.findings]) is not holds


@pytest.mark.parametrize("also", ["", " or i + 1 == len(loader)"])
def test_a_test_of_two_parts_may_be_that_of_the_right_call(also: str, tmp_path: Path) -> None:
    """The last iteration is the only one that is not followed by an update, and by no other."""
    body = f"""
        scaler.scale(model(x)).backward()
        scaler.unscale_(optimizer)
        if (i + 1) % n == 0{also}:
            scaler.step(optimizer)
        if (i + 1) % n == 0:
            scaler.update()
            optimizer.zero_grad()
        """
    assert "AMP403" not in found(body, tmp_path)


def test_a_path_that_contradicts_itself_later_shows_nothing(tmp_path: Path) -> None:
    body = """
        model(x).mean().backward()
        if flags.scaler is None:
            scaler.step(optimizer)
        assert flags.scaler
        if flags.scaler is None:
            raise ValueError
        if not flags.scaler:
            scaler.update()
        else:
            return
        """
    assert found(body, tmp_path) == []
    raises = "\n        if flags.scaler is None:\n            raise ValueError"
    assert found(body.replace(raises, ""), tmp_path / "possible") == ["AMP402"]


def test_the_last_test_of_a_function_may_return(tmp_path: Path) -> None:
    """What follows `if ...: return` is then nothing."""
    program = TRAIN.format(
        body="""\
        backward(model, x, scaler)
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

def backward(model, x, scaler: torch.amp.GradScaler):
    if x.ndim == 2:
        return scaler.scale(model(x).mean()).backward()
"""
    )
    outcome = lint({"train.py": program.encode()}, tmp_path)
    assert [f.code for f in outcome.findings if f.code.startswith("AMP4")] == ["AMP404"]


GIVEN = """\
import torch
from torch.nn.utils import clip_grad_norm_

class Updater:
    def step(self, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, params):
        {before}
        if self.clip:
            clip_grad_norm_(params, self.clip)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("before", "other", "clips"),
    [
        ("pass", "", True),
        ("scaler.unscale_(optimizer)", "", False),
        ("pass", "def prepare(scaler, optimizer):\n    scaler.unscale_(optimizer)\n", False),
        ("self.clip = self.clip * scaler.get_scale()", "", False),
        ("self.loss.backward()", "", False),  # of what is not scaled here, perhaps
        ("scaler = torch.amp.GradScaler('cuda', enabled=self.half)", "", False),
        ("if scaler is None: return clip_grad_norm_(params, 1.0)", "", False),
        ("if not self.use_amp: return clip_grad_norm_(params, 1.0)", "", False),
        ("unscale_gradients(optimizer, scaler)", "", False),
        ("[p.grad.mul_(self.inverse) for p in params]", "", False),
        ("self.other.step()", "", False),
        (
            "pass",
            "import train\n\ndef run(*rest):\n    off = torch.amp.GradScaler(enabled=False)\n"
            "    train.Updater().step(off, *rest)\n",
            False,
        ),
    ],
)
def test_a_clip_where_only_the_step_is_in_sight(
    before: str, other: str, clips: bool, tmp_path: Path
) -> None:
    """Who hands the scaler to a function has scaled the loss."""
    program = GIVEN.format(before=before)
    outcome = lint({"train.py": program.encode(), "other.py": other.encode()}, tmp_path)
    assert not outcome.problems
    assert ("AMP404" in [each.code for each in outcome.findings]) is clips


TWO_OPTIMIZERS = """\
import lightning as L
import torch

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.one, self.other = torch.nn.Linear(10, 2), torch.nn.Linear(10, 2)
        self.plain = torch.optim.SGD(self.other.parameters(), lr=0.1)

    def of_one(self, x):
        {helper}

    def training_step(self, batch, _):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.of_one(batch)
        loss = self.other(batch).mean()
        loss.backward()
        optimizer.step()
        {after}

trainer = L.Trainer(precision="16-mixed")
trainer.fit(Net())
"""


@pytest.mark.parametrize(
    ("helper", "after", "bypasses"),
    [
        ("return x", "pass", True),
        ("self.manual_backward(self.one(x).mean())", "pass", False),
        ("return x", "self.plain.step()", False),
    ],
)
def test_a_plain_backward_pass_beside_that_of_a_framework(
    helper: str, after: str, bypasses: bool, tmp_path: Path
) -> None:
    """The weights that it is for may have an optimizer that divides nothing."""
    program = TWO_OPTIMIZERS.format(helper=helper, after=after)
    outcome = lint({"train.py": program.encode()}, tmp_path)
    assert not outcome.problems
    assert ("AMP402" in [each.code for each in outcome.findings]) is bypasses


NESTED_GRADIENTS = """\
import torch

def backpropagate(model, x):
    model(x).mean().backward()

@torch.no_grad()
def outer(model, x):
    {context}:
        backpropagate(model, x)

def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            outer(model, x)
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("context", "trains"), [("with torch.enable_grad()", True), ("if x.requires_grad", False)]
)
def test_gradients_that_are_switched_on_again(context: str, trains: bool, tmp_path: Path) -> None:
    """As an optimizer does for its closure."""
    outcome = lint({"train.py": NESTED_GRADIENTS.format(context=context).encode()}, tmp_path)
    assert not outcome.problems
    assert ("AMP301" in [each.code for each in outcome.findings]) is trains
