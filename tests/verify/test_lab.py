"""Fixes that are wrong on purpose, one for each way to be wrong: every one is caught.

Each program is run for real, on the simulation of CUDA and on CUDA's policy with values.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch")

from amplint.findings.declaration import Change
from amplint_verify.backends.choice import BACKENDS
from amplint_verify.compare.lab import Lab, Verified, verify
from amplint_verify.compare.verdicts import Verdict
from amplint_verify.runs.drivers import StartKind, UserProgram
from tests.helpers import programs
from tests.verify import wrong


def laboratory(
    directory: Path,
    runner: Any,
    program: UserProgram,
    backends: str = "sim policy",
    seconds: float = 60,
) -> Lab:
    """A lab for the project in the directory `tree` below this one."""
    (directory / "lab").mkdir()
    return Lab(
        root=directory / "tree",
        files=(),
        encode=lambda _, text: text.encode(),
        program=program,
        backends=[BACKENDS[name] for name in backends.split()],
        directory=directory / "lab",
        run=runner.run,
        seconds=seconds,
        memory=2 << 30,
    )


def verified(main: str, directory: Path, runner: Any, **given: Any) -> Verified:
    """Verify the fixes of a program, the body of whose function is given."""
    text = HEAD + textwrap.indent(textwrap.dedent(main).strip(), "    ") + "\n"
    request = wrong.request({"train.py": text.encode()}, directory / "tree")
    program = UserProgram(StartKind.ENTRY, "train:main")
    return verify(request, True, laboratory(directory, runner, program, **given))


HEAD = """\
import os
import random
import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(x)


def unused(x):
    # wrong: return torch.sigmoid(x)
    return torch.relu(x)


def main():
    model = Net().cuda()
    x = torch.randn(6, 8, device="cuda")
    with torch.autocast("cuda"):
        h = model(x)
"""


class Case(NamedTuple):
    """A program with one fix that runs.

    Args:
        body: of `main`, after `h` is there, which is float16.
        verdict: what has to be found.
        good: whether the fix may be written.
        reason: a part of why.
    """

    body: str
    verdict: Verdict
    good: bool
    reason: str


# Name, verdict, whether the fix is good, and a part of the reason; below it, the program.
PROGRAMS = """
nothing | EXACT, good
    # wrong: z = torch.zeros(6, 4, dtype=h.dtype, device="cuda")
    z = torch.zeros(6, 4, dtype=h.dtype).to("cuda")
    return h + z
dtype | DIFFERS | result: dtype float32 -> float16
    # wrong: z = h.new_zeros(6, 4)
    z = torch.zeros(6, 4, device=h.device)
    return h + z
dtype on the way | DIFFERS | aten.mul.Tensor at train.py
    # wrong: z = h.clone()
    z = h.float()
    z = z * 0
    return z.float().sum().item()
value | DIFFERS | result: value
    # wrong: z = h * 0.501
    z = h * 0.5
    return z.float().sum()
gradient | DIFFERS | Net.fc.weight: float32[4x8]@cpu: values differ (by 0.793 at [2, 1]
    # wrong: loss = (h.float() * h.float().detach()).sum()
    loss = h.float().pow(2).sum()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss.backward()
    optimizer.step()
wait | DIFFERS | the host waits 3 times instead of 2
    # wrong: total = h.detach().float().sum(); total.item()
    total = h.detach().float().sum()
    return total
random numbers | STREAM_CHANGED | other random numbers; otherwise exact
    # wrong: noise = torch.rand(6, 4, generator=torch.Generator().manual_seed(1))
    noise = torch.rand(6, 4)
    return noise * 2
random numbers later | STREAM_CHANGED | other random numbers; the results are equal
    # wrong: z = torch.rand(3) * 0
    z = torch.zeros(3)
    return z
another device's random numbers | STREAM_CHANGED, good
| the generator of cuda instead of that of cpu
    # unsafe: noise = torch.rand(6, 4, device="cuda")
    noise = torch.rand(6, 4).cuda()
    return noise * 2
exception | CRASHES | the fixed program raises RuntimeError
    # wrong: z = torch.ones(5, device="cuda")
    z = torch.ones(4, device="cuda")
    return h + z
dtypes that real kernels do not take | CRASHES | expected m1 and m2 to have the same dtype
    # wrong: w = torch.ones(4, 2, device="cuda")
    w = torch.ones(4, 2, device="cuda", dtype=torch.half)
    return torch.mm(h.detach(), w)
another device | CRASHES | device
    # wrong: z = torch.ones(4)
    z = torch.ones(4, device="cuda")
    return h + z
segmentation fault | CRASHES | SIGABRT
    # wrong: z = h + 1; os.abort()
    z = h + 1
    return z
exit | CRASHES | without a result
    # wrong: z = h + 1; os._exit(0)
    z = h + 1
    return z
memory | CRASHES | MemoryError
    # wrong: z = h + 1; junk = bytearray(64 << 30)
    z = h + 1
    return z
flood of output | EXACT, good
    # wrong: z = h + 1 if print("x" * (64 << 20)) is None else h
    z = h + 1
    return z
system exit | CRASHES | the program exited with 'enough'
    # wrong: z = h + 1; raise SystemExit("enough")
    z = h + 1
    return z
original differs from itself | INCONCLUSIVE | the original differs from itself
    # wrong: z = 1 + h
    z = h + 1
    return z.float() * random.SystemRandom().random() + time.time_ns() % 99991
original cannot run | INCONCLUSIVE | both programs raise ValueError at train.py:30: no data
    # wrong: z = h + 2
    z = h + 1
    raise ValueError("no data")
original raises at the line | IMPROVED, good | the fixed program runs
    # wrong: z = torch.mm(h.float(), h.detach().t().float())
    z = torch.mm(h.float(), h.detach().t())
    return z
declared dtype | DECLARED_CHANGE, good | equal after the declared cast
    # unsafe: z = torch.zeros(6, 4, device=h.device, dtype=h.dtype)
    z = torch.zeros(6, 4, device=h.device)
    return h + z
declared dtype and a wrong value | DIFFERS | the error was
    # unsafe: z = torch.full((6, 4), 0.1, device=h.device, dtype=h.dtype)
    z = torch.zeros(6, 4, device=h.device)
    return h + z
rounding | IMPROVED, good | no further from a float64 reference
    # unsafe: total = float(x.sin().sum())
    total = sum(float(each) for each in x.sin().flatten())
    return total
training | DECLARED_CHANGE, good | loss 1 of backward(): value
    # training: loss = h.float().pow(2).sum() * 2
    loss = h.float().pow(2).sum()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss.backward()
    optimizer.step()
training that waits for its step | DECLARED_CHANGE, good
| Net.fc.weight: float32[4x8]@cpu: values differ (by 1.59 at [2, 1]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0)
    scaler.scale(h.float().pow(2).sum()).backward()
    # training: scaler.step(optimizer)
    optimizer.step()
    scaler.unscale_(optimizer) if not scaler._per_optimizer_states else None
training with another dtype | DIFFERS | loss 1 of backward(): dtype float32 -> float64
    # training: loss = h.float().pow(2).sum().double() * 2
    loss = h.float().pow(2).sum()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss.backward()
    optimizer.step()
training by a rule that does not say so | DIFFERS | loss 1 of backward(): value
    # wrong: loss = h.float().pow(2).sum() * 2
    loss = h.float().pow(2).sum()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss.backward()
    optimizer.step()
rounding that is worse | DIFFERS | the error was
    # unsafe: total = sum(torch.ones(400, device=h.device).bfloat16().unbind())
    total = torch.ones(400, device=h.device).sum()
    return float(total)
"""


def case(name: str, verdict: str, reason: str = "", *, body: str) -> tuple[str, Case]:
    verdict, _, good = verdict.partition(", ")
    return name, Case(body, Verdict[verdict], bool(good), reason)


CASES = dict(case(*told, body=body) for told, body in programs(PROGRAMS))


@pytest.mark.parametrize("name", CASES)
def test_wrong_fix(name: str, tmp_path: Path, runner: Any) -> None:
    """The fix that runs has its verdict, and the one in a function that nothing calls has none."""
    case = CASES[name]
    fixes = verified(case.body, tmp_path, runner).judged
    # The comment stays, so that a further round finds the statement again: the first one counts.
    by_row = {each.finding.span.start.row: each for each in reversed(fixes)}
    unused, used = (by_row[row] for row in sorted(by_row))
    judgement = used.judgement
    assert judgement.verdict is case.verdict, judgement
    assert case.reason in judgement.reason
    assert judgement.good == case.good
    assert not unused.judgement.good


def test_line_that_does_not_run(tmp_path: Path, runner: Any) -> None:
    (unused,) = verified("return h", tmp_path, runner).judged
    assert unused.judgement.verdict is Verdict.NOT_EXECUTED
    assert unused.judgement.reason == (
        "what is edited of `return torch.relu(x)` did not run (train.py:20)"
    )


def test_hang(tmp_path: Path, runner: Any) -> None:
    body = """
    # wrong: z = h + 1; time.sleep(60)
    z = h + 1
    return z
    """
    _, used = verified(body, tmp_path, runner, backends="policy", seconds=5).judged
    assert used.judgement.verdict is Verdict.CRASHES
    assert used.judgement.reason == "the fixed program exceeds the time limit"


def test_one_bad_fix_among_good_ones(tmp_path: Path, runner: Any) -> None:
    """The good ones keep their verdicts and are kept; the text holds them and not the bad one."""
    body = """
    # wrong: a = h + torch.zeros(4, device="cuda")
    a = h + torch.zeros(4).cuda()
    # wrong: b = a * 3
    b = a * 2
    # wrong: c = b + torch.ones(4, device="cuda")
    c = b + torch.ones(4).cuda()
    return c
    """
    found = verified(body, tmp_path, runner)
    by_row = {each.finding.span.start.row: each.judgement.verdict for each in found.judged}
    assert by_row == {
        20: Verdict.NOT_EXECUTED,
        29: Verdict.EXACT,
        31: Verdict.DIFFERS,
        33: Verdict.EXACT,
    }
    lines = found.texts["train.py"].splitlines()
    assert [lines[row - 1].strip() for row in (29, 31, 33)] == [
        'a = h + torch.zeros(4, device="cuda")',
        "b = a * 2",
        'c = b + torch.ones(4, device="cuda")',
    ]


def test_simulation_flags_what_its_kernels_let_pass(tmp_path: Path, runner: Any) -> None:
    body = CASES["dtypes that real kernels do not take"].body
    _, used = verified(body, tmp_path, runner, backends="sim").judged
    assert used.judgement.verdict is Verdict.CRASHES
    assert used.judgement.reason == (
        "aten.mm.default of float16 and float32 at train.py:30 raises with real kernels"
    )


def test_undeclared_change_is_named(tmp_path: Path, runner: Any) -> None:
    _, used = verified(CASES["random numbers"].body, tmp_path, runner, backends="policy").judged
    assert used.judgement.undeclared is Change.STREAM


def test_simulation_alone_proves_no_values(tmp_path: Path, runner: Any) -> None:
    _, used = verified(CASES["nothing"].body, tmp_path, runner, backends="sim").judged
    assert used.by_backend["sim"].verdict is Verdict.EXACT
    assert used.judgement.verdict is Verdict.INCONCLUSIVE


def test_nothing_in_the_tree_is_written(tmp_path: Path, runner: Any) -> None:
    """Programs leave files in their copy, and the next run does not find them."""
    body = """
    seen = os.path.exists("state.pt")
    # wrong: z = h + torch.ones(()).item()
    z = h + 1
    torch.save(z.detach().cpu(), "state.pt")
    return seen
    """
    found = verified(body, tmp_path, runner, backends="policy")
    assert found.judged[1].judgement.verdict is Verdict.EXACT
    assert [path.name for path in (tmp_path / "tree").iterdir()] == ["train.py"]
    assert list((tmp_path / "lab").iterdir()) == []


def test_divergence_has_the_lines_of_both_sides(tmp_path: Path, runner: Any) -> None:
    _, used = verified(CASES["dtype"].body, tmp_path, runner).judged
    parting = used.by_backend["sim"].divergence
    assert parting is not None
    assert (parting.before[0].op, parting.after[0].op) == (
        "aten.zeros.default",
        "aten.new_zeros.default",
    )
    assert parting.before[0].row == parting.after[0].row == 29
