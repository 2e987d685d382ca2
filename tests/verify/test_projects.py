"""`amplint verify PATH` and `amplint fix --apply --verify`, as a user runs them."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.cli import main as cli
from amplint.cli import options
from amplint_verify import projects
from amplint_verify.backends.choice import AUTO, BACKENDS
from amplint_verify.compare import verdict
from amplint_verify.runs.launcher import OF_ONE_PROCESS
from tests.command import Amplint
from tests.helpers import ROOT, write

PROGRAM = b"""\
import torch


def scale(h):
    return h * torch.zeros(1, 4).to(h.device)


def main():
    model = torch.nn.Linear(8, 4).cuda()
    x = torch.randn(6, 8).to("cuda")
    with torch.cuda.amp.autocast():
        h = model(x)
    return scale(h), torch.rand(3).cuda()
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {"tool/train.py": PROGRAM, "pyproject.toml": b"", "pkg/__init__.py": b""}
    monkeypatch.chdir(write(files, tmp_path / "project"))
    return Path.cwd()


def test_verdicts_of_a_project(amplint: Amplint, project: Path) -> None:
    status, out, err = amplint(
        "verify", ".", "--unsafe", "--entry", "train:main", "--report", "../out"
    )
    assert status == 0
    assert "tool/train.py:11:10: AMP701 exact (safe fix: Use `torch.amp.autocast`)" in out
    assert "AMP501 other random numbers" in out
    assert "runs `train:main()` in copies of" in err.splitlines()[0]
    assert "this runs your code with your user rights" in err
    assert (project / "tool/train.py").read_bytes() == PROGRAM
    assert sorted(path.name for path in (project.parent / "out").iterdir()) == [
        "verify.html",
        "verify.json",
    ]


def test_json(amplint: Amplint) -> None:
    # A script that only defines functions.
    arguments = ["--format", "json", "--backend", "policy", "--script", "tool/train.py"]
    ran = amplint("verify", "tool", *arguments)
    assert ran.status == 3
    data = json.loads(ran.out)
    assert {fix["verdict"] for fix in data["fixes"]} == {"not-executed"}
    assert list(data["backends"]) == ["policy"]
    assert "devices" in data["not checked"]


def test_the_cells_of_a_notebook_are_not_run(amplint: Amplint, project: Path) -> None:
    cell = {"cell_type": "code", "source": "import torch\nwith torch.cuda.amp.autocast(): ..."}
    (project / "a.ipynb").write_text(json.dumps({"cells": [cell], "nbformat": 4}))
    arguments = ["verify", ".", "--entry", "train:main", "--backend", "policy"]
    ran = amplint(*arguments, "--select", "AMP701")
    assert ran.status == 3
    assert ran.out.startswith(
        "a.ipynb:cell 1:2:6: AMP701 not-executed (safe fix: Use `torch.amp.autocast`)\n"
        "    the cells of notebooks are not run\n"
    )


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (["--script", "tool/train.py", "--epochs", "1"], "python tool/train.py --epochs 1"),
        (["--script", "tool/train.py", "--", "--epochs", "1"], "python tool/train.py --epochs 1"),
        (["--script", "tool/train.py", "--steps", "3", "--", "a"], "python tool/train.py a"),
        (["--pytest", "-k", "small", "tests"], "pytest -k small tests"),
        (["--script", "tool/train.py -v", "--", "-x"], "python tool/train.py -v -x"),
        (["--pytest", "--", "-k", "a or b"], "pytest -k 'a or b'"),
        (["--pytest", "tests", "--", "--", "-x"], "pytest tests -- -x"),
        (["--pytest=tests"], "pytest tests"),
    ],
)
def test_arguments_of_the_program(
    arguments: list[str],
    program: str,
    amplint: Amplint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What follows is the program's, whatever it looks like; with `--`, what stands behind that."""
    seen = []

    def verify(_: object, given: projects.Options, *__: object) -> int:
        seen.append(str(given.program))
        return 0

    monkeypatch.setattr(projects, "verify", verify)
    ran = amplint("verify", ".", "--backend", "cpu", *arguments)
    assert ran.status == 0, ran.err
    assert seen == [program]


def test_fix_writes_what_is_verified(amplint: Amplint, project: Path) -> None:
    """`spare` is never run, so that its fix stays unwritten and is reported as left."""
    spare = PROGRAM + b"\n\ndef spare():\n    with torch.cuda.amp.autocast():\n        pass\n"
    (project / "tool/train.py").write_bytes(spare)
    options = ["--select", "AMP701", "--backend", "policy", "--entry", "train:main"]
    status, out, err = amplint("fix", ".", "--apply", "--verify", *options)
    assert status == 1
    assert "AMP701 not-executed" in err
    assert "tool/train.py:17:10" in out and "tool/train.py:11:10" not in out
    text = (project / "tool/train.py").read_text()
    assert 'with torch.amp.autocast("cuda"):\n        h = model(x)' in text
    assert "with torch.cuda.amp.autocast():\n        pass" in text
    assert err.splitlines()[-1] == "fixed 1 finding in 1 file"


def test_nothing_to_verify(amplint: Amplint, project: Path) -> None:
    """Then nothing is run either: there is no such entry, and nobody finds out."""
    (project / "tool/train.py").write_text("def main():\n    return 1\n")
    ran = amplint("verify", ".", "--entry", "train:nothing", "--backend", "cpu")
    assert ran.status == 0
    assert ran.out.strip() == "there is nothing to verify"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--entry", "train:nothing"], "amplint: error: there is no 'train:nothing'"),
        (["--entry", "train:scale"], "cannot be called: missing a required argument: 'h'"),
        (["--pytest=nowhere.py"], "file or directory not found: nowhere.py"),
        (["nowhere", "--entry", "train:main"], "nowhere: there is no such file or directory"),
        (["--entry", "train:main", "--report", "pyproject.toml/x"], "no report can be written to"),
    ],
)
def test_what_a_user_has_to_mend(
    arguments: list[str], message: str, amplint: Amplint, project: Path
) -> None:
    status, out, err = amplint("verify", ".", "--backend", "policy", *arguments)
    assert status == 2
    assert message in err and not out
    assert "Traceback" not in err
    assert (project / "tool/train.py").read_bytes() == PROGRAM


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('os.environ["LOCAL_RANK"]', "LOCAL_RANK is not set"),
        ('int(os.environ.get("RANK"))', "RANK is not set"),
        ('int(os.getenv("WORLD_SIZE"))', "WORLD_SIZE is not set"),
        ('torch.distributed.init_process_group("gloo")', "RANK is not set"),
        ('os.environ["OTHER"]', None),
        ('{"1": 2}["LOCAL_RANKS"]', None),
    ],
)
def test_a_script_under_no_launcher(
    line: str,
    told: str | None,
    project: Path,
    amplint: Amplint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in OF_ONE_PROCESS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    script = PROGRAM.decode().replace("import torch\n", f"import os\nimport torch\n{line}\n", 1)
    (project / "tool/train.py").write_text(script)
    arguments = ["verify", ".", "--backend", "policy", "--script", "tool/train.py"]
    status, out, err = amplint(*arguments)
    if told is None:
        assert status == 3 and "both programs raise KeyError at tool/train.py:3" in out
        return
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == (
        f"amplint: error: `python tool/train.py` cannot be started: {told}, which a launcher such "
        "as torchrun sets (tool/train.py:3); to run it as one process, put this before `amplint`: "
        "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1 MASTER_PORT=29500"
    )


LOADER = """
import torch
from torch.utils.data import DataLoader

def collate(batch):
    return torch.stack(batch).cuda()

def main():
    loader = DataLoader(torch.ones(4, 8).unbind(), 2, num_workers=1, collate_fn=collate)
    model = torch.nn.Linear(8, 1).cuda()
    for x in loader:
        with torch.cuda.amp.autocast():
            out = model(x)
    return out
"""


def test_cuda_in_a_worker_of_a_loader(amplint: Amplint, project: Path) -> None:
    """As on a GPU, whose driver no forked process may use; `sim` hung until the time limit, and
    all was well on `policy`."""
    (project / "tool/train.py").write_text(LOADER)
    status, out, _ = amplint("verify", ".", "--entry", "train:main", "--select", "AMP701")
    assert status == 3
    assert "AMP701 inconclusive" in out
    assert (
        "both programs raise RuntimeError at tool/train.py:6: Cannot re-initialize CUDA in forked "
        "subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method (in "
        "DataLoader worker process 0)" in out
    )


def test_cuda_in_workers_alone_cannot_be_simulated(amplint: Amplint, project: Path) -> None:
    """A GPU would let the workers, for nobody has used it before. What `sim` has in place of a
    tensor cannot be sent from one process to another."""
    moved = LOADER.replace("Linear(8, 1).cuda()", "Linear(8, 1)")
    (project / "tool/train.py").write_text(moved)
    assert (
        "sim: inconclusive, this cannot be simulated: a tensor on the GPU in another process, such "
        "as a worker of a DataLoader"
    ) in amplint("verify", ".", "--entry", "train:main", "--select", "AMP701").out


def test_nothing_is_said_of_a_program_that_comes_to_no_end(amplint: Amplint, project: Path) -> None:
    """Whatever the other back end says; and it is not run again with its fixes."""
    hang = PROGRAM.decode().replace(
        "def main():\n",
        "def main():\n    import time\n"
        "    while type(torch.ones(2, device='cuda')) is not torch.Tensor: time.sleep(1)\n",
    )
    (project / "tool/train.py").write_text(hang)
    start = time.monotonic()
    arguments = ["verify", ".", "--entry", "train:main", "--select", "AMP701", "--timeout", "6"]
    status, out, _ = amplint(*arguments)
    assert status == 3
    assert time.monotonic() - start < 36  # each guess once, and not four times
    assert "AMP701 inconclusive" in out
    assert "the original exceeds the time limit on sim: --timeout allows more" in out
    assert "host waits" not in out


def test_program_that_fails_by_itself(amplint: Amplint, project: Path) -> None:
    """Of no fix anything can be said, for one reason, which is told once."""
    broken = PROGRAM + b"\n\ndef broken():\n    raise OSError('no data')\n"
    (project / "tool/train.py").write_bytes(broken)
    status, out, _ = amplint("verify", ".", "--backend", "policy", "--entry", "train:broken")
    assert status == 3
    assert out.count("inconclusive (safe fix") == 2
    assert out.count("both programs raise OSError at tool/train.py:17: no data") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "2"], "say what to run"),
        (["--inputs", "a:b"], "say what to run"),
        (["--format", "json"], "say what to run"),
        (["--entry", "train:main", "--pytest="], "one of --entry, --script and --pytest"),
        (["--entry", "train"], "'train' names no function"),
        (["--entry", "tr-ain:main"], "is not of the form package.module:function"),
        (["--steps", "2", "--pytest"], "--steps cannot be combined with --pytest"),
        (["--inputs", "a:b", "--script", "train.py"], "--inputs needs --entry"),
        (["--bench", "--pytest"], "--bench cannot be combined with --pytest"),
        (["--self-test", "--bench"], "--bench needs --rules, --entry or --script"),
        (["--entry", "train:main", "--batch-sizes", "8"], "--batch-sizes needs --bench"),
        (["--entry", "a:b", "--bench", "--batch-sizes", "8,0"], "'8,0' is not of the form 8,16,32"),
        (["--entry", "a:b", "--bench", "--batch-sizes", "x"], "'x' is not of the form 8,16,32"),
        (["--entry", "a:b", "--format", "markdown"], "--format markdown needs --rules"),
        (["--script", "nowhere.py"], "there is no script 'nowhere.py'"),
        (["--script", cli.__file__], "is not in"),
        (["--entry", "a:b", "--backend", "cuda"], "torch sees no CUDA GPU"),
        (["--entry", "a:b", "--timeout", "0"], "not in the range"),
        (["--entry", "a:b", "-"], "cannot be combined with other paths"),
    ],
)
def test_usage(arguments: list[str], message: str, amplint: Amplint) -> None:
    import torch  # noqa: PLC0415

    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    ran = amplint("verify", ".", *arguments)
    assert ran.status == 2
    assert message in " ".join(ran.err.split())


def test_bench_of_a_project(amplint: Amplint, project: Path) -> None:
    """Of the original and of all good fixes: one of five waits is gone."""
    options = ["--backend", "sim", "--backend", "policy", "--select", "AMP501", "--bench"]
    status, out, _ = amplint("verify", ".", "--entry", "train:main", *options, "--report", "../out")
    assert status == 0
    assert (
        "train:main() on sim, bf16: waits of the host 5 -> 4; bytes to the device 364 -> 348" in out
    )
    assert "train:main() on policy, fp16: most bytes in tensors" in out
    assert "not checked: time\n" in out
    data = json.loads((project.parent / "out/verify.json").read_text())
    assert [(point["backend"], point["precision"]) for point in data["bench"]] == [
        (backend, precision)
        for backend in ("sim", "policy")
        for precision in ("fp32", "fp16", "bf16")
    ]
    assert data["bench"][1]["before"] == {"steps": 0, "waits": 5, "to_device": 364, "peak": None}
    page = (project.parent / "out/verify.html").read_text()
    assert "waits of the host per step, on sim" in page
    assert "time per step: not measured: sim, policy does not show it." in page


def test_usage_of_fix(amplint: Amplint, project: Path) -> None:
    ran = amplint("fix", ".", "--verify", "--entry", "train:main")
    assert ran.status == 2
    assert "--verify needs --apply" in ran.err
    ran = amplint("fix", ".", "--apply", "--entry", "train:main")
    assert ran.status == 2
    assert "--entry, --script and --pytest need --verify" in ran.err
    assert (project / "tool/train.py").read_bytes() == PROGRAM


def test_back_ends_of_the_command_line() -> None:
    """They are repeated there, so that `amplint --help` imports nothing of the harness."""
    assert (AUTO, *BACKENDS) == options.WHERE


def test_an_error_names_the_finding_to_fix_first(amplint: Amplint, project: Path) -> None:
    """The loss raises under autocast, before and after: the finding that says so is named."""
    banned = (
        PROGRAM
        + b"""

def banned():
    x = torch.zeros(4).to("cuda")
    with torch.autocast("cuda"):
        return torch.nn.functional.binary_cross_entropy(x, x)
"""
    )
    (project / "tool/train.py").write_bytes(banned)
    arguments = ["verify", ".", "--backend", "policy", "--entry", "train:banned"]
    status, out, _ = amplint(*arguments, "--ignore", "AMP701")
    assert status == 3
    assert "are unsafe to autocast; fix AMP304 at tool/train.py:19 first: use `binary_" in out
    assert "first operations that are not the same" not in out

    ran = amplint(*arguments, "--select", "AMP501")
    assert ran.status == 3
    assert "no finding explains this error: fix it first" in ran.out


def test_what_an_error_hid_is_verified_once_it_is_fixed(amplint: Amplint, project: Path) -> None:
    text = """
import torch

def main():
    model = torch.nn.Linear(2, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0)
    for _ in range(2):
        scaler.scale(model(torch.ones(3, 2).to("cuda")).mean()).backward()
        scaler.unscale_(optimizer)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
"""
    (project / "tool/train.py").write_text(text)
    status, out, _ = amplint("verify", ".", "--entry", "train:main")
    assert status == 0
    assert "train.py:11:9: AMP405 improved (safe fix: Unscale once)" in out
    assert "train.py:9:28: AMP501 exact (safe fix: Create the tensor on the device)" in out
    assert "1 exact, 1 improved\nnot checked" in out  # of a run that ended early, no waits are told


def test_a_fix_that_changes_the_training(amplint: Amplint, project: Path) -> None:
    text = """
import torch

def main():
    model = torch.nn.Linear(2, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=64.0)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(model(torch.ones(3, 2, device="cuda")).pow(2).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
    (project / "tool/train.py").write_text(text)
    arguments = ["verify", ".", "--unsafe", "--entry", "train:main", "--format", "json"]
    ran = amplint(*arguments)
    assert ran.status == 0
    (fix,) = json.loads(ran.out)["fixes"]
    assert (fix["code"], fix["verdict"], fix["good"]) == ("AMP404", "declared-change", True)
    assert fix["words"] == "changed, as the rule says it must"
    shown = re.compile(r"Linear\.weight: float32\[\S+\]@cpu: values differ \(by \S+ at \[")
    assert any(map(shown.match, fix["differences"])), fix["differences"]


def test_pytest_that_is_missing_is_said_to_be(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "pytest.py").write_text("raise ModuleNotFoundError('no pytest')\n")
    monkeypatch.setenv("PYTHONPATH", f"{project}:{ROOT}")
    ran = amplint("verify", ".", "--backend", "policy", "--pytest")
    assert ran.status == 2
    assert "--pytest needs pytest, which is not installed here" in ran.err


def test_the_definitions_stand_in_the_documentation_and_in_help(
    amplint: Amplint,
) -> None:
    page = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    begin = "<!-- the table of amplint_verify/compare/verdict.py -->\n"
    end = "<!-- end of the verdicts -->"
    assert page.partition(begin)[2].partition(end)[0] == verdict.table()
    ran = amplint("verify", "--help")
    assert ran.status == 0
    shown = " ".join(ran.out.split())
    for meaning in verdict.MEANINGS.values():
        assert f"{meaning.words}: {meaning.text}" in shown
