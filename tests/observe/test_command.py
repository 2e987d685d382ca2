"""`amplint observe`, as a user runs it; and what users name that cannot be run, or does not end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint_verify.backends.choice import BACKENDS
from amplint_verify.observing.claims import CLAIMS
from tests.command import Amplint
from tests.helpers import write

PROGRAM = b"""\
import ctypes
import os
import sys
import time

import torch
from torch import nn


def step(model, optimizer, x):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    return loss


def train(steps=4, fails_in=None):
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(steps):
        loss = step(model, optimizer, torch.ones(2, 4, device="cuda"))
        loss.item()
        if number == fails_in:
            raise ValueError("so it is")


def fails():
    print(*range(20), sep="\\n")
    train(fails_in=2)


def fails_on_the_device():
    print("on", torch.ones(2, device="cuda").device)
    train(fails_in=2 if torch.ones(2, device="cuda").is_cuda else None)


def chooses():
    dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    with torch.autocast("cuda", dtype=dtype):
        nn.Linear(4, 1).cuda()(torch.ones(2, 4, device="cuda"))


def hangs():
    train()
    while True:
        time.sleep(0.1)


def never_ends():
    train(steps=10**9)


def exits():
    sys.exit(3)


def is_killed():
    ctypes.string_at(0)


def forks():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    train()


def writes():
    with open(os.environ["ORIGINAL"] + "/train.py", "w") as file:
        file.write("nothing")


def takes(memory):
    return torch.empty(memory)


def is_large():
    model = nn.Linear(1 << 16, 1 << 19, bias=False, device="cuda")  # 128 GiB
    return model(torch.ones(2, 1 << 16, device="cuda"))


def has_workers():
    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, row):
            return torch.ones(4)

    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2):
        step(model, optimizer, x.cuda()).item()


def imports():
    import kernels_of_ours


if __name__ == "__main__":
    train(int(sys.argv[1]))
"""
ROW = PROGRAM[: PROGRAM.index(b"loss.item()")].count(b"\n") + 1
READ = f"train.py:{ROW}:9: AMP101 host-read-in-hot-path: `loss.item()` made the host wait"
LISTED = ("--format", "concise", "--backend", "sim")


@pytest.fixture
def amplint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Amplint:
    files = {"train.py": PROGRAM, "pyproject.toml": b""}
    monkeypatch.chdir(write(files, tmp_path / "project"))
    monkeypatch.setenv("ORIGINAL", str(Path.cwd()))
    return Amplint(capfd)


def test_a_mistake_is_one_finding_with_a_count(amplint: Amplint) -> None:
    ran = amplint("observe", ".", *LISTED, "--entry", "train:train")
    assert (ran.status, ran.out) == (1, f"{READ} (4 times in 4 steps)\n")
    assert ran.err.startswith("amplint: runs `train:train()` in a copy of ")
    assert "this runs your code with your user rights" in ran.err
    assert "saw 4 steps of training on sim" in ran.err
    assert Path("train.py").read_bytes() == PROGRAM
    assert {path.name for path in Path().iterdir()} <= {
        ".amplint_cache",
        "pyproject.toml",
        "train.py",
    }


def test_a_script_its_arguments_and_a_bound_on_steps(amplint: Amplint) -> None:
    ran = amplint("observe", *LISTED, "--steps", "5", "--script", "train.py", "1000000000")
    assert (ran.status, ran.out) == (1, f"{READ} (4 times in 5 steps)\n")


def test_tests_are_run(amplint: Amplint) -> None:
    Path("test_train.py").write_text("from train import train\n\n\ndef test():\n    train()\n")
    ran = amplint("observe", *LISTED, "--pytest")
    assert (ran.status, ran.out) == (1, f"{READ} (4 times in 4 steps)\n")


def test_the_chain_of_calls_and_the_fix_of_check(amplint: Amplint) -> None:
    ran = amplint("observe", "--backend", "sim", "--script", "train.py", "3")
    assert "called here" in ran.out
    assert ran.status == 1


@pytest.mark.parametrize("format_", ["json", "sarif", "github", "html", "junit", "text"])
def test_reports_are_those_of_check(amplint: Amplint, format_: str) -> None:
    ran = amplint(
        "observe", "-q", "--format", format_, "--backend", "sim", "--entry", "train:train"
    )
    assert ran.status == 1
    assert "AMP101" in ran.out
    if format_ == "json":
        [found] = json.loads(ran.out)
        assert (found["code"], found["location"]["row"]) == ("AMP101", ROW)


def test_settings_comments_and_the_baseline_hold(amplint: Amplint) -> None:
    entry = ("--backend", "sim", "--entry", "train:train")
    assert amplint("observe", "--ignore", "AMP101", *entry).status == 0
    assert amplint("observe", "--select", "AMP301", *entry).status == 0
    text = PROGRAM.replace(b"loss.item()", b"loss.item()  # amplint: ignore[AMP101] it is short")
    Path("train.py").write_bytes(text)
    assert amplint("observe", *entry).status == 0
    Path("train.py").write_bytes(PROGRAM)
    assert amplint("baseline").status == 0
    assert amplint("observe", *entry).status == 0
    assert amplint("observe", "--no-baseline", *entry).status == 1
    ran = amplint("observe", "--backend", "sim", "--entry", "train:is_large")
    assert ran.status == 0
    assert "fixed" not in ran.err  # that it did not happen here does not mean that


UNTIL = "what was seen until then"
BAD = {
    "fails": (READ, "the program raised ValueError at train.py:24: so it is"),
    "hangs": (READ, "the program was stopped: no end within 6 s"),
    "never_ends": (READ, "the program was stopped: no end within 6 s"),
    "exits": ("", "the program exited with 3"),
    "is_killed": ("", "the program was killed by SIGSEGV"),
    "writes": ("", "PermissionError"),
    "takes": ("", "cannot be called: missing a required argument: 'memory'; --inputs can say"),
    "imports": ("", "No module named 'kernels_of_ours'"),
    "is_missing": ("", "there is no 'train:is_missing'"),
}


@pytest.mark.parametrize("entry", BAD)
def test_what_does_not_end_well(amplint: Amplint, entry: str) -> None:
    found, said = BAD[entry]
    ran = amplint("observe", *LISTED, "--timeout", "6", "--entry", f"train:{entry}")
    assert ran.status == 2
    assert ran.out.startswith(found)
    assert said in ran.err
    assert len([line for line in ran.err.splitlines() if "error" in line]) == 1
    assert "Traceback" not in ran.err
    assert Path("train.py").read_bytes() == PROGRAM


def test_what_a_program_printed_last_is_shown(amplint: Amplint) -> None:
    ran = amplint("observe", *LISTED, "--entry", "train:fails")
    last = "".join(f"\n    {number}" for number in range(12, 20))
    assert f"amplint: on sim the program printed last:{last}\n" in ran.err
    assert "printed last" not in amplint("observe", *LISTED, "--entry", "train:train").err


def test_where_one_back_end_fails_that_is_said_first(amplint: Amplint) -> None:
    ran = amplint("observe", "--format", "concise", "--entry", "train:fails_on_the_device")
    first, printed, on, *_ = ran.err.splitlines()[2:]
    assert first == "amplint: on sim the program ended early, after 3 steps; policy saw all 4 steps"
    assert (printed, on) == ("amplint: on sim the program printed last:", "    on cuda:0")
    assert ran.status == 2


def test_a_dtype_that_is_not_chosen_is_not_seen(amplint: Amplint) -> None:
    unseen = "this run used bfloat16 only: float16 was not seen"
    assert unseen in amplint("observe", *LISTED, "--entry", "train:chooses").err
    assert unseen not in amplint("observe", *LISTED, "--entry", "train:train").err


@pytest.mark.parametrize("entry", ["forks", "has_workers", "is_large"])
def test_what_a_simulation_can_bear(amplint: Amplint, entry: str) -> None:
    ran = amplint("observe", *LISTED, "--entry", f"train:{entry}")
    assert ran.status == (entry != "is_large"), ran.err


def test_what_to_run_has_to_be_said(amplint: Amplint) -> None:
    assert "say what to run" in amplint("observe").err
    assert amplint("observe", "--steps", "2", "--pytest").status == 2


def test_without_torch_it_is_said_what_to_install(
    amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    ran = amplint("observe", ".", "--entry", "train:train")
    assert ran.status == 2
    assert "observe needs torch: pip install torch numpy" in ran.err


def test_claims_are_of_back_ends_that_there_are() -> None:
    assert {name for claim in CLAIMS.values() for name in claim.backends} <= BACKENDS.keys()
