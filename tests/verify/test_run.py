"""Whatever a program does ends in an observation."""

import time
from pathlib import Path
from typing import Any

import pytest

from amplint_verify.recording.observation import Observation, RunOutcome
from amplint_verify.runs.run import Runner, fresh, running
from amplint_verify.runs.spec import Spec

pytest.importorskip("torch")

PROGRAMS = Path(__file__).with_name("programs")


def spec(name: str, backend: str = "cpu", **changes: Any) -> Spec:
    return Spec(str(PROGRAMS), f"runs:{name}", backend, **{"seconds": 60.0, **changes})


def check_returns(seen: Observation) -> None:
    assert (seen.outcome, seen.text) == (RunOutcome.OK, "")
    leaves = {leaf.where: leaf for leaf in seen.result}
    assert leaves["result['n']"].text == "3"
    total = leaves["result['sum']"].tensor
    assert total is not None
    assert (total.dtype, total.device, total.shape) == ("float32", "cpu", ())
    assert [row.op for row in seen.rows if row.path == "runs.py"][-2:] == [
        "aten.mm.default",
        "aten.sum.default",
    ]


def test_a_result_comes_from_a_new_process() -> None:
    check_returns(fresh(spec("returns", args=("{device}",))))


def test_a_back_end_that_does_not_start_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no driver of this age')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with running() as runner:
        seen = [runner.run(spec("returns")) for _ in range(2)]
    assert {each.outcome for each in seen} == {RunOutcome.NOT_SIMULABLE}
    said = "the back end cpu did not start: ImportError: no driver of this age"
    assert [each.text for each in seen] == [said, said]


def test_a_gpu_is_seen_by_no_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with running() as runner:
        assert [leaf.text for leaf in runner.run(spec("environment")).result] == ["''"]
    assert [leaf.text for leaf in fresh(spec("environment")).result] == ["'0'"]


def test_a_result_comes_from_a_fork(runner: Runner) -> None:
    check_returns(runner.run(spec("returns", args=("{device}",))))


@pytest.mark.parametrize(
    ("name", "outcome", "error", "text"),
    [
        ("raises", RunOutcome.EXCEPTION, "ValueError", "not today"),
        ("leaves", RunOutcome.NO_RESULT, "SystemExit", "sys.exit(7)"),
        ("vanishes", RunOutcome.NO_RESULT, "exit 3", "gone"),
        ("crashes", RunOutcome.KILLED, "SIGSEGV", "Segmentation fault"),
        ("grows", RunOutcome.EXCEPTION, "RuntimeError", "allocate"),
        ("floods", RunOutcome.OK, "", ""),
        ("leaves_others_behind", RunOutcome.OK, "", ""),
    ],
)
def test_how_a_program_ends(
    name: str, outcome: RunOutcome, error: str, text: str, runner: Runner
) -> None:
    args = ("{device}",) if name == "raises" else ()
    start = time.monotonic()
    seen = runner.run(spec(name, args=args))
    assert (seen.outcome, seen.error) == (outcome, error), seen.text
    assert text in seen.text
    assert time.monotonic() - start < 30
    # And the next one is none the worse for it.
    assert runner.run(spec("branch", args=(0,))).outcome is RunOutcome.OK


def test_a_program_that_hangs_is_ended(runner: Runner) -> None:
    start = time.monotonic()
    seen = runner.run(spec("hangs", seconds=2.0))
    assert (seen.outcome, seen.text) == (RunOutcome.TIMEOUT, "no answer within 2 s")
    assert time.monotonic() - start < 20


def test_what_raises_has_a_place(runner: Runner) -> None:
    seen = runner.run(spec("raises", args=("{device}",)))
    rows = (PROGRAMS / "runs.py").read_text(encoding="utf-8").splitlines()
    path, _, row = seen.place.partition(":")
    assert path == "runs.py"
    assert "not today" in rows[int(row) - 1]


def test_the_seed_decides_what_is_drawn(runner: Runner) -> None:
    one, same, other = (runner.run(spec("draws", seed=seed)) for seed in (1, 1, 2))
    assert one.result == same.result
    assert one.rng == same.rng
    assert one.result != other.result
    assert one.rng != other.rng


def test_what_ran_is_known(runner: Runner) -> None:
    text = (PROGRAMS / "runs.py").read_text(encoding="utf-8").splitlines()
    taken = runner.run(spec("branch", args=(1,), traced=("runs.py",))).ran["runs.py"]
    assert {text[row - 1].strip() for row, *_ in taken} >= {"if x:", "return 1"}
    assert "return 2" not in {text[row - 1].strip() for row, *_ in taken}
    assert runner.run(spec("branch", args=(1,))).ran == {}


def test_a_target_that_is_not_there_is_an_exception(runner: Runner) -> None:
    assert runner.run(spec("nothing")).error == "AttributeError"
