"""`amplint verify --self-test`: the harness against PyTorch's own lists of autocast operations.

PyTorch tests autocast on CUDA by lists of calls, with the dtype that each returns
(`torch.testing._internal.autocast_test_lists`, a private module; what uses it here is this check
alone). The same calls are made on each back end. Where there are values, they must be, to the bit,
those of the call with its arguments cast by hand.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
import tempfile
import types
import unittest
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from amplint_verify.backends.choice import Aspect, AspectShown, Backend
from amplint_verify.recording.observation import Observation, RunOutcome
from amplint_verify.runs.run import Runner
from amplint_verify.runs.spec import Spec

LISTS = "torch.testing._internal.autocast_test_lists"
RIGHT, WRONG, ABSENT = "right", "wrong", "no kernel"
# What errors say when an operation is not in this build, or not there at all.
NOT_THERE = (
    "not linked", "not compiled", "cudnn", "Could not run", "is not available", "no NVIDIA driver",
    "No CUDA GPUs", "no CUDA-capable device",
)  # fmt: skip


@dataclass(frozen=True)
class SelfTestRow:
    """The result of one call of the lists.

    Args:
        group: the list that it stands in, e.g. "torch_fp32".
        op: e.g. "softmax".
        verdict: "right", "wrong" or "no kernel".
        text: what was seen instead.
    """

    group: str
    op: str
    verdict: str
    text: str = ""


# ------------------------------------------------------------------------------- in the child


@dataclass(frozen=True)
class ListedCall:
    """A call of the lists.

    Args:
        group, op: as in `SelfTestRow`.
        homes: where the operation is looked for: modules, or torch.Tensor.
        args, kwargs: of the call.
        run_as: what autocast casts the arguments to; None if it is to refuse them.
        gives: the dtype of the result.
    """

    group: str
    op: str
    homes: tuple[Any, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    run_as: Any
    gives: Any


def calls(lists: Any, torch: Any) -> Iterator[ListedCall]:
    """The calls, as PyTorch's test_cuda.py reads its lists."""
    half, full = torch.float16, torch.float32
    everywhere, methods, nn = (torch, torch.Tensor), (torch.Tensor,), (torch._C._nn,)
    # List, where its operations are, the dtype that they run in, what a third item means.
    groups = (
        ("torch_fp16", everywhere, half, "skip"),
        ("torch_fp32", everywhere, full, "kwargs"),
        ("torch_need_autocast_promote", everywhere, full, "kwargs"),
        ("torch_expect_builtin_promote", everywhere, full, "gives"),
        ("nn_fp16", nn, half, "kwargs"),
        ("nn_fp32", nn, full, "kwargs"),
        ("methods_fp16", methods, half, "kwargs"),
        ("methods_fp32", methods, full, "kwargs"),
        ("methods_expect_builtin_promote", methods, full, "gives"),
    )
    for group, homes, run_as, third in groups:
        for op, args, *rest in getattr(lists, group):
            extra = rest[0] if rest else None
            if third == "skip" and extra:
                continue
            kwargs = extra if third == "kwargs" and extra else {}
            gives = extra if third == "gives" else run_as
            yield ListedCall(group, op, homes, args, kwargs, run_as, gives)
    for op, args, module in lists.banned:
        yield ListedCall("banned", op, (module,), args, {}, None, None)


def measure(device: str) -> str:
    """Make all calls on a device; the rows as JSON. This runs in a child, on a back end."""
    import torch  # noqa: PLC0415

    without_expecttest()
    lists = importlib.import_module(LISTS).AutocastTestLists(torch.device(device, 0))
    rows = [asdict(row_of(call, device, torch)) for call in calls(lists, torch)]
    return json.dumps(rows)


def without_expecttest() -> None:
    """Have `torch.testing._internal` import: it wants a test case that is not used here."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in


def row_of(call: ListedCall, device: str, torch: Any) -> SelfTestRow:
    homes = [home for home in call.homes if hasattr(home, call.op)]
    if not homes:
        return SelfTestRow(call.group, call.op, ABSENT, "this torch has no such name")
    for home in homes:
        comparison = compared(call, getattr(home, call.op), device, torch)
        if comparison[0] != RIGHT:
            return SelfTestRow(call.group, call.op, *comparison)
    return SelfTestRow(call.group, call.op, RIGHT)


def compared(call: ListedCall, function: Any, device: str, torch: Any) -> tuple[str, str]:
    """The verdict on a call, and what was seen."""
    try:
        with torch.autocast(device, dtype=torch.float16):
            result = function(*call.args, **call.kwargs)
    except Exception as error:
        text = f"{type(error).__name__}: {error}".partition("\n")[0].partition(". ")[0]
        if any(part in str(error) for part in NOT_THERE):
            return ABSENT, text
        return (
            (RIGHT, "") if call.run_as is None and "unsafe to autocast" in text else (WRONG, text)
        )
    if call.run_as is None:
        return WRONG, "autocast lets it pass"
    if isinstance(result, torch.Tensor) and result.dtype != call.gives:
        return WRONG, f"{result.dtype}, not {call.gives}"
    tree_map = importlib.import_module("torch.utils._pytree").tree_map
    cast = tree_map(
        lambda x: x.to(call.run_as) if _is_float(x, torch) else x, (call.args, call.kwargs)
    )
    control = function(*cast[0], **cast[1])
    return (RIGHT, "") if _equal(result, control, torch) else (WRONG, "other values")


def _is_float(value: Any, torch: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _equal(one: Any, other: Any, torch: Any) -> bool:
    """Whether two results are equal to the bit, as far as they have values."""
    if isinstance(one, torch.Tensor):
        fakes = importlib.import_module("torch._subclasses.fake_tensor")
        if isinstance(one, fakes.FakeTensor):
            return bool(one.dtype == other.dtype and one.shape == other.shape)
        return bool(torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)))
    if isinstance(one, (list, tuple)):
        return all(_equal(a, b, torch) for a, b in zip(one, other, strict=True))
    return bool(one == other)


# ------------------------------------------------------------------------------- in the parent


@dataclass(frozen=True)
class SelfTestReport:
    """The results of a back end.

    Args:
        backend: which.
        rows: a row for each call.
        obstacle: why there are none.
    """

    backend: Backend
    rows: tuple[SelfTestRow, ...]
    obstacle: str = ""


def run(backends: Sequence[Backend], runner: Runner) -> Iterator[SelfTestReport]:
    """Make the calls on each back end that shows dtypes of CUDA autocast."""
    with tempfile.TemporaryDirectory(prefix="amplint-") as root:
        for backend in backends:
            if backend.shows[Aspect.DTYPES] is AspectShown.NO:
                continue
            target = f"{measure.__module__}:{measure.__name__}"
            answer = runner.run(Spec(root, target, backend.name, ("{device}",)))
            yield SelfTestReport(backend, *read(answer))


def read(answer: Observation) -> tuple[tuple[SelfTestRow, ...], str]:
    """The rows that a child wrote, or why there are none."""
    if answer.outcome is not RunOutcome.OK:
        return (), f"{answer.outcome.value}: {answer.error}: {answer.text}".partition("\n")[0]
    return tuple(
        SelfTestRow(**row) for row in json.loads(ast.literal_eval(answer.result[0].text))
    ), ""


def status(reports: Sequence[SelfTestReport]) -> int:
    """The exit status: 1 if a call gave what it should not, 3 if nothing could be tried, else 0."""
    rows = [row for report in reports for row in report.rows]
    if any(row.verdict == WRONG for row in rows):
        return 1
    return 0 if rows and not any(report.obstacle for report in reports) else 3


def as_text(report: SelfTestReport) -> str:
    """Counts by list, and every call that was not right."""
    if report.obstacle:
        return f"{report.backend.name}: not tried: {report.obstacle}"
    counts: Counter[tuple[str, str]] = Counter((row.group, row.verdict) for row in report.rows)
    right = sum(count for (_, verdict), count in counts.items() if verdict == RIGHT)
    lines = [f"{report.backend.name}: {right} of {len(report.rows)} calls of {LISTS}"]
    for group in dict.fromkeys(row.group for row in report.rows):
        total = sum(count for (name, _), count in counts.items() if name == group)
        lines.append(f"  {group:32} {counts[group, RIGHT]:3} of {total:3}")
    lines += [
        f"  {row.verdict}: {row.group}.{row.op}: {row.text}"
        for row in report.rows
        if row.verdict != RIGHT
    ]
    return "\n".join(lines)
