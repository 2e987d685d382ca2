"""What the recorder writes down, with whose line."""

import contextlib
import operator
import warnings
from pathlib import Path
from typing import Any

import pytest

from amplint_verify.recording.observation import Wait

torch = pytest.importorskip("torch")
fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")
record = pytest.importorskip("amplint_verify.recording.record")
F = torch.nn.functional

HERE = Path(__file__).resolve().parent
HALF = torch.float16


def ones(*shape: int, dtype: Any = None) -> Any:
    return torch.ones(*shape, dtype=dtype)


def low(*shape: int) -> Any:
    return ones(*shape, dtype=HALF)


def positions() -> Any:
    return torch.tensor([0, 1])


# A call with unequal dtypes, or a number too large, for each of the recorder's entries.
CLASHES: dict[str, Any] = {
    "mm": lambda: torch.mm(low(2, 2), ones(2, 2)),
    "mv": lambda: torch.mv(low(2, 2), ones(2)),
    "addmm": lambda: F.linear(low(2, 2), ones(2, 2), ones(2)),
    "addmm_": lambda: ones(2, 2).addmm_(low(2, 2), ones(2, 2)),
    "index_add": lambda: ones(2, 2).index_add(0, positions(), low(2, 2)),
    "index_add_": lambda: ones(2, 2).index_add_(0, positions(), low(2, 2)),
    "index_copy": lambda: ones(2, 2).index_copy(0, positions(), low(2, 2)),
    "index_copy_": lambda: ones(2, 2).index_copy_(0, positions(), low(2, 2)),
    "index_put": lambda: ones(2, 2).index_put((positions(),), low(2, 2)),
    "index_put_": lambda: ones(2, 2).index_put_((positions(),), low(2, 2)),
    "index_reduce": lambda: ones(2, 2).index_reduce(0, positions(), low(2, 2), "mean"),
    "index_reduce_": lambda: ones(2, 2).index_reduce_(0, positions(), low(2, 2), "mean"),
    "put": lambda: ones(2, 2).put(positions(), low(2)),
    "put_": lambda: ones(2, 2).put_(positions(), low(2)),
    "allclose": lambda: torch.allclose(ones(2), low(2)),
    "heaviside": lambda: torch.heaviside(ones(2), low(2)),
    "linalg_cross": lambda: torch.linalg.cross(ones(2, 3), low(2, 3)),
    "complex": lambda: torch.complex(ones(2), low(2)),
    "polar": lambda: torch.polar(ones(2), low(2)),
    "nll_loss_forward": lambda: F.nll_loss(ones(2, 2), positions(), weight=low(2)),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(low(2), ones(2)),
    "grid_sampler_2d": lambda: F.grid_sample(
        low(1, 1, 2, 2), ones(1, 2, 2, 2), align_corners=False
    ),
    "grid_sampler_3d": lambda: F.grid_sample(
        low(1, 1, 2, 2, 2), ones(1, 2, 2, 2, 3), align_corners=False
    ),
    "_embedding_bag": lambda: F.embedding_bag(
        positions()[None], ones(2, 2).requires_grad_(), per_sample_weights=low(1, 2), mode="sum"
    ),
    "_embedding_bag_forward_only": lambda: F.embedding_bag(
        positions()[None], ones(2, 2), per_sample_weights=low(1, 2), mode="sum"
    ),
    "masked_fill": lambda: low(2).masked_fill(ones(2) > 0, -1e9),
    "masked_fill_": lambda: low(2).masked_fill_(ones(2) > 0, -1e9),
}
# What may look like these and is fine for the real kernels.
FINE: dict[str, Any] = {
    "equal dtypes": lambda: torch.mm(low(2, 2), low(2, 2)),
    "masked by infinity": lambda: low(2).masked_fill(ones(2) > 0, float("-inf")),
    "a number that fits": lambda: low(2).masked_fill(ones(2) > 0, -1e4),
    "a number, not a tensor": lambda: low(2, 2).__setitem__(positions(), 1.0),
    "a slice": lambda: low(2, 2).__setitem__(0, ones(2)),
}


def flags(call: Any) -> list[str]:
    """What the strict recorder flags, over fake kernels."""
    recorder = record.Recorder(HERE, strict=True)
    unknown = contextlib.suppress(fake_tensor.DataDependentOutputException)  # the answer itself
    with fake_tensor.FakeTensorMode(), recorder, unknown:
        call()
    return [flag.op.split(".")[1] for flag in recorder.flags]


def test_every_entry_is_tried() -> None:
    entries = {packet.__name__ for packet in (*record.EQUAL_DTYPES, *record.HOLDS)}
    assert entries == set(CLASHES)


@pytest.mark.parametrize("name", CLASHES)
def test_what_is_flagged_raises_with_real_kernels_and_not_with_fake_ones(name: str) -> None:
    with pytest.raises(RuntimeError):
        CLASHES[name]()
    assert flags(CLASHES[name]) == [name]


@pytest.mark.parametrize("name", FINE)
def test_what_real_kernels_take_is_not_flagged(name: str) -> None:
    FINE[name]()
    assert flags(FINE[name]) == []


def rows_of(call: Any) -> list[Any]:
    recorder = record.Recorder(HERE)
    with warnings.catch_warnings(), recorder, record.HostMethods(recorder):
        warnings.simplefilter("ignore")
        call()
    return [row for row in recorder.rows if row.wait is not None]


READS: dict[str, tuple[Any, Wait]] = {
    "item": (lambda x: x[0].item(), Wait.SCALAR_READ),
    "float": (lambda x: float(x[0]), Wait.SCALAR_READ),
    "format": (lambda x: f"{x[0]:.3f}", Wait.SCALAR_READ),
    "truth": (lambda x: bool(x[0]), Wait.SCALAR_READ),
    "equal": (lambda x: torch.equal(x, x), Wait.SHAPE_READ),
    "nonzero": (lambda x: x.nonzero(), Wait.SHAPE_READ),
    "unique": (lambda x: x.unique(), Wait.SHAPE_READ),
    "masked_select": (lambda x: x.masked_select(x > 0), Wait.SHAPE_READ),
    "repeat_interleave": (lambda x: x.repeat_interleave(x.long()), Wait.SHAPE_READ),
    "mask": (lambda x: x[x > 0], Wait.BOOL_INDEX),
    "histc": (lambda x: x.histc(), Wait.SCALAR_READ),
    "inv": (lambda x: torch.linalg.inv(x.diag()), Wait.SCALAR_READ),
    "masked_fill": (lambda x: x.masked_fill(x > 0, x[0]), Wait.SCALAR_READ),
    "normal": (lambda x: torch.normal(0.0, x), Wait.SCALAR_READ),
    "linspace": (lambda x: torch.linspace(0, x[0], 4), Wait.SCALAR_READ),
    "tolist": (lambda x: x.tolist(), Wait.SCALAR_READ),
    "cpu": (lambda x: x.cpu(), Wait.TO_HOST),
    "numpy": (lambda x: x.numpy(), Wait.TO_HOST),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_is_counted_once_and_is_the_users(name: str) -> None:
    call, wait = READS[name]
    (row,) = rows_of(lambda: call(torch.ones(4)))
    assert (row.wait, row.direct, row.path) == (wait, True, "test_record.py")
    assert name in Path(__file__).read_text(encoding="utf-8").splitlines()[row.row - 1]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 1,
        lambda x: x[torch.tensor([0, 1])],
        lambda x: x.where(x > 0, 0.0),
        lambda x: x.repeat_interleave(torch.ones(4).long(), output_size=4),
        lambda x: x.shape[0],
        lambda x: x.index_put_((x > 0,), torch.tensor(1.0)),
        lambda x: operator.setitem(x, x > 0, 1.0),
        lambda x: x.masked_fill(x > 0, 1.0),
        lambda x: torch.normal(x, 1.0),
    ],
)
def test_what_reads_nothing_is_no_wait(call: Any) -> None:
    assert rows_of(lambda: call(torch.ones(4))) == []


def test_what_a_library_reads_is_its_own() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)

    def clip() -> None:
        torch.nn.utils.clip_grad_norm_([parameter], 1.0, error_if_nonfinite=True)

    (row,) = rows_of(clip)
    assert (row.wait, row.direct, row.path) == (Wait.SCALAR_READ, False, "test_record.py")


def test_a_loader_reads_no_device() -> None:
    data = torch.utils.data.TensorDataset(torch.ones(4, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)
    assert rows_of(lambda: list(loader)) == []


def test_rows_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MAX_ROWS", 2)
    recorder = record.Recorder(HERE)
    with recorder:
        for _ in range(5):
            torch.ones(4)
    seen = recorder.fields()
    assert (len(seen["rows"]), seen["dropped"]) == (2, 3)


def test_waits_that_name_no_tensor_are_counted() -> None:
    recorder = record.Recorder(HERE)
    with record.waiting_functions(recorder, call=False):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    assert [row.wait for row in recorder.rows] == [Wait.SYNCHRONIZE, Wait.EMPTY_CACHE]
