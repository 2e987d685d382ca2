"""docs/myths.md against the installed torch: every line of the page, and the check that it names.

What CUDA autocast does is asked of its own kernels: a CPU build of torch has them, and FakeTensor
runs them without a device. Everything else runs on the CPU.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import pytest

from tests.helpers import ROOT

torch = pytest.importorskip("torch")
fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")
parallel_apply = pytest.importorskip("torch.nn.parallel.parallel_apply")
nn, F = torch.nn, torch.nn.functional

PAGE = (ROOT / "docs" / "myths.md").read_text(encoding="utf-8")
# A line is a row of a table: what is said, what torch does, and what shows it.
LINE = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
HALF, BFLOAT, SINGLE = torch.float16, torch.bfloat16, torch.float32

Check = Callable[[], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Register what shows a line of the page; the line names it."""
    CHECKS[function.__name__] = function
    return function


# ----------------------------------------------------------------------- the page and the checks


def lines() -> list[tuple[str, str, str]]:
    """The lines of all tables of the page, without the heads."""
    rows = [tuple(cell.strip() for cell in row) for row in LINE.findall(PAGE)]
    return [
        (said, does, shown)
        for said, does, shown in rows
        if shown != "shown by" and not set(said) <= {"-", " "}
    ]


def test_a_line_names_its_check_or_its_source() -> None:
    """What no check can show here says what it takes, and links to where it is written."""
    for said, _, shown in lines():
        needs = re.fullmatch(r"needs (a GPU|Lightning): \[.+\]\(https://\S+\)", shown)
        assert needs or re.fullmatch(r"`\w+`", shown), said


def test_the_lines_and_the_checks_are_the_same() -> None:
    named = [shown.strip("`") for _, _, shown in lines() if shown.startswith("`")]
    assert len(named) == len(set(named)), "two lines with one check"
    assert set(named) == set(CHECKS)


# ------------------------------------------------------------------------------------- instruments


@contextmanager
def cuda_region(dtype: Any) -> Iterator[None]:
    """An autocast region of CUDA as C++ sees it, on a machine that has no such device."""
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])
        torch.set_autocast_cache_enabled(cached)


@contextmanager
def on_cuda() -> Iterator[Callable[..., Any]]:
    """A float16 region of CUDA; gives what makes tensors on that device, without values."""

    def ones(*size: int, dtype: Any = SINGLE) -> Any:
        return torch.ones(size, device="cuda", dtype=dtype)

    # Without gradients: a CPU build cannot make the node that accumulates one on a GPU.
    with fake_tensor.FakeTensorMode(), torch.no_grad(), cuda_region(HALF):
        yield ones


def has_cuda_kernel(name: str) -> bool:
    """Whether CUDA autocast has a kernel for an operation of ATen."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "AutocastCUDA") is True


def weight_after_a_step(scaled: bool, dtype: Any) -> float:
    """A weight of 1 after a step along a gradient that is 0 in float16 unless it is scaled."""
    weight = torch.ones(1, 1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1e7)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    with torch.autocast("cpu", dtype=dtype):
        out = F.linear(torch.ones(1, 1), weight)
        loss = out.float().sum() * 1e-8
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return float(weight.detach())


# ------------------------------------------------------------------------------ autocast, its lists


@check
def recurrent_cells_are_cast() -> None:
    with on_cuda() as ones:
        x, state = ones(2, 4), ones(2, 4)
        hidden, cell = torch.lstm_cell(x, (state, state), *gates(ones, 16))
        assert hidden.dtype == cell.dtype == HALF
        assert torch.rnn_tanh_cell(x, state, *gates(ones, 4)).dtype == HALF
    assert has_cuda_kernel("gru_cell")  # which FakeTensor cannot run


def gates(ones: Callable[..., Any], size: int) -> list[Any]:
    """The weights and biases of a recurrent cell."""
    return [ones(size, 4), ones(size, 4), ones(size), ones(size)]


@check
def more_than_matmul_and_conv_is_cast() -> None:
    with on_cuda() as ones:
        x, heads = ones(4, 4), ones(1, 2, 4, 4)
        assert torch.einsum("ij,jk->ik", x, x).dtype == HALF
        assert F.scaled_dot_product_attention(heads, heads, heads).dtype == HALF
        assert torch.linalg.multi_dot([x, x, x]).dtype == HALF
        assert torch.linalg.vecdot(x, x).dtype == HALF


@check
def more_than_the_old_list_widens() -> None:
    with on_cuda() as ones:
        h, image = ones(4, 4, dtype=HALF), ones(1, 2, 4, 4, dtype=HALF)
        wide = [
            F.huber_loss(h, h),
            torch.logsumexp(h, 0),
            F.rms_norm(h, (4,)),
            F.layer_norm(h, (4,)),
            F.interpolate(image, scale_factor=2.0),
            torch.linalg.vector_norm(h),
            torch.linalg.matrix_norm(h),
        ]
        assert [value.dtype for value in wide] == [SINGLE] * len(wide)


@check
def binary_cross_entropy_is_refused() -> None:
    with on_cuda() as ones, pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(ones(4), ones(4))  # though both are float32


@check
def kernels_are_more_than_the_docs_list() -> None:
    left_out = "einsum scaled_dot_product_attention huber_loss logsumexp rms_norm linalg_vecdot"
    for name in left_out.split():
        assert has_cuda_kernel(name)


@check
def other_operations_follow_promotion() -> None:
    with on_cuda() as ones:
        h, x = ones(4, 4, dtype=HALF), ones(4, 4)
        assert (h + x).dtype == torch.maximum(h, x).dtype == SINGLE
        assert (h * torch.ones((), device="cuda")).dtype == HALF  # no dimension, no promotion
    h, x = torch.ones(4, dtype=HALF), torch.ones(4)
    with torch.autocast("cpu"), pytest.raises(RuntimeError, match="dtype"):
        torch.lerp(h, x, 0.5)


@check
def many_devices_have_autocast() -> None:
    for device in ("cpu", "cuda", "xpu", "mps", "mtia", "maia", "xla", "hpu"):
        assert torch.amp.is_autocast_available(device)
    with torch.autocast("cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == BFLOAT


@check
def replicas_take_over_the_switch_and_not_the_dtype() -> None:
    class Replica(nn.Module):
        def forward(self, x: Any) -> tuple[Any, ...]:
            state = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
            return x, threading.current_thread(), *state

    # An accelerator, for as long as `parallel_apply` asks for one.
    patches = {
        "current_stream": lambda *_: nullcontext(),
        "device_index": lambda *_: nullcontext(),
        "is_available": lambda: True,
        "current_accelerator": lambda: torch.device("cuda"),
    }
    common = torch.cuda.amp.common
    with ExitStack() as stack:
        for name, stub in patches.items():
            stack.enter_context(mock.patch.object(torch.accelerator, name, stub))
        stack.enter_context(mock.patch.object(common, "amp_definitely_not_available", bool))
        stack.enter_context(cuda_region(BFLOAT))
        x = torch.ones(1)
        seen = parallel_apply.parallel_apply([Replica(), Replica()], [x, x], devices=[0, 1])
    assert len({thread for _, thread, *_ in seen} | {threading.current_thread()}) == 3
    assert [state for _, _, *state in seen] == [[True, HALF]] * 2


# --------------------------------------------------------------------------- gradients and scaling


@check
def gradients_vanish_without_a_scaler() -> None:
    assert weight_after_a_step(scaled=False, dtype=HALF) == 1.0
    assert weight_after_a_step(scaled=True, dtype=HALF) < 1.0


@check
def a_scaler_is_for_float16_alone() -> None:
    assert weight_after_a_step(scaled=False, dtype=BFLOAT) < 1.0
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(weight.sum()).backward()  # and no autocast anywhere
    scaler.step(optimizer)
    assert weight.tolist() == [0.0, 0.0]


@check
def the_names_in_torch_cuda_amp_warn() -> None:
    for name in ("autocast", "GradScaler"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            getattr(torch.cuda.amp, name)()
        assert any(
            issubclass(warning.category, FutureWarning)
            and f"`torch.cuda.amp.{name}(args...)` is deprecated" in str(warning.message)
            for warning in caught
        )


@check
def torch_has_what_apex_was_for() -> None:
    assert {"autocast", "GradScaler", "custom_fwd", "custom_bwd"} <= set(torch.amp.__all__)
    assert weight_after_a_step(scaled=True, dtype=HALF) < 1.0


# -------------------------------------------------------------------------------- tensors of a step


@check
def where_widens() -> None:
    mask = torch.tensor([True, False])
    h, x = torch.ones(2, dtype=HALF), torch.zeros(2)
    assert torch.where(mask, h, x).dtype == SINGLE
    assert torch.where(mask, h, 0.0).dtype == torch.where(mask, h, x[0]).dtype == HALF


@check
def a_cast_in_the_comparison_moves_the_mask() -> None:
    cosine, threshold = torch.tensor([0.50001]), 0.5
    assert (cosine > threshold).item()
    assert not (cosine.half() > threshold).item()


@check
def accumulators_in_half_stand_still() -> None:
    h = torch.ones(1, dtype=HALF)
    narrow, wide = h.new_zeros(1), torch.zeros(1, device=h.device)
    for _ in range(4096):
        narrow += h
        wide += h
    assert (narrow.item(), wide.item()) == (2048.0, 4096.0)


@check
def new_full_has_the_dtype_of_its_tensor() -> None:
    assert torch.arange(2).new_full((2,), 0.5).tolist() == [0, 0]
    assert torch.full((2,), 0.5).tolist() == [0.5, 0.5]
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.ones(1, dtype=HALF).new_full((2,), -1e9)


@check
def a_factory_on_the_device_is_another_program() -> None:
    # "meta" stands for a device: its tensors have no values, the rest is the same.
    torch.manual_seed(0)
    before = torch.get_rng_state()
    there = torch.rand(2, device="meta", requires_grad=True)
    assert torch.equal(torch.get_rng_state(), before)
    moved = torch.rand(2, requires_grad=True).to("meta")
    assert not torch.equal(torch.get_rng_state(), before)
    assert there.is_leaf and not moved.is_leaf


@check
def detach_stays_on_the_device() -> None:
    there = torch.ones(2, device="meta", requires_grad=True).detach()
    assert there.device.type == "meta" and not there.requires_grad
    loss = torch.zeros((), requires_grad=True)
    kept = loss.detach()
    with torch.no_grad():
        loss += 1.0
    assert isinstance(kept, torch.Tensor) and kept.item() == 1.0  # one memory


@pytest.mark.parametrize("name", CHECKS)
def test_torch_does_so(name: str) -> None:
    CHECKS[name]()
