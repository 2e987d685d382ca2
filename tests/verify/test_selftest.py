"""The back ends make of PyTorch's own lists what PyTorch says; a wrong one would be seen."""

from typing import Any

import pytest

from amplint_verify import selftest
from amplint_verify.backends.choice import BACKENDS
from amplint_verify.recording.observation import Observation, RunOutcome
from amplint_verify.runs.run import Runner
from amplint_verify.selftest import ABSENT, RIGHT, WRONG, ListedCall, SelfTestReport, SelfTestRow

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")  # the module of the lists wants it


@pytest.mark.parametrize("name", ["sim", "policy"])
def test_a_back_end_gives_what_the_lists_say(name: str, runner: Runner) -> None:
    (report,) = selftest.run([BACKENDS[name]], runner)
    assert report.obstacle == ""
    assert len(report.rows) > 100
    assert [row for row in report.rows if row.verdict == WRONG] == []
    absent = {row.op for row in report.rows if row.verdict == ABSENT}
    assert absent <= {"cudnn_convolution", "cudnn_convolution_transpose"}
    assert selftest.status([report]) == 0


def test_a_back_end_without_cuda_autocast_is_not_tried(runner: Runner) -> None:
    assert list(selftest.run([BACKENDS["cpu"]], runner)) == []
    assert selftest.status([]) == 3


X = torch.arange(1.0, 5.0)


def call(op: str, run_as: Any, gives: Any, **kwargs: Any) -> ListedCall:
    return ListedCall("list", op, (torch,), (X,), kwargs, run_as, gives)


# On the CPU, autocast leaves sqrt and exp alone.
@pytest.mark.parametrize(
    ("asked", "function", "verdict", "text"),
    [
        (call("sqrt", torch.float32, torch.float32), torch.sqrt, RIGHT, ""),
        (
            call("sqrt", torch.float32, torch.float16),
            torch.sqrt,
            WRONG,
            "torch.float32, not torch.float16",
        ),
        (call("sqrt", torch.float16, torch.float32), torch.sqrt, WRONG, "other values"),
        (call("sqrt", None, None), torch.sqrt, WRONG, "autocast lets it pass"),
    ],
)
def test_a_wrong_result_is_seen(asked: ListedCall, function: Any, verdict: str, text: str) -> None:
    assert selftest.compared(asked, function, "cpu", torch) == (verdict, text)


@pytest.mark.parametrize(
    ("error", "asked", "verdict"),
    [
        (RuntimeError("it was not compiled with CUDA"), torch.float32, ABSENT),
        (RuntimeError("shapes do not agree"), torch.float32, WRONG),
        (RuntimeError("this is unsafe to autocast"), None, RIGHT),
        (RuntimeError("shapes do not agree"), None, WRONG),
    ],
)
def test_an_error_is_no_result(error: Exception, asked: Any, verdict: str) -> None:
    def fails(_: Any) -> None:
        raise error

    assert selftest.compared(call("f", asked, asked), fails, "cpu", torch)[0] == verdict


def test_a_name_that_torch_does_not_have_is_no_result() -> None:
    row = selftest.row_of(call("no_such_function", torch.float32, torch.float32), "cpu", torch)
    assert (row.verdict, row.text) == (ABSENT, "this torch has no such name")


def test_what_was_not_right_is_printed_and_decides_the_status() -> None:
    rows = (
        SelfTestRow("torch_fp32", "exp", RIGHT),
        SelfTestRow("torch_fp32", "pow", WRONG, "torch.float16"),
    )
    report = SelfTestReport(BACKENDS["sim"], rows)
    assert selftest.as_text(report).splitlines() == [
        f"sim: 1 of 2 calls of {selftest.LISTS}",
        f"  {'torch_fp32':32}   1 of   2",
        "  wrong: torch_fp32.pow: torch.float16",
    ]
    assert selftest.status([report]) == 1


def test_without_the_lists_it_is_said_why() -> None:
    seen = Observation(
        "sim", "", RunOutcome.EXCEPTION, "ModuleNotFoundError", "No module named 'x'"
    )
    rows, obstacle = selftest.read(seen)
    assert (rows, obstacle) == ((), "exception: ModuleNotFoundError: No module named 'x'")
    assert selftest.status([SelfTestReport(BACKENDS["sim"], rows, obstacle)]) == 3
