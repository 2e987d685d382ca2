"""Regions that are presumed around what nobody is seen to call."""

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from amplint import testing
from amplint.facts.program import linked
from amplint.findings.finding import Finding, Group, Safety
from amplint.inference import Inference
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.project.config import AUTO
from amplint.run.linking import LiveLinker
from amplint.util.progress import SILENT
from amplint.values.atoms import Region
from tests.helpers import presumes, request, write

NET = """
import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.helper(self.inner(x))

    def helper(self, x):
        return x

    def other(self, x):
        return x
"""
SCALES = "import torch\n\nscaler = torch.amp.GradScaler('cuda')\n"
REGION = Region("cuda", "float16", True, inherited=True, presumed=True)


def regions(files: Mapping[str, str], assumes: bool | None = None) -> Mapping[str, Region | None]:
    """By function, without the file: the region that it inherits."""
    inference = solved(files, assumes)
    around = inference.regions.inherited
    return {name.partition("::")[2]: around.get(name) for name in inference.states}


def solved(files: Mapping[str, str], assumes: bool | None = None) -> Inference:
    indexed = {path: File(path, textwrap.dedent(text)) for path, text in files.items()}
    return linked(Files(indexed, presumes=presumes(assumes)))


@pytest.mark.parametrize(
    ("sign", "dtype"),
    [
        ("torch.autocast('cuda')", "half"),
        ("torch.autocast(\n    'cuda',\n    dtype=torch.float16,\n)", "float16"),
        ("torch.autocast('cuda', dtype=torch.bfloat16)", "half"),
        ("torch.autocast('cuda', dtype=torch.bfloat16 if bf16 else torch.float16)", "half"),
        ("with autocast(enabled=use_amp): pass", "half"),
        ("torch.amp.GradScaler('cuda')", "float16"),
        ("import lightning\nTrainer(precision='16-mixed')", "float16"),
        ("import lightning\nTrainer(precision='bf16-mixed')", "half"),
        ("import accelerate\nAccelerator(mixed_precision='fp16')", "float16"),
        ("Machine(precision='16-mixed')", None),  # of no framework that is named
        ("parser.add_argument('--fp16', action='store_true')", None),  # it may cast the module
        ("parser.add_argument('--use_amp')", "half"),
        ("", None),
        ("# torch.autocast('cuda')", None),
        ("with torch.autocast('cuda', enabled=False): pass", None),
        ("parser.add_argument('--amplify')", None),
        ("with torch.autocast('cuda', enabled = False): pass", None),
        (
            "with torch.autocast(\n    torch.device(choose()).type,\n    enabled=False,\n): pass",
            None,
        ),
        ("with torch.cuda.amp.autocast(False): pass", None),
        ("scaler = torch.amp.GradScaler('cuda', enabled = False)", None),
        (
            "with torch.autocast('cuda', enabled=True), torch.autocast('cpu', enabled=False): pass",
            "half",
        ),
        ("torch.autocast(torch.device('cuda').type, dtype=torch.float16)", "float16"),
        ("import accelerate\nAccelerator(mixed_precision = 'fp16')", "float16"),
        ("import transformers\nTrainingArguments(\n    'out',\n    bf16 = True,\n)", "half"),
        ("import transformers\nbf16 = True", None),  # a variable, and of what is not known
        ("import detectron2\ncfg.SOLVER.AMP.ENABLED=True", "half"),
    ],
)
def test_what_a_project_shows_is_presumed_of_its_modules(sign: str, dtype: str | None) -> None:
    found = regions({"net.py": NET, "train.py": f"import torch\n{sign}\n"})
    around = found["Net.forward"]
    assert (around and around.dtype) == dtype
    assert (around is not None and around.presumed) == (dtype is not None)


def test_a_test_shows_nothing() -> None:
    found = regions({"net.py": NET, "tests/test_net.py": "import torch\ntorch.autocast('cuda')\n"})
    assert found["Net.forward"] is None


def test_the_presumed_region_reaches_what_is_called_in_it() -> None:
    found = regions({"net.py": NET}, assumes=True)
    inside = {name for name, around in found.items() if around == REGION}
    assert inside == {"Net.forward", "Inner.forward", "Net.helper"}


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("", "float16"),
        ("dtype = torch.bfloat16", "bfloat16"),
        ("bf16 = True", "bfloat16"),
        ("dtype = torch.bfloat16 if bf16 else torch.float16", "float16"),
    ],
)
def test_what_the_settings_ask_for_is_the_region_that_torch_opens(text: str, dtype: str) -> None:
    around = regions({"net.py": NET, "other.py": f"import torch\n{text}\n"}, assumes=True)
    region = around["Net.forward"]
    assert region is not None
    assert region.dtype == dtype


APEX = """
from apex import amp
from net import Net

def main(optimizer, loader, level):
    model = Net().cuda()
    model, optimizer = amp.initialize(model, optimizer{level})
    for x in loader:
        model(x)
"""


@pytest.mark.parametrize(
    ("level", "is_presumed"),
    [
        (', opt_level="O1"', True),
        ("", True),
        (', opt_level="O0"', False),
        (', opt_level="O2"', False),
        (", opt_level=level", False),
    ],
)
def test_apex_casts_what_is_called_where_it_is_initialized(level: str, is_presumed: bool) -> None:
    train = APEX.replace("{level}", level)
    found = regions({"net.py": NET, "train.py": train})
    inside = {name for name, around in found.items() if around == REGION}
    expected = {"main", "Net.forward", "Inner.forward", "Net.helper", "Net.__init__"}
    assert inside - {"Inner.__init__"} == (expected if is_presumed else set())


def test_other_functions_of_that_name_cast_nothing() -> None:
    train = APEX.replace("from apex import", "from engine import").replace("{level}", "")
    assert set(regions({"net.py": NET, "train.py": train}).values()) == {None}


def test_the_settings_may_rule_it_out() -> None:
    files = {"net.py": NET, "train.py": "import torch\ntorch.autocast('cuda')\n"}
    assert set(regions(files, assumes=False).values()) == {None}


TRAINS = """
import torch
from net import Net

net = Net()


def compute(x):
    return net(x).sum()


def backpropagate(loss):
    loss.backward()


def train(loader):
    for epoch in range(9):
        for x in loader:
            {in_loop}
        {after_loop}


def evaluate(loader):
    for x in loader:
        net(x)
"""
TRAINED = TRAINS.replace("{in_loop}", "net(x).sum().backward()").replace("{after_loop}", "pass")


def trained(
    in_loop: str, after_loop: str = "pass", path: str = "use.py"
) -> Mapping[str, Region | None]:
    use = TRAINS.replace("{in_loop}", in_loop).replace("{after_loop}", after_loop)
    return regions({"net.py": NET, path: use, "sign.py": SCALES})


@pytest.mark.parametrize(
    "in_loop",
    [
        "net(x).sum().backward()",
        "compute(x).backward()",
        "loss = compute(x); backpropagate(loss)",  # in no loop of its own
    ],
)
def test_a_call_of_a_training_ends_the_presumption(in_loop: str) -> None:
    found = trained(in_loop)
    assert (found["Net.forward"], found["Inner.forward"]) == (None, None)


def test_a_call_of_a_training_in_a_region_is_seen() -> None:
    found = trained("with torch.autocast('cuda', dtype=torch.float16): net(x).sum().backward()")
    seen = Region("cuda", "float16", True, inherited=True)
    assert (found["Net.forward"], found["Inner.forward"]) == (seen, seen)


@pytest.mark.parametrize(
    ("in_loop", "after_loop"),
    [
        ("other(x).backward()", "evaluate(loader)"),
        ("other(x).backward()", "net(x)"),  # to draw its graph, say
        ("other(x).backward(); evaluate([x])", "pass"),
        ("other(x)", "compute(x)"),
    ],
)
def test_another_call_does_not(in_loop: str, after_loop: str) -> None:
    """Of an evaluation, an export, a benchmark, an example."""
    found = trained(in_loop, after_loop)
    assert (found["Net.forward"], found["Inner.forward"]) == (REGION, REGION)


@pytest.mark.parametrize("path", ["examples/train.py", "lib/benchmarks/speed.py", "docs/use.py"])
def test_an_example_does_not(path: str) -> None:
    """What it trains shows nothing of how the users of a library do."""
    found = trained("net(x).sum().backward()", path=path)
    assert found["Net.forward"] == REGION


def test_an_example_does_for_what_it_defines_itself() -> None:
    files = {"examples/net.py": NET, "sign.py": SCALES}
    files["examples/train.py"] = TRAINED.replace("from net", "from examples.net")
    found = regions(files)
    assert (found["Net.forward"], found["Inner.forward"]) == (None, None)


@pytest.mark.parametrize("assumes", [None, True])
def test_what_a_thread_runs_is_in_no_region(assumes: bool | None) -> None:
    use = """
        import threading
        from net import Net

        net = Net()

        def work(x):
            return net(x)

        def replicate(x):
            threading.Thread(target=work, args=(x,)).start()
    """
    found = regions({"net.py": NET, "use.py": use, "sign.py": SCALES}, assumes)
    assert (found["Net.forward"], found["Inner.forward"]) == (None, None)


def test_the_networks_of_an_evaluation_are_not_presumed() -> None:
    assert regions({"lib/eval/net.py": NET, "sign.py": SCALES})["Net.forward"] is None
    assert regions({"lib/evaluable/net.py": NET, "sign.py": SCALES})["Net.forward"] == REGION


def test_the_settings_presume_a_region_whoever_calls() -> None:
    found = regions({"net.py": NET, "use.py": TRAINED}, assumes=True)
    assert (found["Net.forward"], found["Inner.forward"]) == (REGION, REGION)


def test_a_step_that_an_engine_runs_is_presumed_with_what_it_trains() -> None:
    step = """
        from net import Net

        class Engine:
            def __init__(self):
                self.net = Net()

            def training_step(self, x):
                self.net(x).sum().backward()
    """
    found = regions({"net.py": NET, "step.py": step, "sign.py": SCALES})
    assert (found["Engine.training_step"], found["Net.forward"]) == (REGION, REGION)
    loop = "\nfor x in loader:\n    Engine().training_step(x)\n"
    called = {"net.py": NET, "step.py": textwrap.dedent(step) + loop, "sign.py": SCALES}
    found = regions(called)
    assert (found["Engine.training_step"], found["Net.forward"]) == (None, None)


def test_the_functions_that_users_call_on_numbers_are_presumed() -> None:
    program = """
        def dice_loss(prediction, target):
            return 1 - overlap(prediction, target)

        def overlap(prediction, target):
            return (prediction * target).sum()

        def distance(prediction, target):
            return (prediction - target).abs()

        def plot_loss(losses):
            return losses

        def make():
            def inner_loss(x):
                return x
            return inner_loss
    """
    found = regions({"a.py": program}, assumes=True)
    inside = {name for name, around in found.items() if around == REGION}
    assert inside == {"dice_loss", "overlap", "distance"}
    assert set(regions({"tests/a.py": program}, assumes=True).values()) == {None}


def test_a_call_of_a_test_does_not() -> None:
    use = "import torch\nfrom net import Net\nNet()(torch.ones(4))\n"
    assert regions({"net.py": NET, "tests/test_net.py": use}, assumes=True)["Net.forward"] == REGION


def test_a_function_of_autograd_is_in_none() -> None:
    program = """
        import torch

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
    """
    assert regions({"a.py": program}, assumes=True)["Twice.forward"] is None


def test_the_loss_of_any_class_is_presumed_and_no_other_method() -> None:
    program = """
        class Head:
            def loss(self, x):
                return x

            def forward(self, x):
                return x
    """
    found = regions({"a.py": program}, assumes=True)
    assert (found["Head.loss"], found["Head.forward"]) == (REGION, None)


def test_a_decorator_of_the_project_may_end_it() -> None:
    own = NET.replace("    def forward", "    @keep_float\n    def forward")
    own += "\n\ndef keep_float(function):\n    return function\n"
    assert regions({"a.py": own}, assumes=True)["Net.forward"] is None
    torchs = NET.replace("    def forward", "    @torch.jit.ignore\n    def forward")
    assert regions({"a.py": torchs}, assumes=True)["Net.forward"] == REGION


# ------------------------------------------------------------------------------ what is found

ATTENTION = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(4, 4)

    def forward(self, x, mask):
        scores = self.q(x) @ self.q(x).transpose(-2, -1)
        return scores.masked_fill(mask, -1e9).softmax(-1)
"""


def findings(tmp_path: Path, assumes: bool | str = AUTO, **files: str) -> list[Finding]:
    written = {f"{name}.py": text.encode() for name, text in files.items()}
    write(written, tmp_path)
    asked = request(written, tmp_path, select=("AMP3", "AMP8"))
    settings = replace(asked.settings, assume_autocast=assumes)
    return list(testing.checked(replace(asked, settings=settings)).findings)


def test_a_lambda_where_apex_is_initialized_is_no_fault(tmp_path: Path) -> None:
    """It becomes known while the functions of its file are gone through."""
    train = APEX.replace("{level}", "") + "    return sorted(loader, key=lambda each: -each)\n"
    assert findings(tmp_path, a="x = 1\n", train=train) == []


def test_a_finding_says_what_it_presumes_and_why(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, net=ATTENTION, train=SCALES)
    assert found.code == "AMP801"
    assert found.message.startswith("if this runs under autocast, as `train.py` suggests: `-1e9`")
    assert [each.path for each in found.related] == ["train.py"]
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE


def test_a_finding_in_a_region_that_is_seen_presumes_nothing(tmp_path: Path) -> None:
    use = """
from net import Attention

def use(x, mask):
    with torch.autocast("cuda", dtype=torch.float16):
        return Attention()(x, mask)
"""
    (found,) = findings(tmp_path, net=ATTENTION, train=SCALES + use)
    assert found.message.startswith("`-1e9`")


def test_the_settings_are_named_where_nothing_else_suggests_it(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, assumes=True, net=ATTENTION)
    assert found.message.startswith("if this runs under autocast, as the settings say: `-1e9`")
    assert not findings(tmp_path, net=ATTENTION)


DECOMPOSES = """
import torch
from torch import nn


class Whitens(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.linalg.qr(self.fc(x))
"""


def test_what_raises_is_told_where_the_settings_presume_a_region(tmp_path: Path) -> None:
    """And not where the project only shows that it trains so: who does would have seen it."""
    (found,) = findings(tmp_path, assumes=True, net=DECOMPOSES, train=SCALES)
    assert found.code == "AMP313"
    assert found.message.startswith("if this runs under autocast")
    assert not findings(tmp_path, net=DECOMPOSES, train=SCALES)


def test_what_is_presumed_is_a_warning_and_has_no_safe_fix(tmp_path: Path) -> None:
    """Whatever the group of the rule, and whatever the fix is where the region is seen."""
    casts = DECOMPOSES.replace("self.fc(x)", "self.fc(x).half()")
    opens = casts.replace("return", "with torch.autocast('cuda'): return")
    (seen,) = findings(tmp_path, net=opens)
    (presumed,) = findings(tmp_path, assumes=True, net=casts)
    assert seen.group is presumed.group is Group.CORRECTNESS
    assert (seen.severity, presumed.severity) == ("error", "warning")
    assert seen.fix is not None and seen.fix.safety is Safety.SAFE
    assert presumed.fix is not None and presumed.fix.safety is Safety.UNSAFE


def test_a_dtype_that_was_taken_from_another_tensor_is_presumed_too(tmp_path: Path) -> None:
    added = "(scores + (x > 2).to(scores.dtype) * -1e9)"
    text = ATTENTION.replace("scores.masked_fill(mask, -1e9)", added)
    (found,) = findings(tmp_path, net=text, train=SCALES)
    assert found.message.startswith("if this runs under autocast")


def test_rules_about_regions_themselves_do_not_speak_of_one_that_is_presumed(
    tmp_path: Path,
) -> None:
    step = """
import torch
from torch import nn


class Net(nn.Module):
    def training_step(self, x):
        p = torch.sigmoid(self.fc(x))
        loss = nn.functional.binary_cross_entropy(p, x)  # AMP305
        self.optimizer.zero_grad()
        loss.backward()  # AMP301
        self.optimizer.step()  # AMP303
        return loss
"""
    assert findings(tmp_path, net=step, train=SCALES) == []


# ------------------------------------------------------------------------------ edits


def test_a_sign_that_comes_or_goes_changes_what_is_in_memory() -> None:
    linker = LiveLinker()
    plain = {"net.py": NET, "train.py": "x = 1\n"}
    shown = {"net.py": NET, "train.py": "import torch\n\nx = torch.autocast('cuda')\n"}
    for files in (plain, shown, plain):
        indexed = Files({path: File(path, text) for path, text in files.items()})
        inference = linker.link(indexed, SILENT)
        assert inference.regions.inherited == solved(files).regions.inherited


def test_an_edit_that_makes_a_training_of_a_loop_ends_the_presumption() -> None:
    """Though every call is where it was."""
    linker = LiveLinker()
    loop = """
        import torch
        from net import Net

        net = Net()

        def run(loader):
            torch.autocast("cuda")
            for x in loader:
                loss = net(x).sum()
                report(loss)

        def report(loss):
            loss.item()
    """
    plain = {"net.py": NET, "train.py": textwrap.dedent(loop)}
    trains = {**plain, "train.py": plain["train.py"].replace("loss.item()", "loss.backward()")}
    outcomes = []
    for files in (plain, trains, plain):
        indexed = Files({path: File(path, text) for path, text in files.items()})
        inference = linker.link(indexed, SILENT)
        assert inference.regions.inherited == solved(files).regions.inherited
        outcomes.append(inference.regions.inherited.get("net.py::Net.forward") is not None)
    assert outcomes == [True, False, True]


def test_settings_that_presume_a_region_whoever_calls_link_anew() -> None:
    """Though the region is the one that the project shows."""
    linker = LiveLinker()
    for wished in (None, True, None):
        indexed = {"net.py": File("net.py", NET), "use.py": File("use.py", TRAINED + SCALES)}
        files = Files(indexed, presumes=presumes(wished))
        found = linker.link(files, SILENT).regions.inherited.get("net.py::Net.forward")
        assert found == (REGION if wished else None)
