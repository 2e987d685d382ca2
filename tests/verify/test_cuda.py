"""The back end `cuda`, where there is a GPU; everything else is tested without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint_verify.backends.choice import missing
from amplint_verify.recording.observation import Observation, RunOutcome, Wait
from amplint_verify.runs.run import Runner
from amplint_verify.runs.spec import Spec

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(missing("cuda") is not None, reason="there is no GPU")

PROGRAMS = Path(__file__).with_name("programs")


def run(runner: Runner, target: str) -> Observation:
    seen = runner.run(Spec(str(PROGRAMS), target, "cuda", ("{device}",)))
    assert seen.outcome is RunOutcome.OK, f"{seen.error}: {seen.text} ({seen.place})"
    return seen


def rows_between(file: str, first: str, last: str) -> list[int]:
    lines = (PROGRAMS / file).read_text(encoding="utf-8").splitlines()
    at = [next(row for row, line in enumerate(lines, 1) if text in line) for text in (first, last)]
    return list(range(at[0], at[1] + 1))


@pytest.mark.parametrize(
    ("target", "first", "last"),
    [
        ("gpus:reads", "x.sum().item()", "x.repeat_interleave"),
        ("on_gpu:numbers", "factor = ", "Event().synchronize"),
    ],
)
def test_every_wait_is_found_at_its_line(
    target: str, first: str, last: str, runner: Runner
) -> None:
    seen = run(runner, target)
    found = sorted({row.row for row in seen.rows if row.wait is not None})
    expected = rows_between(f"{target.partition(':')[0]}.py", first, last)
    assert found == expected
    assert seen.counters["sync debug mode"] > 0


def test_what_does_not_wait_is_not_counted(runner: Runner) -> None:
    seen = run(runner, "on_gpu:silent")
    assert [row for row in seen.rows if row.wait is not None] == []
    assert seen.counters["sync debug mode"] == 0


def test_a_number_of_a_list_is_a_copy(runner: Runner) -> None:
    seen = run(runner, "on_gpu:numbers")
    assert seen.waits[Wait.TO_DEVICE.value].user == 3
    assert seen.to_device == 4 + 4 + 8


def test_determinism_leaves_dtypes_alone(runner: Runner) -> None:
    (leaf,) = run(runner, "on_gpu:resized").result
    assert leaf.tensor is not None
    assert leaf.tensor.dtype == "float32"


def test_a_number_that_is_chosen_is_converted(runner: Runner) -> None:
    seen = runner.run(Spec(str(PROGRAMS), "on_gpu:beyond", "cuda", ("{device}",)))
    assert seen.outcome is RunOutcome.EXCEPTION
    assert "without overflow" in seen.text


def test_a_training_step_runs(runner: Runner) -> None:
    seen = run(runner, "gpus:step")
    found = {leaf.where: leaf.tensor for leaf in (*seen.result, *seen.state) if leaf.tensor}
    assert {tensor.device for tensor in found.values()} == {"cuda:0"}
    assert found["result['y']"].dtype == "float16"
    assert found["state['parameters']['0.weight']"].dtype == "float32"
