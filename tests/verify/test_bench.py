"""What is measured of two versions of a program, in processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from amplint_verify.backends.choice import BACKENDS
from amplint_verify.compare.bench import PAIRS, Bench, BenchPoint, Counts, Subject, text
from amplint_verify.compare.ratios import RatioClaim
from amplint_verify.runs.drivers import StartKind, UserProgram
from tests.helpers import write

# Both versions differ in NUMBER, and in a module that is imported when the program runs.
TRAIN = """
import torch
from torch import nn

from wait import wait


def main(device, batch_size=4):
    from late import NUMBER
    model = nn.Linear(256, 256).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.ones(batch_size, 256, device=device)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(x).sum()
        loss.backward()
        optimizer.step()
        for _ in range(NUMBER):
            loss.item()
    wait(NUMBER)


def plain(device):
    assert not torch.is_autocast_enabled(device)
"""
# Several times what a step takes besides, so that a busy machine changes no claim.
SECONDS = 0.01
WAIT = f"import time\n\n\ndef wait(number):\n    time.sleep({SECONDS} * number)\n"


def subject(
    directory: Path, before: int, after: int, entry: str = "main", **program: Any
) -> Subject:
    def copy(fixed: bool, place: Path) -> object:
        number = f"NUMBER = {after if fixed else before}\n"
        files = {"train.py": TRAIN, "wait.py": WAIT, "late.py": number}
        return write({name: text.encode() for name, text in files.items()}, place)

    named = UserProgram(StartKind.ENTRY, f"train:{entry}", **program)
    return Subject("it", named, directory / "original", copy)


def bench(backends: str, directory: Path, runner: Any, sizes: tuple[int, ...] = (4,)) -> Bench:
    chosen = [BACKENDS[name] for name in backends.split()]
    return Bench(chosen, sizes, directory / "lab", runner.run, seconds=60, memory=2 << 30)


def test_counts_are_exact(tmp_path: Path, runner: Any) -> None:
    asked = subject(tmp_path, 2, 1)
    points = list(bench("sim policy", tmp_path, runner, (4, 8)).points(asked))
    assert [(each.backend, each.size, each.precision) for each in points] == [
        (backend, size, precision)
        for backend in ("sim", "policy")
        for size in (4, 8)
        for precision in ("fp32", "fp16", "bf16")
    ]
    assert not any(each.missing or each.times for each in points)
    weights = 2 * (256 * 256 + 256) * 4  # parameters and gradients
    for point in points:
        before, after = point.before, point.after
        assert before is not None and after is not None
        if point.backend == "sim":
            copied = weights // 2
            assert (before, after) == (Counts(3, 8, copied, None), Counts(3, 5, copied, None))
        else:
            assert (before.steps, before.waits, before.to_device) == (3, None, None)
            assert before.peak == after.peak is not None and before.peak > weights
    by_setting = {(each.size, each.precision): each.before for each in points[6:]}
    peaks = {key: counts.peak or 0 for key, counts in by_setting.items() if counts}
    assert peaks[8, "fp32"] - peaks[4, "fp32"] >= 4 * 256 * 4
    assert peaks[4, "fp16"] == peaks[4, "bf16"] != peaks[4, "fp32"]
    assert not (tmp_path / "lab/bench").exists()


def test_steps_end_what_is_measured(tmp_path: Path, runner: Any) -> None:
    point = next(bench("sim", tmp_path, runner).points(subject(tmp_path, 1, 1, steps=2)))
    assert point.before is not None and point.before.steps == 2


@pytest.mark.parametrize(
    ("before", "after", "claimed"),
    [(4, 1, RatioClaim.LESS), (1, 4, RatioClaim.MORE)],
)
def test_durations(
    before: int, after: int, claimed: RatioClaim, tmp_path: Path, runner: Any
) -> None:
    """Waits are seen, and against itself the original has none."""
    point = bench("cpu", tmp_path, runner).point(
        subject(tmp_path, before, after), BACKENDS["cpu"], "bf16", None
    )
    times = point.times
    assert times is not None and not point.missing
    assert times.claim is claimed
    assert times.measured.pairs == times.control.pairs == PAIRS
    assert times.before >= SECONDS * before and times.after >= SECONDS * after
    assert times.control.low < 1.25 and times.control.high > 0.8
    assert times.peak is None


@pytest.mark.parametrize(
    ("entry", "precision", "missing"),
    [
        ("plain", "fp16", "no region of autocast was on"),
        ("nothing", "fp32", "the original raises UnstartedError: there is no 'train:nothing'"),
    ],
)
def test_what_cannot_be_measured_is_told(
    entry: str, precision: str, missing: str, tmp_path: Path, runner: Any
) -> None:
    asked = subject(tmp_path, 1, 1, entry)
    point = bench("cpu", tmp_path, runner).point(asked, BACKENDS["cpu"], precision, None)
    assert point.missing.startswith(missing)
    assert (point.before, point.after, point.times) == (None, None, None)
    (line,) = text([point])
    assert line == f"it on cpu, {precision}: {point.missing}"


def test_lines_for_a_terminal() -> None:
    before, after = Counts(3, 9, 100, None), Counts(3, 3, 50, None)
    point = BenchPoint("train:main", "sim", "fp16", 8, before, after)
    assert list(text([point])) == [
        "train:main on sim, fp16, batches of 8: waits of the host 9 -> 3; "
        "bytes to the device 100 -> 50"
    ]
